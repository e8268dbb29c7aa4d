"""PostgreSQL's words for which DuckDB has others: schemas, casts to catalogue types, values of the connection.

Single tokens are replaced, never values: a statement means what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import Format

from headrace.api.postgres.types import DECLARED
from headrace.sql.lexer import Token

PUBLIC, CATALOGUE, INFORMATION = "public", "pg_catalog", "information_schema"
_NAMED = {each: f"to_{each}" for each in ("regclass", "regtype", "regnamespace", "regproc")}
_ASKING = (INFORMATION, *_NAMED, "format_type", "obj_description", "current_setting", "set_config", "format")
_SYNONYMS = {"json_build_object": "json_object", "jsonb_build_object": "json_object", "jsonb_agg": "json_group_array",
             "json_agg": "json_group_array"}  # fmt: skip
_TEXT_ARRAY = 1009
_END = Token("symbol", "")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """SQL for DuckDB, and whether it asks of the catalogue."""

    sql: str
    catalogue: bool


def rewritten(
    statement: Sequence[Token], values: Mapping[str, str], declared: Sequence[int] = (), database: str = ""
) -> Rewritten:
    """``values``: SQL for ``current_user``, ``version()`` and the like; ``declared``: types of parameters, or 0."""
    return _Rewriting(statement, values, declared, (PUBLIC, CATALOGUE, database)).run()


class _Rewriting:
    """One pass over the tokens, in the time of their number. A step writes SQL and gives the place to go on at."""

    def __init__(
        self, statement: Sequence[Token], values: Mapping[str, str], declared: Sequence[int], schemas: Sequence[str]
    ) -> None:
        self._parts = [token for token in statement if token.kind != "space"]
        self._spaces = _spaces(statement)
        self._values, self._declared, self._schemas = values, declared, schemas
        self._closing = _closings(self._parts)
        self._left_out: set[int] = set()
        self._bare = -1  # the place of a name whose schema was left out

    def run(self) -> Rewritten:
        found, at, asks = list[str](), 0, False
        while at < len(self._parts):
            name = self._name(at)
            asks = asks or name.startswith(("pg_", "_pg_", "to_reg")) or name in _ASKING
            begin = at
            if at in self._left_out:
                text, at = "", at + 1
            else:
                text, at = self._step(at, name)
            found += [self._spaces[begin], text]
        return Rewritten("".join(found).strip(), asks)

    def _step(self, at: int, name: str) -> tuple[str, int]:
        follows = self._text(at + 1)
        if name and follows == ".":
            if name in self._schemas:
                self._bare = at + 2
                return "", at + 2
            if name == INFORMATION:
                return "information_schema_", at + 2
        elif name and follows == "(":
            return self._call(at, name)
        elif name == "collate" and (place := self._collation(at)):
            return "", place
        elif self._parts[at].kind in ("string", "parameter") and follows == "::":
            return self._cast(at)
        elif self._is_value(at) and name in self._values:
            return self._values[name], at + 1
        return self._plain(at), at + 1

    def _call(self, at: int, name: str) -> tuple[str, int]:
        end = self._closing.get(at + 1, len(self._parts) - 1)
        if name == "operator":  # OPERATOR(pg_catalog.~)
            symbols = [part.text for part in self._parts[at + 2 : end] if part.kind == "symbol" and part.text != "."]
            return f" {''.join(symbols)} ", end + 1
        if name == "cast" and self._name(end - 1) in _NAMED and self._name(end - 2) == "as":
            self._left_out |= {end - 2, end - 1}
            return _NAMED[self._name(end - 1)], at + 1
        if self._is_value(at):
            if end == at + 2 and f"{name}()" in self._values:
                return self._values[f"{name}()"], end + 1
            return _SYNONYMS.get(name) or self._plain(at), at + 1
        return self._plain(at), at + 1

    def _cast(self, at: int) -> tuple[str, int]:
        """``'orders'::regclass``, ``'{a,b}'::text[]``."""
        place = at + 4 if self._name(at + 2) == CATALOGUE else at + 2
        if self._name(place) in _NAMED:
            return f"{_NAMED[self._name(place)]}({self._plain(at)})", place + 1
        if (
            self._text(place + 1) == "["
            and self._text(at).startswith("'{")
            and (elements := _elements(self._parts[at]))
        ):
            return elements, at + 1
        return self._plain(at), at + 1

    def _collation(self, at: int) -> int:
        """The place after a collation that changes nothing; 0 for another one."""
        place = at + 3 if self._name(at + 1) == CATALOGUE else at + 1
        return place + 1 if self._name(place) in ("default", "C", "POSIX") else 0

    def _is_value(self, at: int) -> bool:
        """Whether a plain word stands where a value may: no part of a longer name, and not the name after AS."""
        before = self._parts[at - 1] if at else _END
        return self._parts[at].kind == "word" and (at == self._bare or (before.text != "." and before.name != "as"))

    def _plain(self, at: int) -> str:
        token = self._parts[at]
        if token.kind == "word":
            return token.text.lower()  # as PostgreSQL folds names: a column is called so
        if token.kind == "parameter":
            number = int(token.text[1:])
            kind = DECLARED.get(self._declared[number - 1]) if 0 < number <= len(self._declared) else None
            return f"CAST({token.text} AS {kind})" if kind else token.text
        return token.text

    def _name(self, at: int) -> str:
        return self._parts[at].name if 0 <= at < len(self._parts) and self._parts[at].kind in ("word", "quoted") else ""

    def _text(self, at: int) -> str:
        return self._parts[at].text if at < len(self._parts) else ""


def _spaces(statement: Sequence[Token]) -> list[str]:
    """What is before each token that is no space: lines are kept, as errors name them."""
    found, space = list[str](), ""
    for token in statement:
        if token.kind == "space":
            space += "\n" * token.text.count("\n") or " "
        else:
            found.append(space)
            space = ""
    return found


def _closings(parts: Sequence[Token]) -> dict[int, int]:
    """The place of the parenthesis that closes each one."""
    found, opened = dict[int, int](), list[int]()
    for place, part in enumerate(parts):
        if part.text == "(":
            opened.append(place)
        elif part.text == ")" and opened:
            found[opened.pop()] = place
    return found


def _elements(array: Token) -> str:
    """The list that PostgreSQL's text of an array stands for; "" for any other text."""
    try:
        elements = Transformer().get_loader(_TEXT_ARRAY, Format.TEXT).load(array.value.encode())
    except psycopg.Error:
        return ""
    shown = ("NULL" if each is None else "'" + str(each).replace("'", "''") + "'" for each in elements)
    return f"[{', '.join(shown)}]"
