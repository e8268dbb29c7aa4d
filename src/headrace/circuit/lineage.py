"""Where each column of a query comes from: the columns that it is computed from, and those that only decide which rows.

A column decides rows where a filter, a join's condition, a key of a group, an order that cuts off, or the partition or
order of a window looks at it. Found from the nodes, once at planning; the clock is no column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from headrace.circuit import node
from headrace.circuit.node import PREVIOUS, Expression, Node, has_one_row
from headrace.model.clock import CLOCK

Origin = tuple[str, str]  # a relation and a column of it
Origins = frozenset[Origin]
NONE: Origins = frozenset()


@dataclass(frozen=True, slots=True)
class Traced:
    """A column: ``value``, what it is computed from; ``rows``, what decides which rows go into it alone."""

    value: Origins = NONE
    rows: Origins = NONE

    @property
    def all(self) -> Origins:
        return self.value | self.rows

    def __or__(self, other: Traced) -> Traced:
        return Traced(self.value | other.value, self.rows | other.rows)

    def within(self, rows: Origins) -> Traced:
        """The column where these decide, too, which rows go into it."""
        return Traced(self.value, self.rows | rows)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A query's ``columns``, and what decides which ``rows`` it has."""

    columns: tuple[Traced, ...] = ()
    rows: Origins = NONE

    def __or__(self, other: Lineage) -> Lineage:
        both = zip(self.columns, other.columns, strict=True)
        return Lineage(tuple(one | two for one, two in both), self.rows | other.rows)

    def keeping(self, rows: Origins) -> Lineage:
        """The same columns, of those rows that these let through."""
        return Lineage(self.columns, self.rows | rows)

    def as_values(self) -> Lineage:
        """Where there is one row whatever is read, what decided rows decides what its columns are made of."""
        return Lineage(tuple(column.within(self.rows) for column in self.columns))

    def told(self, place: int) -> Traced:
        """A column with all that decides which rows go into it; what it is computed from is not told twice."""
        column = self.columns[place]
        return Traced(column.value, (column.rows | self.rows) - column.value)


def lineage(of: Node, before: tuple[Lineage, ...] = ()) -> Lineage:
    """``before``: of the level before of each recursive query around, the nearest first."""
    below = [lineage(child, before) for child in of.children] if not isinstance(of, node.Loop) else []
    first = below[0] if below else Lineage()
    c = _named("c", first.columns)
    match of:
        case node.Feed():
            return _leaf(of, before)
        case node.Loop():
            return _loop(of, before)
        case node.Constant():
            return Lineage((Traced(),) * len(of.types))
        case node.Union():
            return reduce(Lineage.__or__, below)
        case node.Project():
            return Lineage(tuple(_computed(e, c) for e in of.expressions), first.rows)
        case node.Expand():
            places = zip(*of.projections, strict=True)
            return Lineage(tuple(_together(_computed(e, c) for e in p) for p in places), first.rows)
        case node.Filter():
            return first.keeping(_computed(of.condition, c).all)
        case node.Generate():
            made = _computed(of.generator, c)
            kept = tuple(first.columns[i] for i in of.required)
            return Lineage((*kept, *(made,) * of.outputs), first.rows | made.all)
        case node.Join():
            return _join(of, *below)
        case node.Threshold():
            compared = first.columns[of.value].all | _all(below[1].columns) | below[1].rows
            return first.keeping(compared)
        case node.Single():
            return first.as_values()
        case node.Limit():
            return first.keeping(_all(_computed(k.expression, c) for k in of.order))
        case node.Aggregate():
            groups = [_computed(k, c) for k in of.keys]
            values = [_together(_computed(a, c) for a in made.arguments) for made in of.accumulations]
            names = {**_named("g", groups), **_named("v", values)}
            return _grouped(of, first, groups, [_computed(r, names) for r in of.results])
        case node.Regroup():
            groups = [_computed(k, c) for k in of.keys]
            return _grouped(of, first, groups, [_computed(r, c) for r in of.results])
        case node.Window():
            by = _all(_computed(k, c) for k in of.keys)
            return _beside(first, (_computed(f, c).within(by) for f in of.functions))
        case node.Running():
            by = _ordered(of.keys, of.order, c)
            accumulated = [g.accumulation.arguments if g.accumulation is not None else () for g in of.growing]
            over = [_together(_computed(a, c) for a in given) for given in accumulated]
            over += [_computed(f, c) for f in of.functions]
            return _beside(first, (column.within(by) for column in over))
        case node.TopK():
            by = _ordered(of.keys, of.order, c)
            return _beside(first, [Traced(rows=by)]).keeping(by)
        case node.AsOf():
            by = _ordered(of.keys, of.order, c)
            found = tuple(first.columns[i].within(by) for i in of.rights)
            return Lineage((*(first.columns[i] for i in of.lefts), *found), first.rows | (by if of.inner else NONE))
    raise AssertionError(f"no lineage of {type(of).__name__}")


def _leaf(of: node.Feed, before: Sequence[Lineage]) -> Lineage:
    if of.relation.startswith(PREVIOUS):
        level = before[int(of.relation.removeprefix(PREVIOUS))]
        return Lineage(tuple(level.columns[i] for i in of.ordinals), level.rows)
    if of.relation == CLOCK.name:
        return Lineage((Traced(),) * len(of.ordinals))
    relation = of.relation.partition("@")[0]
    return Lineage(tuple(Traced(frozenset({(relation, name)})) for name in of.columns))


def _loop(of: node.Loop, before: tuple[Lineage, ...]) -> Lineage:
    """What the levels come from, taken together until a further one adds nothing."""
    found, more = None, lineage(of.anchor, before)
    while more != found:
        found = more
        more = found | lineage(of.body, (found, *before))
    return found


def _join(of: node.Join, left: Lineage, right: Lineage) -> Lineage:
    met = _computed(of.condition, {**_named("l", left.columns), **_named("r", right.columns)}).all | right.rows
    if of.kind == "existence":
        return _beside(left, [Traced(rows=met)])
    if of.kind == "single":
        return _beside(left, (column.within(met) for column in right.columns))
    both = left.columns if of.kind in ("semi", "anti", "filter") else (*left.columns, *right.columns)
    return Lineage(both, left.rows | met)


def _grouped(of: Node, child: Lineage, groups: Iterable[Traced], results: Iterable[Traced]) -> Lineage:
    found = Lineage(tuple(results), child.rows | _all(groups))
    return found.as_values() if has_one_row(of) else found


def _beside(child: Lineage, made: Iterable[Traced]) -> Lineage:
    return Lineage((*child.columns, *made), child.rows)


def _ordered(keys: Iterable[Expression], order: Iterable[node.SortKey], names: Mapping[str, Traced]) -> Origins:
    return _all(_computed(e, names) for e in (*keys, *(k.expression for k in order)))


def _computed(expression: Expression, names: Mapping[str, Traced]) -> Traced:
    """``names``: what an expression may read; its other names are the circuit's own, such as marks of stretches."""
    made = _together(names[name] for name in expression.reads if name in names)
    return made.within(_all(names[name] for name in expression.decides if name in names))


def _named(letter: str, columns: Sequence[Traced]) -> dict[str, Traced]:
    return {f"{letter}{i}": column for i, column in enumerate(columns)}


def _together(columns: Iterable[Traced]) -> Traced:
    return reduce(Traced.__or__, columns, Traced())


def _all(columns: Iterable[Traced]) -> Origins:
    return _together(columns).all
