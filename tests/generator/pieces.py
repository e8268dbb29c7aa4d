"""SQL as a tree of pieces, so that a failing query can be made smaller without a parser: each says what may go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Piece:
    """A part of a query.

    ``sort``: pieces of one sort may stand for each other; ``between`` joins the parts; ``plain``: texts that may
    stand in its place; ``least``: how many of the parts must stay, None when all must.
    """

    sort: str
    parts: tuple[Piece | str, ...]
    between: str = ""
    plain: tuple[str, ...] = ()
    least: int | None = None

    def __str__(self) -> str:
        return self.between.join(map(str, self.parts))

    def below(self) -> Iterator[Piece]:
        """All pieces inside, outer ones first."""
        for part in self.parts:
            if isinstance(part, Piece):
                yield part
                yield from part.below()


def piece(sort: str, *parts: Piece | str, plain: tuple[str, ...] = ()) -> Piece:
    return Piece(sort, parts, plain=plain)


def several(sort: str, parts: list[Piece], between: str, least: int = 1) -> Piece:
    """Parts of which some may go."""
    return Piece(sort, tuple(parts), between, least=least)


def clause(*parts: Piece | str) -> Piece:
    """A part that may go altogether, as WHERE may."""
    return Piece("clause", parts, plain=("",))


def smaller(root: Piece) -> list[Piece]:
    """Every query that one cut makes of this one, the smallest first, each text once."""
    found = {str(p): p for p in _smaller(root) if len(str(p)) < len(str(root))}
    return sorted(found.values(), key=lambda p: len(str(p)))


def _smaller(root: Piece) -> Iterator[Piece]:
    text = str(root)
    for plain in root.plain:
        if plain != text:
            yield Piece(root.sort, (plain,))
    for inner in root.below():
        if inner.sort == root.sort:
            yield inner
    if root.least is not None and len(root.parts) > root.least:
        for n in range(len(root.parts)):
            yield replace(root, parts=(*root.parts[:n], *root.parts[n + 1 :]))
    for n, part in enumerate(root.parts):
        if isinstance(part, Piece):
            for other in _smaller(part):
                yield replace(root, parts=(*root.parts[:n], other, *root.parts[n + 1 :]))
