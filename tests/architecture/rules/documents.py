"""Documents keep their word: links lead somewhere, commands exist, the coverage table is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath

from rules.tree import Tree

COVERAGE = "docs/reference/coverage.md"
COVERAGE_COUNTS = {"A": 8, "B": 7, "C": 6, "D": 7, "E": 6, "F": 3}
STATUSES = ("done", "part", "not yet")
CHANGE_KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
DECISION_PARTS = ("Problem", "Success criteria", "Out of scope", "Choice", "Alternatives", "Open questions")
DECISION_LINES = 80

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
# `make` as a command: it begins a line or inline code, or follows a prompt, `&&` or `;`.
_MAKE = re.compile(r"(?:^|`|[&;$] ?)make((?: [a-z][a-z0-9-]*)+)(?=[`\s;&]|$)", re.MULTILINE)

# A file or folder of the product, as prose and code name it.
_PATH = re.compile(r"(?<![\w/.-])(?:src|tests|benchmarks|examples|docs|tools)/[\w./-]*\w")


def paths(tree: Tree) -> Iterator[str]:
    """Every file and folder of the product that a document names outside its examples exists."""
    for path in tree.markdown():
        for named in _PATH.findall(_FENCE.sub("", _LINK.sub("", tree.text(path)))):
            if not tree.exists(named):
                yield f"{path}: there is no {named}"


def links(tree: Tree) -> Iterator[str]:
    """Every relative link in Markdown leads to a file that exists, and to a heading of it."""
    for path in tree.markdown():
        prose = _INLINE_CODE.sub("", _FENCE.sub("", tree.text(path)))
        for target in _LINK.findall(prose):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, anchor = target.partition("#")
            place = normpath(str(PurePosixPath(path).parent / file)) if file else path
            if place.startswith("..") or not tree.exists(place):
                yield f"{path}: the link to {target} leads nowhere"
            elif anchor and place.endswith(".md") and anchor not in _anchors(tree.text(place)):
                yield f"{path}: {place} has no heading #{anchor}"


def _anchors(text: str) -> set[str]:
    """The anchors that a forge makes of the headings."""
    headings = re.findall(r"^#+ +(.+?)\s*$", _FENCE.sub("", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def make_commands(tree: Tree) -> Iterator[str]:
    """Every `make X` in a document is a target, and README.md says with which to start."""
    for path in tree.markdown():
        for words in _MAKE.findall(_code(tree.text(path))):
            for word in words.split():
                if word not in tree.make_targets:
                    yield f"{path}: `make {word}` is not a target of the Makefile"
    if not _MAKE.search(_code(tree.text("README.md"))):
        yield "README.md: names no make command to start with"


def _code(text: str) -> str:
    fenced = [match[0] for match in _FENCE.finditer(text)]
    return "\n".join(fenced + _INLINE_CODE.findall(_FENCE.sub("", text)))


def changelog(tree: Tree) -> Iterator[str]:
    """CHANGELOG.md has the form of Keep a Changelog, newest version first."""
    text = tree.text("CHANGELOG.md")
    if not text.startswith("# Changelog\n"):
        yield "CHANGELOG.md: does not begin with '# Changelog'"
    versions = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    if not versions or versions[0] != "[Unreleased]":
        yield "CHANGELOG.md: the first version is not '## [Unreleased]'"
    numbers = []
    for version in versions[1:]:
        form = re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d{2}-\d{2}", version)
        if form:
            numbers.append(tuple(map(int, form.groups())))
        else:
            yield f"CHANGELOG.md: '{version}' is not of the form '[1.2.3] - 2026-01-31'"
    if numbers != sorted(set(numbers), reverse=True):
        yield "CHANGELOG.md: versions are not in order, newest first"
    for kind in re.findall(r"^### (.+)$", text, flags=re.MULTILINE):
        if kind not in CHANGE_KINDS:
            yield f"CHANGELOG.md: '{kind}' is none of {', '.join(CHANGE_KINDS)}"
    for line in re.findall(r"^(?![#\-\s\[]).+$", text.partition("## ")[2], flags=re.MULTILINE):
        yield f"CHANGELOG.md: '{line}' is not a list item"


def coverage_rows(tree: Tree) -> Iterator[str]:
    """The coverage table has every row once, with a known status; what is done names its tests, and they exist."""
    rows: dict[str, tuple[str, str]] = {}
    for line in tree.text(COVERAGE).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not re.fullmatch(r"[A-Z]\d+", cells[0]):
            continue
        if len(cells) != 5:
            yield f"{COVERAGE}: row {cells[0]} has {len(cells)} cells, not 5"
            continue
        if cells[0] in rows:
            yield f"{COVERAGE}: row {cells[0]} is there twice"
        rows[cells[0]] = cells[2], cells[4]
    expected = {f"{letter}{number}" for letter, count in COVERAGE_COUNTS.items() for number in range(1, count + 1)}
    for row in sorted(expected ^ rows.keys()):
        yield f"{COVERAGE}: row {row} " + ("is missing" if row in expected else "is not a row of the product")
    for row, (status, tests) in rows.items():
        named = re.findall(r"`([^`]+)`", tests)
        if status not in STATUSES:
            yield f"{COVERAGE}: row {row}: '{status}' is none of {', '.join(STATUSES)}"
        if status == "done" and not named:
            yield f"{COVERAGE}: row {row} is done but names no test"
        for test in named:
            yield from _missing_test(tree, row, test)


def _missing_test(tree: Tree, row: str, test: str) -> Iterator[str]:
    path, _, name = test.partition("::")
    if not path.startswith("tests/") or not tree.exists(path):
        yield f"{COVERAGE}: row {row}: there is no test {path}"
    elif name and not re.search(rf"\bdef {re.escape(name)}\b", tree.text(path)):
        yield f"{COVERAGE}: row {row}: {path} has no test {name}"


def decisions(tree: Tree) -> Iterator[str]:
    """Decision records are numbered without a gap, fit on a page, have every part and stand in the index."""
    folder = "docs/decisions/"
    records = [path.removeprefix(folder) for path in tree.markdown() if path.startswith(folder)]
    for number, record in enumerate(records):
        if not record.startswith(f"{number:04d}-"):
            yield f"{folder}{record}: is numbered out of turn, {number:04d} is the next"
        text = tree.text(folder + record)
        for part in DECISION_PARTS:
            if f"\n## {part}\n" not in text:
                yield f"{folder}{record}: has no part '{part}'"
        if len(text.splitlines()) > DECISION_LINES:
            yield f"{folder}{record}: {len(text.splitlines())} lines, one page is {DECISION_LINES}"
        if f"(decisions/{record})" not in tree.text("docs/README.md"):
            yield f"docs/README.md: does not name {folder}{record}"
