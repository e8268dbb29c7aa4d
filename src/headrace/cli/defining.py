"""`headrace sql` with statements about definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli import display
from headrace.control import look, statements
from headrace.control.verbs import call
from headrace.model.errors import HeadraceError
from headrace.sql import lexer
from headrace.sql.definitions import Change, Create, Drop, Explain, Look, read

_BEGIN = ("begin", "begin transaction", "begin work", "start transaction")
_COMMIT = ("commit", "commit transaction", "commit work", "end")


def run(path: Path, text: str, *, json: bool) -> None:
    """Any number of CREATE and DROP, all or none of them, or one SHOW or EXPLAIN.

    BEGIN before and COMMIT behind them say what is so without.
    """
    found = lexer.split(text)
    if len(found) > 1 and _words(found[0]) in _BEGIN and _words(found[-1]) in _COMMIT:
        found = found[1:-1]
    known = [_known(tokens) for tokens in found]
    changes = [statement for statement in known if isinstance(statement, Create | Drop)]
    if len(changes) == len(known):
        _change(path, changes, json=json)
    elif len(known) == 1:
        _tell(path, known[0], json=json)
    else:
        raise HeadraceError("sql.syntax", "SHOW and EXPLAIN stand alone", next="a `headrace sql` for each of them")


def _words(tokens: list[lexer.Token]) -> str:
    return " ".join(lexer.joined(tokens).lower().split())


def _known(tokens: list[lexer.Token]) -> Change | Look:
    found = read(tokens)
    if found is None:
        raise HeadraceError(
            "sql.syntax", f"'{lexer.joined(tokens)[:40]}' is no statement about definitions",
            why="a SELECT has a `headrace sql` of its own", next="CREATE, DROP, SHOW VIEWS and the like, EXPLAIN name",
        )  # fmt: skip
    return found


def _by(path: Path, progress: Callable[[dict[str, Any]], None]) -> statements.Call:
    return lambda verb, arguments: call(path, verb, arguments, progress)


def _change(path: Path, changes: list[Change], *, json: bool) -> None:
    with display.working(changes[0].tag.lower() if changes else "") as progress:
        told = statements.change(changes, _by(path, progress)) if changes else []
    done = list(zip(changes, told, strict=True))
    if json:
        answers = [{"statement": change.tag, "name": change.name, "notices": notices} for change, notices in done]
        display.emit({"done": answers})
        return
    for change, notices in done:
        display.say(f"{change.tag} {display.plain(change.name)}")
        for notice in notices:
            display.say(f"  {display.plain(notice)}")


def _tell(path: Path, statement: Change | Look, *, json: bool) -> None:
    if isinstance(statement, Explain):
        with display.working("explaining") as progress:
            lines = statements.explain(statement, _by(path, progress))
        names: tuple[str, ...] = ("QUERY PLAN",)
        rows = [[line] for line in lines]
        if not json:
            for line in lines:
                display.say(display.plain(line))
            return
    else:
        assert not isinstance(statement, Create | Drop)
        shown = look.look(path, statement, lambda relation: True)
        names, rows = shown.columns, shown.rows
    columns = [{"name": name, "type": "string"} for name in names]
    if json:
        display.emit({"columns": columns, "rows": rows, "total": len(rows)})
    elif len(rows) == 1 and names[-1] == "create_statement":
        display.say(display.plain(rows[0][-1], "\n\t"))
    else:
        display.table(columns, rows)
