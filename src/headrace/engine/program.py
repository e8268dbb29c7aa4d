"""All circuits of a project: tables first, then shared sub-queries and views in the order they depend on each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from pyspark.sql import DataFrame, SparkSession

from headrace.circuit.build import TABLE, Builder, Shape
from headrace.circuit.flow import Flow
from headrace.circuit.in_turn import InTurn, Turn
from headrace.circuit.node import Feed, Node, Shared
from headrace.circuit.operators import publish, table
from headrace.circuit.operators.changes import ReadRange
from headrace.model.schema import Relation

SHARED = "node:"


@dataclass(frozen=True, slots=True)
class Circuit:
    """One unit of a step: a table, a shared sub-query or a view version. ``name`` is the feed it makes."""

    name: str
    relation: Relation | None
    root: Node | None
    inputs: frozenset[str]
    level: int

    @property
    def is_view(self) -> bool:
        return self.root is not None and not self.name.startswith(SHARED)


@dataclass(frozen=True, slots=True)
class Program:
    """Circuits by level; those of one level run in one job. ``arrangements``: what each table and view keeps."""

    circuits: tuple[Circuit, ...]

    @property
    def levels(self) -> list[list[Circuit]]:
        depth = max((c.level for c in self.circuits), default=-1) + 1
        return [[c for c in self.circuits if c.level == level] for level in range(depth)]

    def circuit(self, name: str) -> Circuit:
        return next(c for c in self.circuits if c.name == name)

    def downstream(self, names: Iterable[str]) -> set[str]:
        """The circuits that read any of ``names``, directly or not, and ``names`` themselves."""
        reached = set(names)
        for circuit in self.circuits:
            if circuit.inputs & reached:
                reached.add(circuit.name)
        return reached


def assemble(tables: Mapping[str, Relation], views: Mapping[str, Node]) -> Program:
    """The program that maintains ``views`` (feed -> root, upstream views before their readers) over ``tables``."""
    roots, shared = extract(views)
    used = {leaf.relation for root in views.values() for leaf in root.walk() if isinstance(leaf, Feed)}
    circuits = [
        Circuit(name, relation, None, frozenset(), 0) for name, relation in sorted(tables.items()) if name in used
    ]
    levels = {c.name: 0 for c in circuits}
    pending = [*((SHARED + key, root) for key, root in shared.items()), *roots.items()]
    while pending:
        ready = [(n, r) for n, r in pending if feeds_of(r) <= levels.keys()]
        assert ready, f"circuits wait for each other: {[n for n, _ in pending]}"
        for name, root in ready:
            inputs = feeds_of(root)
            levels[name] = 1 + max((levels[i] for i in inputs), default=0)
            circuits.append(Circuit(name, None, root, frozenset(inputs), levels[name]))
        pending = [entry for entry in pending if entry not in ready]
    return Program(tuple(circuits))


def feeds_of(root: Node) -> set[str]:
    """The feeds a circuit reads."""
    return {leaf.relation for leaf in root.walk() if isinstance(leaf, Feed)}


def extract(views: Mapping[str, Node]) -> tuple[dict[str, Node], dict[str, Node]]:
    """Stateful sub-queries that occur twice or more, to be built once: (views without them, fingerprint -> root)."""
    count: Counter[str] = Counter()

    def tally(node: Node) -> None:
        if node.stateful:
            count[node.fingerprint] += 1
            if count[node.fingerprint] > 1:
                return
        for child in node.children:
            tally(child)

    for root in views.values():
        tally(root)
    shared: dict[str, Node] = {}

    def replaced(node: Node, top: bool) -> Node:
        if node.stateful and count[node.fingerprint] > 1 and not top:
            if node.fingerprint not in shared:
                shared[node.fingerprint] = node  # holds the place while its own children are looked at
                shared[node.fingerprint] = replaced(node, top=True)
            ordinals = tuple(range(len(node.types)))
            return Shared(node.types, node.nullables, SHARED + node.fingerprint, ordinals, node.fingerprint)
        return with_children(node, [replaced(child, top=False) for child in node.children])

    return {name: replaced(root, top=False) for name, root in views.items()}, shared


def with_children(node: Node, children: list[Node]) -> Node:
    """The same node over other children; its fingerprint must not change by that."""
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    remaining = iter(children)
    changes: dict[str, object] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = next(remaining)
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            changes[field.name] = tuple(next(remaining) for _ in value)
    return replace(node, **changes)  # type: ignore[arg-type]


class Frames:
    """Builds the circuits of a program as DataFrames; fixes which circuit writes which arrangement."""

    deal_all = False  # whether wide steps deal out the rows of every circuit, as tests of that shape want

    def __init__(self, spark: SparkSession, program: Program, read_range: ReadRange, partitions: int) -> None:
        self.spark, self.program, self.read_range, self.partitions = spark, program, read_range, partitions
        self.table_keys = {
            c.name: tuple(c.relation.names.index(k) for k in c.relation.key)
            for c in program.circuits
            if c.relation is not None and c.relation.key
        }
        self.owners: dict[str, str] = {}
        self.used: dict[str, set[str]] = {}
        # One pass in program order makes the owners the same in every shape and after every restart.
        self._narrow = {circuit.name: self.build(circuit, wide=False) for circuit in program.circuits}

    def frame(self, circuit: Circuit, *, wide: bool) -> DataFrame:
        """The circuit's DataFrame: one row for each file it writes.

        A circuit that runs in one Python stage does so in wide steps too: on one machine, dealing its rows out by
        key takes several times the processor time of maintaining the view.
        """
        narrow = self._narrow[circuit.name]
        return self.build(circuit, wide=True).frame if wide and (self.deal_all or not narrow.made) else narrow.frame

    def at_once(self, names: set[str]) -> DataFrame | None:
        """These circuits in one task, or None when one of them needs Spark for more than the task."""
        circuits = [c for c in self.program.circuits if c.name in names]
        if not all(self._narrow[c.name].made for c in circuits):
            return None
        turns = tuple(Turn(c.name, c.inputs, self._narrow[c.name].chain) for c in circuits)
        leaf = self.spark.range(0, 1, 1, 1)
        return Flow(leaf, publish.DESCRIPTION, (InTurn(turns),)).frame

    def build(self, circuit: Circuit, *, wide: bool) -> Flow:
        shape = Shape(wide, self.partitions if wide else 1)
        builder = Builder(self.spark, circuit.name, shape, self.owners, self.read_range, self.table_keys)
        if circuit.relation is not None:
            self.used[circuit.name] = {TABLE + circuit.relation.name}
            return table.circuit(builder, circuit.relation)
        assert circuit.root is not None
        flow = publish.publish(builder, builder.delta(circuit.root), durable=circuit.is_view)
        self.used[circuit.name] = builder.taken
        return flow

    @property
    def arrangements(self) -> set[str]:
        """Every arrangement that some circuit writes."""
        return set(self.owners)
