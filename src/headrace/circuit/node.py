"""A query as a tree of nodes, lowered from Catalyst's optimized plan: what operators are built from.

Every node names its output columns by position, ``c0 .. cn``; expressions refer to the child's columns by
those names (``l0 ..`` and ``r0 ..`` in a join's condition, ``g0 ..`` and ``v0 ..`` over an aggregate), so equal
sub-queries have equal fingerprints whatever attribute ids Spark gave them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

from headrace.circuit.local import Local


@dataclass(frozen=True, slots=True)
class Expression:
    """A Catalyst expression rebound by position: the ``Column`` to build with, its text to compare with, its type.

    ``local``: the same for Arrow, bit by bit. ``reads``: the names of what its value is made of; ``decides``: of what
    only says which rows go into it, as in a window.
    """

    column: Any = field(compare=False)
    text: str
    type: str
    nullable: bool = True
    local: Local | None = field(default=None, compare=False)
    reads: frozenset[str] = field(default=frozenset(), compare=False)
    decides: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class Node:
    """``types`` are Spark SQL type texts of the output columns; ``nullables`` whether each may be null."""

    types: tuple[str, ...]
    nullables: tuple[bool, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    @property
    def stateful(self) -> bool:
        return False

    def described(self) -> tuple[str, ...]:
        """What, beside kind, types and children, makes two nodes of one kind different."""
        return ()

    @cached_property
    def fingerprint(self) -> str:
        """Equal for sub-queries that always have equal contents (128 bits, hex)."""
        text = repr((type(self).__name__, self.types, self.described(), tuple(c.fingerprint for c in self.children)))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"c{i}" for i in range(len(self.types)))

    def walk(self) -> Iterator[Node]:
        """This node and all below it, children first."""
        for child in self.children:
            yield from child.walk()
        yield self


@dataclass(frozen=True)
class Feed(Node):
    """A leaf: some columns of a relation (table, view or shared sub-query), by ordinal; ``columns``: their names.

    ``without``: the name of rows that it leaves out."""

    relation: str
    ordinals: tuple[int, ...]
    columns: tuple[str, ...] = ()
    without: str = ""

    def described(self) -> tuple[str, ...]:
        return (self.relation, *(self.columns or map(str, self.ordinals)), *([self.without] if self.without else []))


@dataclass(frozen=True)
class Unary(Node):
    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


@dataclass(frozen=True)
class Project(Unary):
    expressions: tuple[Expression, ...]

    def described(self) -> tuple[str, ...]:
        return tuple(e.text for e in self.expressions)


@dataclass(frozen=True)
class Filter(Unary):
    """``parts``: the texts of what AND joins to the condition, where that is known."""

    condition: Expression
    parts: tuple[str, ...] = field(default=(), compare=False)

    def described(self) -> tuple[str, ...]:
        return (self.condition.text,)


@dataclass(frozen=True)
class Generate(Unary):
    """Each row of the child, without the columns not in ``required``, once for every row its generator makes."""

    generator: Expression
    required: tuple[int, ...]
    outputs: int

    def described(self) -> tuple[str, ...]:
        return (self.generator.text, str(self.required), str(self.outputs))


@dataclass(frozen=True)
class Expand(Unary):
    """Each row of the child once for every projection (grouping sets, several DISTINCT aggregates)."""

    projections: tuple[tuple[Expression, ...], ...]

    def described(self) -> tuple[str, ...]:
        return tuple(repr([e.text for e in projection]) for projection in self.projections)


@dataclass(frozen=True)
class Union(Node):
    inputs: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.inputs


@dataclass(frozen=True)
class Join(Node):
    """``kind``: inner, left, full, semi, anti or existence (a right join is a left join turned round), single (a left
    join that throws where a row meets several) or filter (a semi join with a right side that always has one row).

    ``left_keys`` and ``right_keys`` are equal where the condition holds; the whole ``condition`` is over
    ``l0 ..`` and ``r0 ..`` and is always evaluated again on what the keys bring together. Without keys
    every pair may meet; such a join is never full, and only such a join is a filter. ``residual``: whether it asks for
    more than that the keys are equal.
    """

    kind: str
    left: Node
    right: Node
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    condition: Expression
    residual: bool = field(default=True, compare=False)

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        return (self.kind, *(e.text for e in (*self.left_keys, *self.right_keys)), self.condition.text)


@dataclass(frozen=True, slots=True)
class Accumulation:
    """One aggregate that is maintained by itself: a function of ``headrace.circuit.slots``, or one of the order.

    A row of which an argument is NULL does not count; ``count`` of no argument counts every row. ``details`` of a
    percentile: its fractions, whether an array of them is the result, whether the order is descending; of a mode only
    the last.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: str
    distinct: bool = False
    details: tuple[tuple[float, ...], bool, bool] | tuple[()] = ()

    @property
    def text(self) -> str:
        given = ", ".join(a.text for a in self.arguments) or "*"
        return f"{self.function}({'distinct ' if self.distinct else ''}{given}):{self.type}{self.details or ''}"


