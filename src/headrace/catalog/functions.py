"""``functions/*.py``: which functions a file declares is read from its text; no code of it runs here."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from headrace.catalog.document import read_text
from headrace.model.definition import FunctionFile
from headrace.model.errors import HeadraceError

FOLDER = "functions"
_EXAMPLE = 'put `@headrace.function(returns="string")` above a function'


def read_functions(named: Iterable[tuple[str, Path]], folder: Path) -> tuple[FunctionFile, ...]:
    """The files with the names that they declare. Raises ``HeadraceError`` (config.invalid) with file and line."""
    files, places = [], dict[str, str]()
    for name, path in named:
        shown = path.relative_to(folder).as_posix()
        text = read_text(path, shown)
        if name == "__init__" and not text.strip():  # so that tests of one's own can import the others
            continue
        declared = _declared(text, shown)
        for function, line in declared.items():
            place = f"{shown}:{line}"
            if function.lower() in places:
                raise HeadraceError(
                    "config.invalid", f"a function named {function} is at {places[function.lower()]} too", where=place,
                    why="names in SQL do not tell upper from lower case", next="give one of them another name",
                )  # fmt: skip
            places[function.lower()] = place
        files.append(FunctionFile(name, text, tuple(declared), path))
    return tuple(files)


def _declared(text: str, shown: str) -> dict[str, int]:
    """Names of the declared functions, each with its line."""
    try:
        tree = ast.parse(text, shown)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise HeadraceError("config.invalid", f"{shown} is not Python: {reason}", where=shown + line) from None
    found: dict[str, int] = {}
    for part in tree.body:
        if isinstance(part, ast.FunctionDef) and any(map(_declares, part.decorator_list)):
            if part.name in found:
                raise HeadraceError(
                    "config.invalid", f"a function named {part.name} is in line {found[part.name]} too",
                    where=f"{shown}:{part.lineno}", next="give one of them another name",
                )  # fmt: skip
            found[part.name] = part.lineno
    if not found:
        raise HeadraceError("config.invalid", f"{shown} declares no function", where=shown, next=_EXAMPLE)
    return found


def _declares(decorator: ast.expr) -> bool:
    """Whether a decorator is ``function`` or ``headrace.function``, called or not."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called) in ("function", "headrace.function")
