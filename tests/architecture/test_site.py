"""Goal: the documentation builds into pages, one for each error code. Method: MkDocs, which follows every link."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.model.errors import CODES

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs/site.py"


def test_the_documentation_builds_with_a_page_for_every_code(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SITE), "--into", str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {file.stem for file in (tmp_path / "errors").glob("*.html")} == set(CODES)
    index = (tmp_path / "docs/index.html").read_text()
    assert "reference/console.html" in index and "http://" not in index.split("</head>")[0]


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "pages"
    (pages / "docs/reference").mkdir(parents=True)
    for name in ("README.md", "docs/README.md", "docs/reference/errors.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        (pages / name).write_text("# A page\n\n[there](ARCHITECTURE.md)\n" if "/" not in name else "# Another\n")
    built = runpy.run_path(str(SITE))["built"]
    assert built(pages, tmp_path / "site") == 0
    (pages / "ARCHITECTURE.md").write_text("[nowhere](nowhere.md)")
    assert built(pages, tmp_path / "site") != 0
    assert "nowhere.md" in capsys.readouterr().err