@dataclass(frozen=True)
class Aggregate(Unary):
    """Aggregates that add and subtract. ``results`` are over ``g0 ..`` (keys) and ``v0 ..`` (accumulations)."""

    keys: tuple[Expression, ...]
    accumulations: tuple[Accumulation, ...]
    results: tuple[Expression, ...]

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        expressions = tuple(e.text for e in (*self.keys, *self.results))
        return (*expressions, *(a.text for a in self.accumulations))


@dataclass(frozen=True)
class OrderedAggregate(Aggregate):
    """Aggregates of which some ask for the values of their group in order, or for each distinct one once."""


@dataclass(frozen=True)
class Regroup(Unary):
    """Any other aggregate, recomputed by Spark for the touched keys: ``results`` contain the functions.

    Without keys they count only rows whose column ``COUNTED`` is true.
    """

    COUNTED: ClassVar[str] = "_p"

    keys: tuple[Expression, ...]
    results: tuple[Expression, ...]

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        return tuple(e.text for e in (*self.keys, *self.results))


@dataclass(frozen=True)
class Sessions(Regroup):
    """An aggregate over session windows; ``session``: ordinal of the child's column with each row's own window.

    ``normal``, ``accumulations`` and ``grouped``: keys, accumulations and results as of an ``Aggregate`` whose last key
    is the session, where all of its functions are maintained; ``grouped`` is None where they are not.
    """

    session: int
    accumulations: tuple[Accumulation, ...] = field(default=(), compare=False)
    grouped: tuple[Expression, ...] | None = field(default=None, compare=False)
    normal: tuple[Expression, ...] = field(default=(), compare=False)

    def described(self) -> tuple[str, ...]:
        return (*super().described(), str(self.session))


@dataclass(frozen=True)
class Window(Unary):
    """Window functions over one partitioning, recomputed by Spark for the touched partitions.

    Output: the child's columns, then one for each of ``functions``; ``specifications[i]`` makes the window
    expression of function i when given further partition columns.
    """

    keys: tuple[Expression, ...]
    functions: tuple[Expression, ...]

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        return tuple(e.text for e in (*self.keys, *self.functions))


@dataclass(frozen=True, slots=True)
class SortKey:
    """One expression of an ORDER BY."""

    expression: Expression
    descending: bool
    nulls_last: bool

    @property
    def text(self) -> str:
        direction, nulls = "desc" if self.descending else "asc", "last" if self.nulls_last else "first"
        return f"{self.expression.text} {direction} nulls {nulls}"


@dataclass(frozen=True)
class Limit(Unary):
    """The child's rows at positions [start, stop) of an order that leaves none open; all from ``start`` on without
    ``stop``."""

    order: tuple[SortKey, ...]
    start: int
    stop: int | None

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        return (f"{self.start}..{'' if self.stop is None else self.stop}", *(s.text for s in self.order))


@dataclass(frozen=True)
class TopK(Unary):
    """The child's rows that ``function`` (row_number, rank or dense_rank, by key and order) numbers up to ``most``.

    Output: the child's columns, then the number. The order of a row_number leaves none open.
    """

    function: str
    most: int
    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        return (f"{self.function} <= {self.most}", *(k.text for k in self.keys), *(s.text for s in self.order))


@dataclass(frozen=True)
class Growing:
    """A function of the partition's rows from its first one on, up to the row or, with ``peers``, to its last peer.

    Without an accumulation it is the row's number or, with ``peers``, that of its first peer: its rank.
    """

    accumulation: Accumulation | None
    peers: bool
    type: str

    @property
    def text(self) -> str:
        if self.accumulation is None:
            return "rank()" if self.peers else "row_number()"
        return f"{self.accumulation.text} {'range' if self.peers else 'rows'}"


