"""Statements about definitions, carried out by verbs; for psql and for the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.definitions import Change, Create, Explain

# (verb, arguments) -> its answer
Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


def change(statements: Sequence[Change], call: Call) -> list[list[str]]:
    """CREATE and DROP, several as one: what is to be told of each. Raises what refuses them: then none is done."""
    if len(statements) > 1:
        answer = call("define", {"changes": [_asked(statement) for statement in statements]})
        told = [_told(done) for done in answer["done"]]
        return [*told[:-1], [*told[-1], *answer["notices"]]]
    [statement] = statements
    if isinstance(statement, Create):
        return [list(call("create", _asked(statement))["notices"])]
    try:
        return [_told(call("drop", {statement.kind: statement.name}))]
    except HeadraceError as error:
        if statement.existing_only and error.code in ("view.unknown", "definition.unknown"):
            return [[f"{error.what}: nothing is dropped"]]
        raise


def _asked(statement: Change) -> dict[str, Any]:
    named = {"kind": statement.kind, "name": statement.name}
    if isinstance(statement, Create):
        more = {"text": statement.text, "replace": statement.replace, "missing_only": statement.missing_only}
        return {**named, **more}
    return {**named, "existing_only": statement.existing_only}


def _told(answer: Mapping[str, Any]) -> list[str]:
    kept = [f"its file is kept as {answer['kept']}"] if "kept" in answer else []
    return [*kept, *answer.get("notices", [])]


def explain(statement: Explain, call: Call) -> list[str]:
    """The lines of how a view is maintained, or would be."""
    asked = {"sql": statement.sql} if statement.sql is not None else {"view": statement.view}
    return str(call("explain", asked)["text"]).splitlines()
