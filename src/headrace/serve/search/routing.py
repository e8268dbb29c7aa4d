"""Which of many queries may match some rows: found by what each of them needs, at the cost of those that may.

Of each query is kept what at least one must be there of for it to match: a word in a column, or a number in a span.
Words are found in a table of words, spans by their ends in order. A query that needs nothing of the kind (only NOT, a
regular expression, the beginning of a word) may always match.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.serve.search.holds import Rows
from headrace.serve.search.library import analyzer
from headrace.serve.search.tree import Between, Boosted, Group, Node, Phrase
from headrace.state.sorting import stable_order

WIDE_COST = 8  # how many words a span of more than one number is as good as


@dataclass(frozen=True, slots=True)
class Word:
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """A number of at least ``low`` and at most ``high``; None: no bound."""

    field: str
    low: int | float | None
    high: int | float | None


Needed: TypeAlias = tuple[Word | Span, ...] | None


def needed(node: Node) -> Needed:
    """What a row must have one of to match; None: it may match without any."""
    match node:
        case Phrase(fields=fields, words=words, prefix=prefix):
            whole = [text for _, text in (words[:-1] if prefix else words)]
            longest = max(whole, key=len, default=None)  # a long word is likely to be a rare one
            return None if longest is None else tuple(Word(field, longest) for field in fields)
        case Between(field=field, low=low, high=high):
            return None if low is None and high is None else (Span(field, low, high),)
        case Boosted(node=inner):
            return needed(inner)
        case Group(every=every, some=some):
            if every:
                return min((part for part in map(needed, every) if part is not None), key=_cost, default=None)
            parts = [needed(part) for part in some]
            known = [key for part in parts if part is not None for key in part]
            return tuple(known) if parts and None not in parts else None
    return None


def _cost(keys: tuple[Word | Span, ...]) -> tuple[int, int]:
    """Few are better than many, and of as many long words better than short ones, which more rows have."""
    count = sum(WIDE_COST if isinstance(key, Span) and key.low != key.high else 1 for key in keys)
    return count, -min((len(key.text) for key in keys if isinstance(key, Word)), default=0)


class Router:
    """Finds the queries, numbered in order, that may match, and the rows that each may match."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._always: list[int] = []
        self._words: dict[str, dict[str, list[int]]] = {}
        spans: dict[str, list[tuple[int, Span]]] = {}
        for number, keys in enumerate(map(needed, nodes)):
            if keys is None:
                self._always.append(number)
            for key in keys or ():
                if isinstance(key, Word):
                    self._words.setdefault(key.field, {}).setdefault(key.text, []).append(number)
                else:
                    spans.setdefault(key.field, []).append((number, key))
        self._known = {field: frozenset(words) for field, words in self._words.items()}
        self._spans = {field: _Spans.of(of) for field, of in spans.items()}

    def candidates(self, rows: Rows, columns: Mapping[str, pa.Array]) -> dict[int, Collection[int]]:
        """Query -> the rows that it may match; queries that match none for sure are left out.

        ``columns``: what stands in the index for each field. Work: a look at each word of the texts, as the index makes
        words; that of numbers follows the distinct ones and what they lead to.
        """
        count = len(next(iter(columns.values()), ()))
        found: dict[int, Any] = {number: range(count) for number in self._always if count}
        analyze = analyzer().analyze
        for field, queries in self._words.items():
            known = self._known[field]
            for row, text in enumerate(rows.cells(field)):
                if text:
                    for word in known.intersection(analyze(text)):
                        for number in queries[word]:
                            found.setdefault(number, set()).add(row)
        for field, spans in self._spans.items():
            for number, inside in spans.inside(columns[field]):
                found.setdefault(number, set()).update(inside.tolist())
        return found


@dataclass(frozen=True, slots=True)
class _Spans:
    """Spans of one column, each of a query."""

    queries: npt.NDArray[np.int64]
    lows: npt.NDArray[np.generic]
    highs: npt.NDArray[np.generic]

    @classmethod
    def of(cls, spans: Sequence[tuple[int, Span]]) -> _Spans:
        real = any(isinstance(bound, float) for _, span in spans for bound in (span.low, span.high))
        kind = np.float64 if real else np.int64
        least, most = (-np.inf, np.inf) if real else (-(1 << 63), (1 << 63) - 1)
        lows = [least if span.low is None else min(max(span.low, least), most) for _, span in spans]
        highs = [most if span.high is None else min(max(span.high, least), most) for _, span in spans]
        return cls(np.array([number for number, _ in spans], np.int64), np.array(lows, kind), np.array(highs, kind))

    def inside(self, values: pa.Array) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Each query that has a value in its span, with the rows of these values."""
        rows = np.flatnonzero(np.asarray(values.is_valid()))
        present = np.asarray(values.drop_null())
        order = stable_order(present)
        ordered, rows = present[order], rows[order]
        begins = np.searchsorted(ordered, self.lows, "left")
        ends = np.searchsorted(ordered, self.highs, "right")
        for place in np.flatnonzero(ends > begins).tolist():
            yield int(self.queries[place]), rows[begins[place] : ends[place]]