@dataclass(frozen=True)
class Running(Unary):
    """Window functions whose frames lie near their row, or grow from the partition's first row up to it.

    Output: the child's columns, one for each of ``growing``, one for each of ``functions``. These are over the columns
    of a stretch of rows and over ``marks``: the stretch's number, and whether a row's result counts. ``back`` and
    ``forward``: how many rows a fixed frame reaches to either side.
    """

    STRETCH: ClassVar[str] = "_g"
    REACHED: ClassVar[str] = "_p"

    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    growing: tuple[Growing, ...]
    functions: tuple[Expression, ...]
    back: int
    forward: int

    @property
    def stateful(self) -> bool:
        return True

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        return ((self.STRETCH, "bigint"), (self.REACHED, "boolean")) if self.functions else ()

    def described(self) -> tuple[str, ...]:
        texts = [e.text for e in (*self.keys, *self.functions)]
        texts += [g.text for g in self.growing] + [s.text for s in self.order]
        return (*texts, str((self.back, self.forward)))


@dataclass(frozen=True)
class AsOf(Unary):
    """Each left row with the last right row of its key before it in time, both from a child that has the rows of both.

    ``order``: whether a row is of the left, its time, then what tells right rows of one time apart. ``lefts`` and
    ``rights``: the output, by ordinals of the child. ``inner``: without left rows that find none; else NULLs stand
    for it. ``inclusive``: a right row of the same time counts as before.
    """

    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    lefts: tuple[int, ...]
    rights: tuple[int, ...]
    inner: bool
    inclusive: bool

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        kind = "inner" if self.inner else "left"
        texts = (*(k.text for k in self.keys), *(s.text for s in self.order))
        return (f"{kind}{' or equal' if self.inclusive else ''}", *texts, str((self.lefts, self.rights)))


PREVIOUS = "previous:"  # what a recursive query reads as the rows of the level before, and the number of the query


@dataclass(frozen=True)
class Loop(Node):
    """A recursive query: the rows of ``anchor``, then again and again those of ``body`` over the level before.

    The body reads the level before as relation ``PREVIOUS`` 0; that of the loop around it has number 1, and so on.
    """

    anchor: Node
    body: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.anchor, self.body)

    @property
    def stateful(self) -> bool:
        return True


@dataclass(frozen=True)
class Single(Unary):
    """The one row of a subquery that is used as a value; a row of NULLs where it has none. Several are an error."""

    @property
    def stateful(self) -> bool:
        return True


@dataclass(frozen=True)
class Threshold(Node):
    """The rows of ``left`` whose column ``value`` stands in ``comparison`` (<, <=, > or >=) to the one value that
    ``right`` always has. ``passes``: that value only grows, so that what it has passed never comes back.
    """

    left: Node
    right: Node
    value: int
    comparison: str
    passes: bool

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def stateful(self) -> bool:
        return True

    def described(self) -> tuple[str, ...]:
        return (f"c{self.value} {self.comparison}", *(["passes"] if self.passes else []))


@dataclass(frozen=True)
class Constant(Node):
    """A leaf whose rows never change: ``rows``, a table of columns ``c0 ..``, or the numbers of one column; ``digest``
    tells two of them apart."""

    rows: Any = field(compare=False)
    digest: str

    def described(self) -> tuple[str, ...]:
        return (self.digest,)


@dataclass(frozen=True)
class Shared(Feed):
    """A leaf that stands for a sub-query which a circuit of its own maintains for all who contain it.

    It has the sub-query's fingerprint, so that what is built above keeps its state when sharing begins or ends.
    ``of``: the sub-query.
    """

    of: Node = field(kw_only=True, compare=False, repr=False)

    @cached_property
    def fingerprint(self) -> str:
        return self.of.fingerprint


def with_children(node: Node, children: list[Node]) -> Node:
    """The same node over other children."""
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    remaining = iter(children)
    changes: dict[str, object] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            changes[each.name] = next(remaining)
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            changes[each.name] = tuple(next(remaining) for _ in value)
    return replace(node, **changes)  # type: ignore[arg-type]
