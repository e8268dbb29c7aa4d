"""Where a node's rows and columns come from, so that two nodes over the same rows are told to be so.

What is left out of a query's columns gives nodes over the same rows other fingerprints, and a filter may stand above
what does not change it in one of them and below in the other. Neither shows here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from headrace.circuit.node import Aggregate, Expand, Feed, Filter, Generate, Node, Project

_REFERENCE = re.compile(r"'([cgv]\d+)\b")
_PLAIN = re.compile(r"'([cgv]\d+):")
_COMPUTED = re.compile(r"(.*\)):((?:Literal:(?!STRING)[A-Z0-9(),_ ]+;)*)")  # see ``headrace.sql.catalyst.literals``
_QUOTED = "\\'"  # see ``headrace.sql.catalyst.QUOTED``
LONGEST = 2_000  # characters of a text; longer ones are told by their hash


@dataclass(frozen=True, slots=True)
class Origin:
    """Rows with columns: those of ``base`` that fulfil all ``conditions``; ``columns`` and these are over the base's.

    Two nodes of equal base and conditions have the same rows, as far as their columns are equal.
    """

    base: str
    conditions: frozenset[str]
    columns: tuple[str, ...]

    def spelled(self, text: str) -> str:
        """The text of an expression over the node's columns as one over those of the base."""
        return _spelled(text, {f"c{i}": column for i, column in enumerate(self.columns)})


def origin(of: Node) -> Origin:
    if isinstance(of, Feed):
        columns = of.columns or tuple(map(str, of.ordinals))
        return Origin(repr((of.relation, of.without)), frozenset(), columns)
    if isinstance(of, Project):
        below = origin(of.child)
        return Origin(below.base, below.conditions, tuple(below.spelled(e.text) for e in of.expressions))
    if isinstance(of, Filter):
        below = origin(of.child)
        parts = map(below.spelled, of.parts or (of.condition.text,))
        return Origin(below.base, below.conditions.union(parts), below.columns)
    if isinstance(of, Expand):
        return _expanded(of, origin(of.child))
    if isinstance(of, Generate):
        below = origin(of.child)
        generator = below.spelled(of.generator.text)
        made = tuple(repr((i, generator, below.base)) for i in range(of.outputs))
        columns = (*(below.columns[i] for i in of.required), *made)
        return Origin(repr((below.base, generator)), below.conditions, columns)
    if isinstance(of, Aggregate):
        return _groups(of, origin(of.child))
    return Origin(of.fingerprint, frozenset(), of.names)


def _expanded(of: Expand, below: Origin) -> Origin:
    """A column that is the same in all copies of a row is that of the row."""
    columns = []
    for copies in zip(*of.projections, strict=True):
        texts = tuple(below.spelled(e.text) for e in copies)
        columns.append(texts[0] if len(set(texts)) == 1 else repr((texts, below.base)))
    return Origin(f"{len(of.projections)} times {below.base}", below.conditions, tuple(columns))


def _groups(of: Aggregate, below: Origin) -> Origin:
    keys = tuple(below.spelled(key.text) for key in of.keys)
    known = {f"g{i}": key for i, key in enumerate(keys)}
    known |= {f"v{i}": below.spelled(accumulation.text) for i, accumulation in enumerate(of.accumulations)}
    columns = tuple(_spelled(result.text, known) for result in of.results)
    return Origin(repr((below.base, sorted(below.conditions), keys)), frozenset(), columns)


def _spelled(text: str, known: Mapping[str, str]) -> str:
    """A text with what is known of each column in the column's place."""
    if _QUOTED in text:
        made = repr((text, sorted(known.items())))
    elif plain := _PLAIN.fullmatch(text):
        return known[plain[1]]
    else:
        made = _REFERENCE.sub(lambda found: f"{{{known[found[1]]}}}", text)
    return made if len(made) <= LONGEST else blake2b(made.encode(), digest_size=16).hexdigest()


def present(value: str) -> frozenset[str]:
    """The conditions, as ``Origin`` has them, that are true where a spelled value is not NULL."""
    made = {f"isnotnull({{{value}}}):"}
    computed = _COMPUTED.fullmatch(value)
    if computed is not None:
        made.add(f"isnotnull({computed[1]}):{computed[2]}")
    return frozenset(made)
