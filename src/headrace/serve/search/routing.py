"""Which of many queries may match some rows: found by what each of them needs, at the cost of those that may.

Of each query is kept what at least one must be there of for it to match: a word in a column, or a number in a span.
Words are found in a table of words, spans by their ends in order. A query that needs nothing of the kind (only NOT, a
regular expression, the beginning of a word) may always match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.serve.search.library import analyzer
from headrace.serve.search.tree import Between, Boosted, Group, Node, Phrase

WIDE_COST = 8  # how many words a span of more than one number is as good as
Flags: TypeAlias = npt.NDArray[np.bool_]


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


def _cost(keys: tuple[Word | Span, ...]) -> int:
    return sum(WIDE_COST if isinstance(key, Span) and key.low != key.high else 1 for key in keys)


@dataclass(frozen=True, slots=True)
class _Spans:
    """Spans of one column, each of a query."""

    queries: npt.NDArray[np.int64]
    lows: npt.NDArray[np.generic]
    highs: npt.NDArray[np.generic]

    def hit(self, values: pa.Array, queries: set[int]) -> Flags:
        """Adds the queries that have a value in a span; which rows have such a value."""
        present = np.asarray(values.drop_null())
        rows = np.zeros(len(values), bool)
        ordered = np.unique(present)
        inside = np.searchsorted(ordered, self.highs, "right") > np.searchsorted(ordered, self.lows, "left")
        if not inside.any():
            return rows
        queries.update(self.queries[inside].tolist())
        order = np.argsort(self.lows[inside])
        lows, reach = self.lows[inside][order], np.maximum.accumulate(self.highs[inside][order])
        before = np.searchsorted(lows, present, "right") - 1
        rows[np.asarray(values.is_valid())] = (before >= 0) & (reach[np.maximum(before, 0)] >= present)
        return rows


class Router:
    """Finds the queries, numbered in order, that may match."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.always: set[int] = set()
        self._words: dict[str, dict[str, list[int]]] = {}
        spans: dict[str, list[tuple[int, Span]]] = {}
        for number, keys in enumerate(map(needed, nodes)):
            if keys is None:
                self.always.add(number)
            for key in keys or ():
                if isinstance(key, Word):
                    self._words.setdefault(key.field, {}).setdefault(key.text, []).append(number)
                else:
                    spans.setdefault(key.field, []).append((number, key))
        self._spans = {field: _spans(of) for field, of in spans.items()}

    def candidates(self, columns: Mapping[str, pa.Array]) -> tuple[set[int], Flags]:
        """(queries that may match, rows that may be matched). ``columns``: what stands in the index for each field.

        Work: a look at each word of the texts, as the index makes words; that of numbers follows the distinct ones.
        """
        count = len(next(iter(columns.values()), ()))
        queries, rows = set(self.always), np.full(count, bool(self.always))
        for field, words in self._words.items():
            known, analyze = set(words), analyzer().analyze
            for row, text in enumerate(columns[field].to_pylist()):
                if text and (hits := known.intersection(analyze(text))):
                    rows[row] = True
                    for word in hits:
                        queries.update(words[word])
        for field, spans in self._spans.items():
            rows |= spans.hit(columns[field], queries)
        return queries, rows


def _spans(of: Sequence[tuple[int, Span]]) -> _Spans:
    real = any(isinstance(bound, float) for _, span in of for bound in (span.low, span.high))
    kind = np.float64 if real else np.int64
    least, most = (-np.inf, np.inf) if real else (-(1 << 63), (1 << 63) - 1)
    lows = [least if span.low is None else min(max(span.low, least), most) for _, span in of]
    highs = [most if span.high is None else min(max(span.high, least), most) for _, span in of]
    return _Spans(np.array([number for number, _ in of], np.int64), np.array(lows, kind), np.array(highs, kind))
