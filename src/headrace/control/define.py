"""A statement about definitions, carried out by verbs; for psql and for the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.definitions import Change, Create, Explain

# (verb, arguments) -> its answer
Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


def change(statement: Change, call: Call) -> list[str]:
    """CREATE or DROP; what is to be told of it. Raises what refuses it."""
    if isinstance(statement, Create):
        arguments = {
            "kind": statement.kind, "name": statement.name, "text": statement.text,
            "replace": statement.replace, "missing_only": statement.missing_only,
        }  # fmt: skip
        return list(call("create", arguments)["notices"])
    try:
        answer = call("drop", {statement.kind: statement.name})
    except HeadraceError as error:
        if statement.existing_only and error.code in ("view.unknown", "definition.unknown"):
            return [f"{error.what}: nothing is dropped"]
        raise
    kept = [f"its file is kept as {answer['kept']}"] if "kept" in answer else []
    return [*kept, *answer.get("notices", [])]


def explain(statement: Explain, call: Call) -> list[str]:
    """The lines of how a view is maintained, or would be."""
    asked = {"sql": statement.sql} if statement.sql is not None else {"view": statement.view}
    return str(call("explain", asked)["text"]).splitlines()
