"""A test runs or is gone: skipping and commenting out need an allowance with a reason; no file hides another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rules.tree import Tree, within

_SKIPPING = {"skip", "skipif", "xfail", "importorskip", "skipTest", "skipUnless", "skipIf", "expectedFailure"}
_COMMENTED_OUT = re.compile(r"^\s*#\s*(?:async )?def test_\w+\(", re.MULTILINE)


def skipped_tests(tree: Tree) -> Iterator[str]:
    """No test is skipped, expected to fail or commented out, but for those allowed."""
    counts: dict[str, int] = {}
    for path in tree.python("tests/"):
        count = len(_COMMENTED_OUT.findall(tree.text(path)))
        for node in ast.walk(tree.syntax(path)):
            count += isinstance(node, ast.Attribute) and node.attr in _SKIPPING and _of_test_kit(node.value)
        if count:
            counts[path] = count
    yield from within(counts, tree.allowances("skipped_tests"), "count")


def test_names(tree: Tree) -> Iterator[str]:
    """No two files of tests have one name: pytest imports them as modules of that name, and takes the first alone."""
    known: dict[str, str] = {}
    for path in tree.python("tests/"):
        name = path.rsplit("/", 1)[-1]
        if name.startswith("test_") and known.setdefault(name, path) != path:
            yield f"{path}: has the name of {known[name]}"


def _of_test_kit(node: ast.expr) -> bool:
    """Whether it is `pytest`, `pytest.mark`, `unittest` or a test case itself."""
    if isinstance(node, ast.Attribute):
        return node.attr == "mark"
    return isinstance(node, ast.Name) and node.id in {"pytest", "mark", "unittest", "self"}
