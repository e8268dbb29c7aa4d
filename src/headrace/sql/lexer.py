"""SQL text as tokens, by PostgreSQL's rules: enough to tell statements apart and to replace single words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.model.errors import HeadraceError

_TOKEN = re.compile(
    r"""
    (?P<space>\s++|--[^\n]*+)
    |(?P<comment>/\*)
    |(?P<string>[eE]'(?:[^'\\]|''|\\.)*+'|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*+')
    |(?P<dollar>\$(?:[^\W\d]\w*+)?\$)
    |(?P<parameter>\$\d++)
    |(?P<quoted>"(?:[^"]|"")++")
    |(?P<word>[^\W\d][\w$]*+)
    |(?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)
    |(?P<symbol>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """``kind``: space, string, parameter, quoted, word, number, symbol; ``text`` as written."""

    kind: str
    text: str

    @property
    def name(self) -> str:
        """A word as PostgreSQL folds it, a quoted name without its quotes; else the text."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text.lower() if self.kind == "word" else self.text

    @property
    def value(self) -> str:
        """What a plain string holds."""
        return self.text[1:-1].replace("''", "'") if self.kind == "string" and self.text[0] == "'" else self.text


def tokens(sql: str) -> list[Token]:
    """All of the text; joined, the tokens give it again. Raises ``sql.syntax``."""
    return list(_scanned(sql))


def split(sql: str) -> list[list[Token]]:
    """The statements of a text, without spaces at their ends; those of spaces alone are left out."""
    statements: list[list[Token]] = [[]]
    for token in tokens(sql):
        if token.text == ";" and token.kind == "symbol":
            statements.append([])
        elif token.kind != "space" or statements[-1]:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


def joined(statement: Sequence[Token]) -> str:
    return "".join(token.text for token in statement)


def _scanned(sql: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None  # the last alternative takes any character
        kind, end = str(found.lastgroup), found.end()
        if kind == "comment":
            kind, end = "space", _comment_end(sql, at)
        elif kind == "dollar":
            close = sql.find(found[0], end)
            if close < 0:
                raise _open(sql, at, "quoted string")
            kind, end = "string", close + len(found[0])
        elif kind == "symbol" and found[0] in "'\"":
            raise _open(sql, at, "quoted string" if found[0] == "'" else "quoted name")
        yield Token(kind, sql[at:end])
        at = end


def _comment_end(sql: str, at: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, at):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    raise _open(sql, at, "comment")


def _open(sql: str, at: int, what: str) -> HeadraceError:
    return HeadraceError(
        "sql.syntax", f"a {what} has no end", where=f"character {at + 1}: {sql[at : at + 20]}",
        next="close it; within one the same quote is written twice",
    )  # fmt: skip
