"""A statement read word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.model.errors import HeadraceError
from headrace.sql.lexer import Token

_FORMS = (
    "SELECT ..., CREATE VIEW name AS SELECT ..., CREATE SOURCE name FROM type (option = value), "
    "CREATE SINK name FROM view INTO type (option = value)"
)


@dataclass
class Words:
    """The tokens of a statement without its spaces, one after the other. What it misses raises ``sql.syntax``."""

    tokens: Sequence[Token]
    _parts: list[Token] = field(init=False)
    _at: int = 0

    def __post_init__(self) -> None:
        self._parts = [token for token in self.tokens if token.kind != "space"]

    def peek(self) -> str:
        """The next word or symbol; a quoted name with its quotes, as it is neither, whatever it holds."""
        if self._at >= len(self._parts):
            return ""
        token = self._parts[self._at]
        return token.text if token.kind == "quoted" else token.name

    def take(self) -> str:
        word = self.peek()
        self._at += 1
        return word

    def token(self) -> Token:
        if self._at >= len(self._parts):
            raise _wrong("the statement ends too early")
        self._at += 1
        return self._parts[self._at - 1]

    def accept(self, *words: str) -> bool:
        """Take one of these words if it is next."""
        found = bool(self.peek()) and self.peek() in words
        self._at += found
        return found

    def need(self, *words: str) -> str:
        word = self.take()
        if word not in words:
            raise _wrong(f"{' or '.join(words).upper()} is missing" + (f" before '{word}'" if word else ""))
        return word

    def name(self) -> str:
        """A name, of which a schema is left out."""
        token = self.token()
        if token.kind not in ("word", "quoted"):
            raise _wrong(f"'{token.text}' is no name")
        return self.name() if self.accept(".") else token.name

    def rest(self) -> tuple[Token, ...]:
        """All behind the word that was taken last, spaces and comments with it."""
        last = self._parts[self._at - 1] if self._at else None
        begin = 0 if last is None else 1 + next(i for i, token in enumerate(self.tokens) if token is last)
        self._at = len(self._parts)
        return tuple(self.tokens[begin:])

    def parenthesized(self) -> tuple[Token, ...]:
        """What is between this parenthesis and the one that closes it, spaces with it."""
        opening = self.token()
        begin = next(i for i, token in enumerate(self.tokens) if token is opening) + 1
        depth = 1
        for end in range(begin, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[end].text, 0)
            if not depth:
                while self.token() is not self.tokens[end]:
                    pass
                return tuple(self.tokens[begin:end])
        raise _wrong("a parenthesis has no end")

    def end(self) -> None:
        if self.peek():
            raise _wrong(f"'{self.peek()}' is one word too many")


def _wrong(what: str) -> HeadraceError:
    return HeadraceError("sql.syntax", what, next=_FORMS)
