"""Where a node's rows and columns come from, so that two nodes over the same rows are told to be so.

What is left out of a query's columns gives nodes over the same rows other fingerprints, and a filter may stand above
what does not change it in one of them and below in the other. Neither shows here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from headrace.circuit.node import Aggregate, Expand, Expression, Feed, Filter, Generate, Node, Project

_REFERENCE = re.compile(r"'([cgv]\d+)\b")
_PLAIN = re.compile(r"'([cgv]\d+):")
_WHOLE = re.compile(r"(.*\)):((?:Literal:(?!STRING)[A-Z0-9(),_ ]+;)*)")  # see ``headrace.sql.catalyst.literals``
LONGEST = 2_000  # characters of a text; longer ones are told by their hash


@dataclass(frozen=True, slots=True)
class Origin:
    """Rows with columns: those of ``base`` that fulfil all ``conditions``; ``columns`` and these are over the base's.

    Two nodes of equal base and conditions have the same rows, as far as their columns are equal.
    """

    base: str
    conditions: frozenset[str]
    columns: tuple[str, ...]

    def spelled(self, expression: Expression) -> str:
        """An expression over the node's columns as one over those of the base."""
        return _spelled(expression.text, lambda name: self.columns[int(name[1:])])


def origin(of: Node) -> Origin:
    if isinstance(of, Feed):
        columns = of.columns or tuple(map(str, of.ordinals))
        return Origin(repr((of.relation, of.without)), frozenset(), columns)
    if isinstance(of, Project):
        below = origin(of.child)
        return Origin(below.base, below.conditions, tuple(map(below.spelled, of.expressions)))
    if isinstance(of, Filter):
        below = origin(of.child)
        parts = {_spelled(part, lambda name: below.columns[int(name[1:])]) for part in conjuncts(of.condition.text)}
        return Origin(below.base, below.conditions | parts, below.columns)
    if isinstance(of, Expand):
        below = origin(of.child)
        spelled = zip(*(map(below.spelled, projection) for projection in of.projections), strict=True)
        columns = tuple(_either(column) for column in spelled)
        return Origin(f"{len(of.projections)} times {below.base}", below.conditions, columns)
    if isinstance(of, Generate):
        below = origin(of.child)
        generator = below.spelled(of.generator)
        made = tuple(f"{i} of {{{generator}}}" for i in range(of.outputs))
        columns = (*(below.columns[i] for i in of.required), *made)
        return Origin(repr((below.base, generator)), below.conditions, columns)
    if isinstance(of, Aggregate):
        return _groups(of)
    return Origin(of.fingerprint, frozenset(), of.names)


def _groups(of: Aggregate) -> Origin:
    below = origin(of.child)
    keys = tuple(map(below.spelled, of.keys))
    known = {f"g{i}": key for i, key in enumerate(keys)}
    for i, accumulation in enumerate(of.accumulations):
        known[f"v{i}"] = _spelled(accumulation.text, lambda name: below.columns[int(name[1:])])
    columns = tuple(_spelled(result.text, known.__getitem__) for result in of.results)
    return Origin(repr((below.base, sorted(below.conditions), keys)), frozenset(), columns)


def _spelled(text: str, known: Callable[[str], str]) -> str:
    """A text with what is known of each column in the column's place."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        return known(plain[1])
    made = _REFERENCE.sub(lambda found: f"{{{known(found[1])}}}", text)
    return made if len(made) <= LONGEST else blake2b(made.encode(), digest_size=16).hexdigest()


def _either(columns: tuple[str, ...]) -> str:
    """A column that is one of these, or always the same."""
    return columns[0] if len(set(columns)) == 1 else repr(columns)


def conjuncts(text: str) -> frozenset[str]:
    """The parts of a condition's text that AND joins, and the types of its literals; one with texts is left whole, as
    they may hold anything."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return frozenset({text})
    found, pending = {f":{whole[2]}"} if whole[2] else set[str](), [whole[1]]
    while pending:
        part = pending.pop()
        cut = _and_of(part)
        if cut is None:
            found.add(f"{part}:")
        else:
            pending += [part[1:cut], part[cut + len(" AND ") : -1]]
    return frozenset(found)


def present(value: str) -> frozenset[str]:
    """The conditions, as ``Origin`` has them, that are true where a spelled value is not NULL."""
    made = {f"isnotnull({{{value}}}):"}
    computed = _WHOLE.fullmatch(value)
    if computed is not None:
        made |= {f"isnotnull({computed[1]}):", f"isnotnull({computed[1]}):{computed[2]}"}
    return frozenset(made)


def _and_of(part: str) -> int | None:
    """Where the AND of ``(a AND b)`` stands."""
    depth = 0
    if not (part.startswith("(") and part.endswith(")")):
        return None
    for i, letter in enumerate(part):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and i < len(part) - 1:
            return None
        if depth == 1 and part.startswith(" AND ", i):
            return i
    return None
