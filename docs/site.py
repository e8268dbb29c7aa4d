"""Build the documentation as pages for a browser: ``make site`` writes build/site, index.html first.

python docs/site.py [--into DIR]

The Markdown of the whole repository at its own paths, so that every link between files leads somewhere, and a page for
each error code; MkDocs turns it into HTML and refuses a link that leads nowhere.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.model.errors import CODES
from headrace.model.remedies import REMEDIES

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("docs", "src", "examples", "console", "tests", "benchmarks")
LEFT_OUT = {"node_modules", "build", ".venv", "__pycache__"}
KINDS = {".md", ".svg", ".txt", ".json"}
CONFIG = """
site_name: Headrace
docs_dir: pages
site_dir: {site}
use_directory_urls: false
theme: {{name: readthedocs, highlightjs: false, analytics: {{}}}}
plugins: [search]
validation: {{links: {{not_found: warn, anchors: warn, unrecognized_links: ignore}}, omitted_files: ignore}}
nav:
  - Headrace: README.md
  - Documentation: docs/README.md
  - Error codes: docs/reference/errors.md
  - Architecture: ARCHITECTURE.md
  - Changes: CHANGELOG.md
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "site")
    site = parser.parse_args().into.absolute()
    with tempfile.TemporaryDirectory() as folder:
        return built(_staged(Path(folder)), site)


def _staged(work: Path) -> Path:
    """The folder with all pages, and the configuration beside it."""
    pages = work / "pages"
    for file in _files():
        into = pages / file.relative_to(ROOT)
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, into)
    for code, meaning in CODES.items():
        page = pages / "errors" / f"{code}.md"
        page.parent.mkdir(exist_ok=True)
        cause, repair = (part.replace("](", "](../docs/reference/") for part in REMEDIES[code])
        page.write_text(f"# {code}\n\n{meaning}\n\n## Cause\n\n{cause}\n\n## Repair\n\n{repair}\n", encoding="utf-8")
    return pages


def built(pages: Path, site: Path) -> int:
    """0, or the status of MkDocs, which has said what is wrong."""
    config = pages.with_name("mkdocs.yml")
    config.write_text(CONFIG.format(site=site), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write("".join(line for line in done.stderr.splitlines(True) if not line.startswith("INFO")))
    return done.returncode


def _files() -> list[Path]:
    """What the site is made of: Markdown, and the pictures and texts beside it."""
    found = [file for file in ROOT.iterdir() if file.suffix == ".md" or file.name == "LICENSE"]
    for part in PARTS:
        for file in (ROOT / part).rglob("*"):
            if file.suffix in KINDS and not LEFT_OUT.intersection(file.relative_to(ROOT).parts) and file.is_file():
                found.append(file)
    return found


if __name__ == "__main__":
    sys.exit(main())
