"""Goal: the rules find what they are for. Method: a small sound tree that keeps them all; one planted breach each time.

Every rule must report its planted breaches and, on the sound tree, nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rules import RULES
from rules.tree import Tree

ROWS = "".join(
    f"| {letter}{number} | something | not yet | nothing | |\n"
    for letter, count in {"A": 8, "B": 7, "C": 6, "D": 7, "E": 6, "F": 3}.items()
    for number in range(1, count + 1)
)
DECISION = "# 0000: form\n" + "".join(
    f"\n## {part}\n\ntext\n"
    for part in ("Problem", "Success criteria", "Out of scope", "Choice", "Alternatives", "Open questions")
)
SOUND = {
    "README.md": "# Headrace\n\nStart: `make demo`. See [the docs](docs/README.md#index).\n",
    "CHANGELOG.md": "# Changelog\n\nNotable changes.\n\n## [Unreleased]\n\n### Added\n\n- A view\n  of two lines.\n",
    "Makefile": ".PHONY: demo\n\ndemo: ## Run it\n\t$(BIN)/python docs/generate.py\n",
    "pyproject.toml": '[project.scripts]\nheadrace = "headrace.cli.main:main"\n',
    "docs/README.md": "# Index\n\n- [form](decisions/0000-template.md)\n",
    "docs/generate.py": "",
    "docs/decisions/0000-template.md": DECISION,
    "docs/reference/errors.md": "| `sql.syntax` | text |\n",
    "docs/reference/coverage.md": "| # | row | status | exists | tests |\n|---|---|---|---|---|\n" + ROWS,
    "src/headrace/__init__.py": "",
    "src/headrace/cli/__init__.py": "",
    "src/headrace/cli/README.md": "# cli\n",
    "src/headrace/cli/main.py": "from headrace.sources.registry import REGISTRY\n\ndef main():\n    print(REGISTRY)\n",
    "src/headrace/model/__init__.py": "",
    "src/headrace/model/README.md": "# model\n",
    "src/headrace/model/errors.py": 'CODES: dict[str, str] = {"sql.syntax": "text"}\n',
    "src/headrace/sources/__init__.py": "",
    "src/headrace/sources/README.md": "# sources\n",
    "src/headrace/sources/registry.py": (
        "from headrace.model import errors\n"
        'REGISTRY = {"http": "headrace.sources.connectors.http.connector.HttpSource"}\n'
        "def parse():\n    raise errors.HeadraceError('sql.syntax', 'text')\n"
    ),
    "src/headrace/sources/connectors/__init__.py": "",
    "src/headrace/sources/connectors/http/__init__.py": "",
    "src/headrace/sources/connectors/http/README.md": "# http\n",
    "src/headrace/sources/connectors/http/connector.py": "class HttpSource:\n    pass\n",
    "tests/laws/test_join.py": "def test_join():\n    assert 1 + 1 == 2\n",
}
COVERAGE = SOUND["docs/reference/coverage.md"]
ROW_A1 = "| A1 | something | not yet | nothing | |\n"
LONG_FUNCTION = "def long():\n" + "    x = 1\n" * 70

# rule -> planted breaches: the files changed (None removes one) and a piece of what the rule must say.
PLANTED: dict[str, list[tuple[dict[str, str | None], str]]] = {
    "file_lines": [
        ({"tests/laws/test_join.py": "x = 1\n" * 501}, "tests/laws/test_join.py: 501 lines"),
        (
            {"tests/architecture/allowances.toml": "[file_lines]\n'gone.py' = { lines = 600, reason = 'old' }\n"},
            "gone.py: the allowance of 600 lines is more than the 0 there are",
        ),
        (
            {
                "src/headrace/cli/main.py": SOUND["src/headrace/cli/main.py"] + "x = 1\n" * 600,
                "tests/architecture/allowances.toml": "[file_lines]\n'src/headrace/cli/main.py' = { lines = 604 }\n",
            },
            "its allowance gives no reason",
        ),
    ],
    "function_lines": [
        (
            {"src/headrace/cli/main.py": SOUND["src/headrace/cli/main.py"] + LONG_FUNCTION},
            "src/headrace/cli/main.py::long: 71 lines",
        ),
        (
            {
                "src/headrace/cli/main.py": SOUND["src/headrace/cli/main.py"]
                + "class A:\n"
                + "".join(f"    {line}\n" for line in LONG_FUNCTION.splitlines())
            },
            "src/headrace/cli/main.py::A.long: 71 lines",
        ),
    ],
    "file_names": [
        ({"src/headrace/model/date_utils.py": ""}, "'date_utils' says nothing"),
        ({"tests/common/test_x.py": ""}, "tests/common: 'common' says nothing"),
    ],
    "room_readmes": [
        ({"src/headrace/cli/README.md": None}, "src/headrace/cli: has no README.md"),
        ({"src/headrace/cli/README.md": "line\n" * 31}, "31 lines, at most 30"),
        ({"src/headrace/sources/connectors/http/README.md": " \n"}, "connectors/http: has no README.md"),
    ],
    "dead_modules": [
        ({"src/headrace/model/lonely.py": ""}, "src/headrace/model/lonely.py: nothing reaches"),
        (
            {
                "src/headrace/model/one.py": "from headrace.model import two\n",
                "src/headrace/model/two.py": "from . import one\n",
            },
            "src/headrace/model/two.py: nothing reaches",
        ),
        (
            {"src/headrace/model/tested.py": "", "tests/test_it.py": "import headrace.model.tested\n"},
            "src/headrace/model/tested.py: nothing reaches",
        ),
    ],
    "registries": [
        (
            {"src/headrace/sources/connectors/http/connector.py": "class Other:\n    pass\n"},
            "names HttpSource, which headrace.sources.connectors.http.connector does not define",
        ),
        ({"src/headrace/sources/connectors/http/connector.py": None}, "which does not exist"),
        ({"src/headrace/cli/main.py": None}, "command 'headrace' names the module headrace.cli.main"),
        (
            {"src/headrace/sources/connectors/mail/connector.py": ""},
            "does not register headrace.sources.connectors.mail.connector",
        ),
    ],
    "error_codes": [
        ({"docs/reference/errors.md": ""}, "does not explain 'sql.syntax'"),
        ({"src/headrace/model/errors.py": 'CODES = {"sql.syntax": "", "log.full": ""}\n'}, "nothing raises 'log.full'"),
        (
            {"src/headrace/cli/main.py": "raise HeadraceError('sql.sytnax', 'text')\n"},
            "src/headrace/cli/main.py:1: the code 'sql.sytnax' is not in",
        ),
    ],
    "wording": [
        ({"docs/x.md": "see ../shared/style.md\n"}, "docs/x.md:1: '../shared/' is a folder outside"),
        ({"docs/x.md": "\n`/home/ann/headrace`\n"}, "docs/x.md:2: '/home/' is an absolute path"),
        ({"docs/x.md": "/work/main\n"}, "'/work/' is an absolute path"),
        ({"tools/get.sh": "pip install --index-url x\n"}, "'--index-url' is the address"),
        ({"tools/get.sh": "curl files.pythonhosted.org\n"}, "'pythonhosted.org' is the address"),
        ({"docs/x.md": "as found in Session 12\n"}, "'Session 12' is the occasion"),
        ({"docs/x.md": "closes issue #3\n"}, "'issue #3' is the occasion"),
    ],
    "paths": [
        ({"docs/x.md": "held by `tests/laws/test_gone.py`\n"}, "docs/x.md: there is no tests/laws/test_gone.py"),
        ({"docs/x.md": "see src/headrace/elsewhere, too\n"}, "docs/x.md: there is no src/headrace/elsewhere"),
    ],
    "links": [
        ({"docs/x.md": "[there](missing.md)\n"}, "docs/x.md: the link to missing.md leads nowhere"),
        ({"docs/x.md": "[there](README.md#nowhere)\n"}, "docs/README.md has no heading #nowhere"),
        ({"README.md": "`make demo` [out](../elsewhere.md)\n"}, "the link to ../elsewhere.md leads nowhere"),
    ],
    "make_commands": [
        ({"docs/x.md": "```\nmake demo\nmake everything ARGS=1\n```\n"}, "`make everything` is not a target"),
        ({"docs/x.md": "run `make demo test`\n"}, "`make test` is not a target"),
        ({"README.md": "# Headrace\n"}, "names no make command"),
    ],
    "changelog": [
        ({"CHANGELOG.md": "# History\n"}, "does not begin with"),
        ({"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n### News\n"}, "'News' is none of"),
        ({"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## 1.0\n"}, "'1.0' is not of the form"),
        ({"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n### Added\n\nmuch\n"}, "'much' is not a list item"),
        (
            {"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.9.0] - 2026-01-01\n\n## [0.10.0] - 2026-02-01\n"},
            "versions are not in order",
        ),
    ],
    "coverage_rows": [
        ({"docs/reference/coverage.md": COVERAGE.replace(ROW_A1, "")}, "row A1 is missing"),
        ({"docs/reference/coverage.md": COVERAGE + ROW_A1}, "row A1 is there twice"),
        ({"docs/reference/coverage.md": COVERAGE + ROW_A1.replace("A1", "A9")}, "row A9 is not a row"),
        (
            {"docs/reference/coverage.md": COVERAGE.replace("A1 | something | not yet", "A1 | something | soon")},
            "'soon'",
        ),
        (
            {"docs/reference/coverage.md": COVERAGE.replace("A1 | something | not yet", "A1 | something | done")},
            "row A1 is done but names no test",
        ),
        (
            {"docs/reference/coverage.md": COVERAGE.replace(ROW_A1, ROW_A1.replace("| |", "| `tests/x.py` |"))},
            "row A1: there is no test tests/x.py",
        ),
        (
            {
                "docs/reference/coverage.md": COVERAGE.replace(
                    ROW_A1, ROW_A1.replace("| |", "| `tests/laws/test_join.py::test_left` |")
                )
            },
            "tests/laws/test_join.py has no test test_left",
        ),
    ],
    "decisions": [
        ({"docs/decisions/0002-rooms.md": DECISION}, "0002-rooms.md: is numbered out of turn"),
        ({"docs/decisions/0001-rooms.md": DECISION}, "docs/README.md: does not name docs/decisions/0001-rooms.md"),
        ({"docs/decisions/0000-template.md": "# 0000\n"}, "has no part 'Problem'"),
        ({"docs/decisions/0000-template.md": DECISION + "line\n" * 80}, "one page is 80"),
    ],
    "makefile": [
        ({"Makefile": ".PHONY: demo\n\ndemo:\n\ttrue\n"}, "demo has no line of help"),
        ({"Makefile": "demo: ## Run\n\ttrue\n"}, "demo is not in .PHONY"),
        ({"Makefile": ".PHONY: demo test\n\ndemo: ## Run\n\ttrue\n"}, ".PHONY names test"),
        ({"docs/generate.py": None}, "runs docs/generate.py, which does not exist"),
        (
            {"Makefile": ".PHONY: demo\n\ndemo: ## Run\n\tpython -m examples.shop.run\n"},
            "runs examples/shop/run.py, which does not exist",
        ),
    ],
    "skipped_tests": [
        (
            {"tests/test_a.py": "import pytest\n\n@pytest.mark.skip\ndef test_a():\n    pytest.xfail('x')\n"},
            "tests/test_a.py: 2 count",
        ),
        ({"tests/test_a.py": "# def test_a():\n#     assert 1 == 2\n"}, "tests/test_a.py: 1 count"),
    ],
    "test_names": [
        ({"tests/a/test_a.py": "", "tests/b/test_a.py": ""}, "tests/b/test_a.py: has the name of tests/a/test_a.py"),
    ],
}
CASES = [(rule, number) for rule in PLANTED for number in range(len(PLANTED[rule]))]
BY_NAME = {rule.__name__: rule for rule in RULES}


def plant(root: Path, changes: dict[str, str | None]) -> Tree:
    for path, text in (SOUND | changes).items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
    return Tree(root)


def test_every_rule_has_a_planted_breach() -> None:
    assert sorted(PLANTED) == sorted(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_sound_tree_keeps_every_rule(name: str, tmp_path: Path) -> None:
    assert list(BY_NAME[name](plant(tmp_path, {}))) == []


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_planted_breach_is_found(name: str, number: int, tmp_path: Path) -> None:
    changes, said = PLANTED[name][number]
    breaches = list(BY_NAME[name](plant(tmp_path, changes)))
    assert any(said in breach for breach in breaches), breaches


def test_what_only_tests_use_is_alive_in_the_test_kit_alone(tmp_path: Path) -> None:
    tree = plant(
        tmp_path,
        {
            "src/headrace/testing/__init__.py": "",
            "src/headrace/testing/clock.py": "",
            "tests/test_it.py": "from headrace.testing import clock\n",
        },
    )
    assert list(BY_NAME["dead_modules"](tree)) == []


def test_excess_with_its_allowance_passes(tmp_path: Path) -> None:
    allowance = "[file_lines]\n'tests/long.py' = { lines = 501, reason = 'a table of 500 cases' }\n"
    changes: dict[str, str | None] = {"tests/long.py": "x = 1\n" * 501}
    tree = plant(tmp_path, {**changes, "tests/architecture/allowances.toml": allowance})
    assert list(BY_NAME["file_lines"](tree)) == []


def test_files_of_tools_and_runs_are_passed_over(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {".venv/lib/utils.py": "", "var/utils.py": "", "build/lib/utils.py": ""}
    assert list(BY_NAME["file_names"](plant(tmp_path, changes))) == []
