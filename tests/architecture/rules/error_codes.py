"""The table of error codes, the code that raises them and the page that explains them say the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rules.tree import Tree

TABLE = "src/headrace/model/errors.py"
PAGE = "docs/reference/errors.md"


def error_codes(tree: Tree) -> Iterator[str]:
    """Every code is explained and raised somewhere; every code that is raised is in the table."""
    codes = _codes(tree)
    mentioned: set[str] = set()
    for path in tree.python("src/"):
        if path == TABLE:
            continue
        for node in ast.walk(tree.syntax(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                mentioned.add(node.value)
            elif isinstance(node, ast.Call) and _raises(node) and node.args:
                code = node.args[0]
                if isinstance(code, ast.Constant) and code.value not in codes:
                    yield f"{path}:{node.lineno}: the code '{code.value}' is not in {TABLE}"
    page = tree.text(PAGE)
    for code in codes:
        if code not in mentioned:
            yield f"{TABLE}: nothing raises '{code}'"
        if f"`{code}`" not in page:
            yield f"{PAGE}: does not explain '{code}': make docs"


def _raises(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "HeadraceError"


def _codes(tree: Tree) -> list[str]:
    for node in tree.syntax(TABLE).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "CODES" for target in targets):
            return list(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return []
