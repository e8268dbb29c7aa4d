"""What a commit token stands for: a commit's number, or a point of a source and the commit by which the log has it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headrace.catalog.document import did_you_mean
from headrace.model.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Token:
    """``commit`` is None where the token names a ``point`` of a ``source``, as users of that source read it there."""

    text: str
    commit: int | None
    source: str = ""
    point: str = ""


def read(token: int | str, sources: Collection[str], end: int) -> Token:
    """A token as it was given: a commit of a log that ends at ``end``, ``SOURCE:POINT``, or a point of the only source.

    Raises ``HeadraceError``: wait.token.
    """
    text = str(token).strip()
    if text.isascii() and text.isdecimal():
        if int(text) > end:
            raise HeadraceError(
                "wait.token", f"commit {text} is not known: the log ends at commit {end}",
                why="a write has its commit number once the log holds it", next="wait for the number it answered with",
            )  # fmt: skip
        return Token(text, int(text))
    source, colon, point = text.partition(":")
    if colon and source in sources:
        return Token(text, None, source, point.strip())
    known = ", ".join(sorted(sources)) or "none"
    if colon and source.strip():
        raise HeadraceError(
            "wait.token", f"there is no source '{source}' for the token '{text}'",
            next=did_you_mean(source, sources) or f"sources: {known}",
        )  # fmt: skip
    if text and len(sources) == 1:
        return Token(text, None, next(iter(sources)), text)
    raise HeadraceError(
        "wait.token", f"'{text}' is no token",
        next=f"a commit number, or SOURCE:POINT such as shop:0/16B3748; sources: {known}",
    )  # fmt: skip
