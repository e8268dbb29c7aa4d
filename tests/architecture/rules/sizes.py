"""Small files, small functions, and names that say what is inside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from rules.tree import Tree, within

FILE_LINES = 500
FUNCTION_LINES = 70

# As a whole name: says nothing of what is inside. As a word of a longer one (`date_utils`) the first six do no better.
EMPTY_WORDS = {"utils", "util", "common", "helpers", "helper", "misc"}
EMPTY_NAMES = EMPTY_WORDS | {"core", "internals", "manager", "context", "handler", "data", "info"}


def file_lines(tree: Tree) -> Iterator[str]:
    """No Python file has more than 500 lines."""
    lengths = {path: len(tree.text(path).splitlines()) for path in tree.python()}
    long = {path: lines for path, lines in lengths.items() if lines > FILE_LINES}
    yield from within(long, tree.allowances("file_lines"), "lines")


def function_lines(tree: Tree) -> Iterator[str]:
    """No function of the product has more than 70 lines, its docstring included."""
    long = {}
    for path in tree.python("src/"):
        for name, function in _functions(tree.syntax(path)):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES:
                long[f"{path}::{name}"] = lines
    yield from within(long, tree.allowances("function_lines"), "lines")


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def file_names(tree: Tree) -> Iterator[str]:
    """No file and no folder of code has a name that says nothing."""
    names: dict[str, str] = {}
    for path in tree.python():
        pure = PurePosixPath(path)
        names |= {path: pure.stem} | {str(folder): folder.name for folder in pure.parents}
    for path, name in sorted(names.items()):
        if name in EMPTY_NAMES or EMPTY_WORDS & set(name.split("_")):
            yield f"{path}: '{name}' says nothing of what is inside; name it after what it owns"
