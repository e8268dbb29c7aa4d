"""`headrace sql` with statements about definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli import display
from headrace.control import define, look
from headrace.control.verbs import call
from headrace.model.errors import HeadraceError
from headrace.sql import lexer
from headrace.sql.definitions import Change, Create, Drop, Explain, Look, read


def run(path: Path, text: str, *, json: bool) -> None:
    """Any number of CREATE and DROP, one after the other, or one SHOW or EXPLAIN.

    All are read before the first is carried out; the first that is refused ends it, and those before it stay.
    """
    statements = [_known(tokens) for tokens in lexer.split(text)]
    changes = [statement for statement in statements if isinstance(statement, Create | Drop)]
    if len(changes) == len(statements):
        _change(path, changes, json=json)
    elif len(statements) == 1:
        _tell(path, statements[0], json=json)
    else:
        raise HeadraceError("sql.syntax", "SHOW and EXPLAIN stand alone", next="a `headrace sql` for each of them")


def _known(tokens: list[lexer.Token]) -> Change | Look:
    found = read(tokens)
    if found is None:
        raise HeadraceError(
            "sql.syntax", f"'{lexer.joined(tokens)[:40]}' is no statement about definitions",
            why="a SELECT has a `headrace sql` of its own", next="CREATE, DROP, SHOW VIEWS and the like, EXPLAIN name",
        )  # fmt: skip
    return found


def _by(path: Path, progress: Callable[[dict[str, Any]], None]) -> define.Call:
    return lambda verb, arguments: call(path, verb, arguments, progress)


def _change(path: Path, changes: list[Change], *, json: bool) -> None:
    done = []
    for statement in changes:
        with display.working(statement.tag.lower()) as progress:
            notices = define.change(statement, _by(path, progress))
        done.append({"statement": statement.tag, "name": statement.name, "notices": notices})
        if not json:
            display.say(f"{statement.tag} {display.plain(statement.name)}")
            for notice in notices:
                display.say(f"  {display.plain(notice)}")
    if json:
        display.emit({"done": done})


def _tell(path: Path, statement: Change | Look, *, json: bool) -> None:
    if isinstance(statement, Explain):
        with display.working("explaining") as progress:
            lines = define.explain(statement, _by(path, progress))
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
