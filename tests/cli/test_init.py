"""`headrace init` makes a project that can be read and whose connectors accept their options.

Method: the installed command into temporary folders, then the product's own reader and the connectors' own checks.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.catalog import project
from headrace.engine.connectors import check, make_source
from headrace.sources.connectors.http.transactions import read_transaction

COMMAND = Path(sys.executable).with_name("headrace")
EXPECTED = {
    "http": [
        ".gitignore", "README.md", "headrace.yaml", "sinks/local.yaml", "sources/shop.yaml",
        "tests/shop.yaml", "views/idle_customers.sql", "views/revenue.sql",
    ],
    "postgres": [
        ".gitignore", "README.md", "headrace.yaml", "sinks/reports.yaml", "sources/shop.yaml",
        "tests/revenue.yaml", "views/revenue.sql",
    ],
    "ctr": [
        ".gitignore", "README.md", "headrace.yaml", "pushed.json", "sinks/local.yaml", "sources/ads.yaml",
        "tests/ctr.yaml", "views/campaigns.sql", "views/ctr.sql",
    ],
    "files": [
        ".gitignore", "README.md", "headrace.yaml", "incoming/visits-1.csv", "sinks/local.yaml", "sources/visits.yaml",
        "tests/visits.yaml", "views/visits_per_page.sql",
    ],
}  # fmt: skip


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], check=False, capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize("template", sorted(EXPECTED))
def test_a_template_is_a_project_its_connectors_accept(template: str, tmp_path: Path) -> None:
    done = run("init", "shop", "--template", template, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"project": str(tmp_path / "shop"), "files": EXPECTED[template]}
    found = sorted(path.relative_to(tmp_path / "shop").as_posix() for path in (tmp_path / "shop").rglob("*"))
    assert [name for name in found if (tmp_path / "shop" / name).is_file()] == EXPECTED[template]
    read = project.read(tmp_path / "shop")
    assert read.settings.name == "shop"
    check(read)  # makes every connector, connecting to nothing
    assert (len(read.sources), len(read.sinks)) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("init shop --template postgrs", "no template 'postgrs': did you mean 'postgres'? There are http, postgres, ctr,"
         " files; `headrace init --list`"),
        ("init shop -t nosuch", "no template 'nosuch'. There are http, postgres, ctr, files; `headrace init --list`"),
        ("token create ann --role editr", "no role 'editr': did you mean 'editor'? There are viewer, editor, operator,"),
        ("sql --engine duck 1", "no engine 'duck': did you mean 'duckdb'? There are spark, duckdb"),
        ("series v --time t --every 1h --fill x", "no filling 'x'. There are null, zero, previous, linear, none"),
    ],
)  # fmt: skip
def test_a_choice_that_there_is_not_is_told_with_those_that_there_are(
    arguments: str, told: str, tmp_path: Path
) -> None:
    done = run(*arguments.split(), cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert f"there is {told}" in done.stderr and "Value error" not in done.stderr


def test_the_push_in_the_comments_of_the_http_template_is_a_transaction_of_its_tables(tmp_path: Path) -> None:
    run("init", cwd=tmp_path)
    text = (tmp_path / "sources/shop.yaml").read_text()
    body = re.search(r"-d '(.*?)'", re.sub(r"\n#", "\n", text), re.DOTALL)
    assert body is not None
    read = project.read(tmp_path)
    source = make_source(read.sources[0], read)
    keys = {relation.name: relation.key for relation in source.relations()}
    runs = read_transaction(json.loads(body[1]), keys)
    assert [(run.table, run.verb, len(run.rows)) for run in runs] == [
        ("customers", "upsert", 1),
        ("orders", "upsert", 1),
    ]
    assert str(source.token_path.relative_to(tmp_path)) in text  # type: ignore[attr-defined]
    assert f"http://127.0.0.1:{source.options.port}/transactions" in text  # type: ignore[attr-defined]


def test_it_says_what_it_made_and_what_comes_next(tmp_path: Path) -> None:
    done = run("init", "my shop", cwd=tmp_path)
    assert done.stdout.splitlines() == [
        *(f"  + {name}" for name in EXPECTED["http"]), "",
        "Next: cd 'my shop' && headrace plan", "Then: the commands of its README.md",
    ]  # fmt: skip


def test_an_empty_folder_becomes_the_project(tmp_path: Path) -> None:
    done = run("init", "--template", "files", cwd=tmp_path)
    assert "\nNext: headrace plan\n" in done.stdout
    assert (tmp_path / ".gitignore").read_text().endswith(".headrace/\n")


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views/revenue.sql").write_text("mine")
    (tmp_path / ".gitignore").write_text("mine")
    (tmp_path / "README.md").write_text("mine")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 1
    assert "[project.exists]" in done.stderr
    assert "views/revenue.sql" in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".gitignore", "README.md", "revenue.sql", "views"]
    (tmp_path / "views/revenue.sql").unlink()
    done = run("init", cwd=tmp_path)
    assert done.returncode == 0 and "README.md" not in done.stdout
    assert [(tmp_path / name).read_text() for name in (".gitignore", "README.md")] == ["mine", "mine"]


def test_the_list_has_every_template_with_what_it_is_for(tmp_path: Path) -> None:
    listed = json.loads(run("init", "--list", "--json", cwd=tmp_path).stdout)["templates"]
    assert sorted(template["name"] for template in listed) == sorted(EXPECTED)
    abouts = [template["about"] for template in listed]
    assert all(10 < len(about) < 110 for about in abouts) and len(set(abouts)) == len(abouts)
    shown = run("init", "--list", cwd=tmp_path).stdout
    assert all(f"{template['name']} " in shown and template["about"] in shown for template in listed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("template", sorted(EXPECTED))
def test_its_readme_has_three_commands(template: str, tmp_path: Path) -> None:
    run("init", "--template", template, cwd=tmp_path)
    (block,) = re.findall(r"^```\n(.*?)^```$", (tmp_path / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(block.splitlines()) == 3
    named = re.findall(r"`((?:sources|views|sinks)/\w+\.\w+)`", (tmp_path / "README.md").read_text())
    assert set(named) == {name for name in EXPECTED[template] if name.startswith(("sources", "views", "sinks"))}


def test_a_template_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    done = run("init", "--template", "kafka", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "postgres" in done.stderr


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("init", "file/shop", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
