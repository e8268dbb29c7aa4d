"""The rules of the house, in the order they are checked; each is a function from a source tree to its breaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rules.documents import changelog, coverage_rows, decisions, links, make_commands, paths
from rules.error_codes import error_codes
from rules.makefile import makefile
from rules.rooms import dead_modules, registries, room_readmes
from rules.sizes import file_lines, file_names, function_lines
from rules.skips import skipped_tests, test_names
from rules.tree import Tree
from rules.wording import wording

Rule = Callable[[Tree], Iterator[str]]

RULES: tuple[Rule, ...] = (
    file_lines,
    function_lines,
    file_names,
    room_readmes,
    dead_modules,
    registries,
    error_codes,
    wording,
    paths,
    links,
    make_commands,
    changelog,
    coverage_rows,
    decisions,
    makefile,
    skipped_tests,
    test_names,
)
