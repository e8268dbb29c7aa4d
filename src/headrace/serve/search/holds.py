"""Whether a query holds for one row, without an index: for the few rows that a stored query may match.

What an index finds is the same (the tests hold both to one meaning). Only regular expressions and phrases whose words
may move are left to tantivy: ``needs_index``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headrace.serve.search.library import analyzer
from headrace.serve.search.tree import Between, Boosted, Every, Group, Node, Pattern, Phrase, Present


def needs_index(node: Node) -> bool:
    match node:
        case Pattern():
            return True
        case Phrase(slop=slop):
            return slop > 0
        case Boosted(node=inner):
            return needs_index(inner)
        case Group(every=every, some=some, no=no):
            return any(map(needs_index, (*every, *some, *no)))
    return False


class Rows:
    """Rows as queries look at them. ``columns``: what stands in the index for each field (``fields.numbers``)."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._cells: dict[str, list[Any]] = {}
        self._words: dict[tuple[str, int], frozenset[str]] = {}

    def cells(self, field: str) -> list[Any]:
        """All values of a field: texts or numbers, None for NULL."""
        if field not in self._cells:
            self._cells[field] = self._columns[field].to_pylist()
        return self._cells[field]

    def words(self, field: str, row: int) -> frozenset[str]:
        """The words of a text."""
        if (field, row) not in self._words:
            self._words[field, row] = frozenset(analyzer().analyze(self.cells(field)[row] or ""))
        return self._words[field, row]

    def holds(self, node: Node, row: int) -> bool:
        """Whether a query that needs no index holds for the row with this number."""
        match node:
            case Phrase():
                return any(self._phrase(node, field, row) for field in node.fields)
            case Between(field=field, low=low, high=high):
                value = self.cells(field)[row]
                return value is not None and (low is None or value >= low) and (high is None or value <= high)
            case Group(every=every, some=some, no=no):
                if not all(self.holds(part, row) for part in every) or any(self.holds(part, row) for part in no):
                    return False
                return bool(every) or not some or any(self.holds(part, row) for part in some)
            case Present(field=field):
                return self.cells(field)[row] is not None
            case Boosted(node=inner):
                return self.holds(inner, row)
            case Every():
                return True
        raise TypeError(f"{node} needs an index")

    def _phrase(self, node: Phrase, field: str, row: int) -> bool:
        there, (first, *more) = self.words(field, row), node.words
        if not more:
            if not node.prefix:
                return first[1] in there
            return any(word.startswith(first[1]) for word in there)
        whole = node.words[:-1] if node.prefix else node.words
        if not all(word in there for _, word in whole):
            return False
        placed = {token.position: token.text for token in analyzer().pre_tokenize(self.cells(field)[row]).tokens}
        last_place, last = node.words[-1]
        for start in (place - first[0] for place, word in placed.items() if word == first[1]):
            if all(placed.get(start + place) == word for place, word in whole):
                ending = placed.get(start + last_place, "")
                if not node.prefix or ending.startswith(last):
                    return True
        return False
