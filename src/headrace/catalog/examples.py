"""The tests of a project: ``tests/*.yaml`` -> ``Example``, given rows and expected rows step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.catalog.document import Document, did_you_mean, load
from headrace.catalog.project import files
from headrace.model.definition import Example, ExampleStep, Project
from headrace.model.errors import HeadraceError

FOLDER = "tests"
KEYS = ("tables", "keys", "now", "steps")
STEP_KEYS = ("name", "given", "now", "expect", "failing", "restart")


def read_examples(project: Project) -> list[tuple[Example, Document]]:
    """Every test of the project with its document, which knows the lines.

    Raises ``HeadraceError``: ``config.invalid``, ``config.unknown_key`` or ``view.unknown``, each with file and line.
    """
    views = [view.name for view in project.views]
    found = []
    for name, path in files(project.path, FOLDER, ".yaml"):
        document = load(path, project.path)
        found.append((_example(name, path, document, views), document))
    return found


def _example(name: str, path: Path, document: Document, views: list[str]) -> Example:
    for key in document.values:
        if key not in KEYS:
            raise document.unknown(key, KEYS)
    steps = document.values.get("steps")
    if not isinstance(steps, list) or not steps:
        raise document.invalid(
            "'steps' must be a list of steps", "steps",
            next="steps:\n  - given: {orders: [{id: 1}]}\n    expect: {revenue: []}",
        )  # fmt: skip
    tables = _mapping(document, document.values.get("tables"), "tables")
    for table, ddl in tables.items():
        if not isinstance(ddl, str):
            raise document.invalid(
                f"the columns of '{table}' must be text", "tables", table,
                next=f'{table}: "id bigint, amount decimal(12,2)"',
            )  # fmt: skip
    keys = {
        table: _names(document, columns, "keys", table)
        for table, columns in _mapping(document, document.values.get("keys"), "keys").items()
    }
    for table in keys:
        if table not in tables:
            raise document.invalid(
                f"'keys' names a table '{table}' that 'tables' does not have", "keys", table,
                next=did_you_mean(table, tables) or "the tables of the sources have their keys already",
            )  # fmt: skip
    stepped = tuple(_step(document, n, step, views) for n, step in enumerate(steps))
    return Example(name, stepped, tables, keys, document.values.get("now"), path)


def _step(document: Document, number: int, step: Any, views: list[str]) -> ExampleStep:
    at = ("steps", str(number))
    if not isinstance(step, dict):
        raise document.invalid("a step must be a mapping", *at, next=f"keys of a step: {', '.join(STEP_KEYS)}")
    for key in step:
        if key not in STEP_KEYS:
            raise document.unknown(key, STEP_KEYS, *at, key)
    given = step.get("given")
    several = given if isinstance(given, list) else [given]
    transactions = tuple(
        _tables(document, transaction, *at, "given", *([str(n)] if several is given else []))
        for n, transaction in enumerate(several)
    )
    expected = _mapping(document, step.get("expect"), *at, "expect")
    failing = _names(document, step.get("failing") or [], *at, "failing")
    for view, where in [*((v, (*at, "expect", v)) for v in expected), *((v, (*at, "failing")) for v in failing)]:
        _known(document, view, views, *where)
    for view, rows in expected.items():
        _rows(document, rows, *at, "expect", view)
    name, restart = step.get("name") or f"step {number + 1}", step.get("restart", False)
    if not isinstance(name, str):
        raise document.invalid("'name' must be text", *at, "name")
    if not isinstance(restart, bool):
        raise document.invalid("'restart' must be true or false", *at, "restart")
    return ExampleStep(name, transactions if given is not None else (), expected, failing, restart, step.get("now"))


def _tables(document: Document, value: Any, *at: str) -> Mapping[str, Any]:
    tables = _mapping(document, value, *at)
    for table, rows in tables.items():
        _rows(document, rows, *at, table)
    return tables


def _rows(document: Document, rows: Any, *at: str) -> None:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise document.invalid(
            f"the rows of '{at[-1]}' must be a list of mappings", *at, next=f"{at[-1]}: [{{id: 1, amount: 2}}]"
        )


def _mapping(document: Document, value: Any, *at: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise document.invalid(f"'{at[-1]}' must be a mapping", *at)
    return value


def _names(document: Document, value: Any, *at: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise document.invalid(f"'{at[-1]}' must be a list of names", *at, next=f"{at[-1]}: [name, name]")
    return tuple(names)


def _known(document: Document, view: str, views: Iterable[str], *at: str) -> None:
    known = sorted(views)
    if view not in known:
        raise HeadraceError(
            "view.unknown", f"there is no view '{view}'", where=document.place(*at),
            why=f"there is no file views/{view}.sql",
            next=did_you_mean(view, known) or (f"views: {', '.join(known)}" if known else "add a view first"),
        )  # fmt: skip
