"""Write the pages of docs that follow from the code: ``make docs``.

``PAGES`` lists them: the page's path under docs/ and the function that gives its text. A page is never edited by
hand; tests/architecture/test_generated_pages.py fails when one is not what its function gives now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.main import GROUPS, SECTIONS, app
from headrace.model.errors import CODES, HeadraceError
from headrace.model.remedies import REMEDIES
from headrace.sql.functions import verdicts

DOCS = Path(__file__).resolve().parent


def errors_page() -> str:
    """Every error code with its meaning, cause and repair, grouped as in the table of headrace.model.errors."""
    example = HeadraceError(
        "sql.unknown_column",
        "there is no column 'amuont'",
        where="views/revenue.sql:2:12",
        why="orders has the columns id, customer_id, amount",
        next="write 'amount', then: headrace plan",
    )
    lines = [
        "# Error codes",
        "",
        "<!-- Written by `make docs` from src/headrace/model/errors.py and remedies.py; edit them, not this page. -->",
        "",
        "Every error names its code, what happened, where, why, and the next step. The codes stay the same from",
        "version to version; the texts may get better. With `--json`, and in answers over HTTP, an error is an object",
        "with the keys `code`, `what`, `where`, `why` and `next`. `headrace help CODE` prints what stands here of one.",
        "",
        "```",
        str(example),
        "```",
    ]
    for room, codes in groupby(CODES, key=lambda code: code.partition(".")[0]):
        lines += ["", f"## {room}"]
        for code in codes:
            remedy = REMEDIES[code]
            lines += [
                "",
                f"### `{code}`",
                "",
                CODES[code],
                "",
                f"- Cause: {remedy.cause}",
                f"- Repair: {remedy.repair}",
            ]
    return "\n".join(lines) + "\n"


def functions_page() -> str:
    """Every function of Spark with its class, from the table of headrace.sql.functions."""
    lines = [
        "# Functions",
        "",
        "<!-- Written by `make docs` from src/headrace/sql/functions.py; edit that table, not this page. -->",
        "",
        "Every function of Spark 4.3, in one of three classes.",
        "",
        "- **exact**: the value follows from the row, or from the group's rows whatever their order and partitioning.",
        "- **canonicalised**: Spark leaves the answer open, mostly where rows tie; Headrace closes it as noted,",
        "  the same way in a maintained view, in `headrace verify` and in `headrace sql`.",
        "- **refused**: a view with it is refused by `headrace plan`.",
        "",
        "| function | class | how, or why not |",
        "|---|---|---|",
    ]
    for verdict in verdicts().values():
        name = verdict.name.replace("|", "\\|")
        told = "; ".join(part for part in (verdict.note, verdict.instead.replace("|", "\\|")) if part)
        lines.append(f"| `{name}` | {verdict.kind} | {told} |")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """The help of every command, in the order of `headrace --help`."""
    lines = [
        "# Commands",
        "",
        "<!-- Written by `make docs` from the help of src/headrace/cli; edit that, not this page. -->",
        "",
        "What `headrace COMMAND --help` says of each. Every command takes `--json`, and `--project DIR` where it is",
        "about a project. Exit status: 0 done, 1 failed or different, 2 wrong usage, 130 interrupted.",
    ]
    for heading, names in SECTIONS.items():
        lines += ["", f"## {heading}"]
        for words in (words for name in names for words in _verbs(name)):
            lines += ["", f"### headrace {words}", "", "```", _help(*words.split()).strip(), "```"]
    return "\n".join(lines) + "\n"


def _verbs(words: str) -> Iterator[str]:
    """The command, or the commands of a group, as they are typed."""
    if words in GROUPS:
        for verb in GROUPS[words][1]:
            yield from _verbs(f"{words} {verb}")
    else:
        yield words


def _help(*words: str) -> str:
    answer = CliRunner().invoke(app(words), [*words, "--help"], prog_name="headrace", env={"COLUMNS": "100"})
    return answer.output


def llms_page() -> str:
    """What a language model, or a person in a hurry, reads first: https://llmstxt.org."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    summary, introduction = (" ".join(part.split()) for part in readme.split("\n\n")[1:3])
    lines = ["# Headrace", "", f"> {summary}", "", introduction, ""]
    lines.append(
        "A project is a folder: headrace.yaml, sources/NAME.yaml, views/NAME.sql, sinks/NAME.yaml, tests/NAME.yaml."
    )
    pages, decisions = (DOCS / "README.md").read_text(encoding="utf-8").split("\n## Decisions\n")
    for section in pages.split("\n## ")[1:]:
        heading, _, links = section.partition("\n")
        lines += ["", f"## {heading}", ""]
        lines += [line for line in links.splitlines() if line.startswith("- [") and "(llms.txt)" not in line]
    lines += ["", "## Commands", ""]
    for verb in (verb for names in SECTIONS.values() for name in names for verb in _verbs(name)):
        first = _help(*verb.split()).split("\n\n")[1]
        lines.append(f"- `headrace {verb}`: {' '.join(first.split())}")
    lines += ["", "## Optional", ""]
    lines += [line for line in decisions.splitlines() if line.startswith("- [") and "0000" not in line]
    return "\n".join(lines) + "\n"


PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("reference/errors.md", errors_page),
    ("reference/functions.md", functions_page),
    ("reference/commands.md", commands_page),
    ("llms.txt", llms_page),
)


def main() -> int:
    for path, text in PAGES:
        (DOCS / path).write_text(text(), encoding="utf-8")
        sys.stdout.write(f"docs/{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
