"""All circuits of a project: tables first, then shared sub-queries and views in the order they depend on each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.circuit.build import TABLE, Builder, Shape
from headrace.circuit.flow import Flow
from headrace.circuit.in_turn import Gate, InTurn, Turn, dealt
from headrace.circuit.node import Node, Shared, with_children
from headrace.circuit.operators import publish, table
from headrace.circuit.operators.changes import ReadRange
from headrace.circuit.operators.recursion import LEVELS, Deepest
from headrace.circuit.work import Operator
from headrace.circuit.written import COLUMNS
from headrace.engine.unroll import (
    LOOP,
    by_loop,
    feeds_of,
    inputs_of,
    is_of_level,
    levels_before,
    loop_of,
    unroll,
    waits,
)
from headrace.model.schema import Relation

SHARED = "node:"
MANY = 12  # circuits in a small step that are worth a job of their own, with a task for each core


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
        return self.root is not None and not self.name.startswith((SHARED, LOOP))


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

    def in_jobs(self, names: set[str]) -> list[set[str]]:
        """Circuits of a small step by the job that they run in: all in one, tables before views that are many."""
        tables = {c.name for c in self.circuits if c.name in names and c.relation is not None}
        return [tables, names - tables] if tables and len(names - tables) >= MANY else [names]

    def tables(self, names: Iterable[str]) -> set[str]:
        """The tables that these circuits read, directly or not."""
        reached, found = set(names), set[str]()
        for circuit in reversed(self.circuits):
            if circuit.name in reached:
                reached |= circuit.inputs
                if circuit.relation is not None:
                    found.add(circuit.name)
        return found


def assemble(
    tables: Mapping[str, Relation], views: Mapping[str, Node], depths: Mapping[str, int] | None = None
) -> Program:
    """The program that maintains ``views`` (feed -> root, upstream views before their readers) over ``tables``.

    ``depths``: for how many levels of each recursive query there are circuits.
    """
    unrolled, loops = unroll(views, depths or {})
    roots, shared = extract({**loops, **unrolled})
    used = {feed for root in roots.values() for feed in feeds_of(root)} | {
        feed for root in shared.values() for feed in feeds_of(root)
    }
    circuits = [
        Circuit(name, relation, None, frozenset(), 0) for name, relation in sorted(tables.items()) if name in used
    ]
    levels = {c.name: 0 for c in circuits}
    whole = by_loop(loops)
    every = {**{SHARED + key: root for key, root in shared.items()}, **roots}
    pending = {name: inputs_of(root, whole) for name, root in every.items()}
    while pending:
        ready = {name: inputs for name, inputs in pending.items() if inputs <= levels.keys()}
        assert ready, f"circuits wait for each other: {list(pending)}"
        for name, inputs in ready.items():
            levels[name] = 1 + max((levels[i] for i in inputs), default=0)
            circuits.append(Circuit(name, None, every[name], inputs, levels[name]))
            del pending[name]
    return Program(tuple(circuits))


def extract(views: Mapping[str, Node]) -> tuple[dict[str, Node], dict[str, Node]]:
    """Stateful sub-queries that occur twice or more, to be built once: (views without them, fingerprint -> root).

    What reads a level of a recursive query stays part of the next level's circuit, and waits for its rows.
    """
    count: Counter[str] = Counter()

    def tally(node: Node) -> None:
        if node.stateful and not is_of_level(node):
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
            return Shared(node.types, node.nullables, SHARED + node.fingerprint, ordinals, of=node)
        return with_children(node, [replaced(child, top=False) for child in node.children])

    return {name: replaced(root, top=False) for name, root in views.items()}, shared


def stateless(circuit: Circuit) -> bool:
    """Whether a view or shared sub-query keeps nothing: it is made of what follows each row by itself."""
    return circuit.root is not None and not any(node.stateful for node in circuit.root.walk())


class Frames:
    """Builds the circuits of a program as DataFrames; fixes which circuit writes which arrangement."""

    deal_all = False  # whether wide steps deal out the rows of every circuit

    def __init__(
        self, spark: SparkSession, program: Program, read_range: ReadRange, partitions: int, filled: Iterable[str] = (),
        *, counting: bool = False,
    ) -> None:  # fmt: skip
        """``filled``: arrangements that others write, or have written. ``counting``: all operators count their rows."""
        self.counting = counting
        self.operators: dict[str, list[Operator]] = {}  # of each circuit, inputs first
        self.unseen: dict[tuple[str, bool], set[str]] = {}  # by circuit and whether it is wide: see ``Builder``
        self.spark, self.program, self.read_range, self.partitions = spark, program, read_range, partitions
        self.table_keys = {
            c.name: tuple(c.relation.names.index(k) for k in c.relation.key)
            for c in program.circuits
            if c.relation is not None and c.relation.key
        }
        self.owners: dict[str, str] = dict.fromkeys(filled, "")
        self.used: dict[str, set[str]] = {}
        # One pass in program order makes the owners the same in every shape and after every restart.
        self._narrow = {circuit.name: self.build(circuit, wide=False) for circuit in program.circuits}

    def frame(self, circuit: Circuit, *, wide: bool) -> DataFrame:
        """The circuit's DataFrame: rows of ``written`` for the files it writes.

        A circuit that runs in one Python stage, or keeps nothing, does so in wide steps too: on one machine, dealing
        its rows out by key takes several times the processor time of maintaining the view.
        """
        narrow = self._narrow[circuit.name]
        dealt = self.deal_all or not (narrow.made or stateless(circuit))
        if wide and dealt and self.partitions > 1:
            return self.build(circuit, wide=True).frame
        self.unseen[circuit.name, wide] = self.unseen[circuit.name, False]
        return narrow.frame

    def at_once(self, names: set[str]) -> DataFrame | None:
        """These circuits in one task, many views in several; None when one needs Spark for more than a task."""
        circuits = [c for c in self.program.circuits if c.name in names]
        if not all(self._narrow[c.name].made for c in circuits):
            return None
        turns = [Turn(c.name, c.inputs, self._narrow[c.name].chain, self.gate(c)) for c in circuits]
        tasks = 1 if len(turns) < MANY or any(c.relation is not None for c in circuits) else self.partitions
        leaf = self.spark.range(0, tasks, 1, tasks)
        return Flow(leaf, COLUMNS, (InTurn(dealt(turns, tasks)),)).frame

    def gate(self, circuit: Circuit) -> Gate | None:
        """What a level of a recursive query waits for; None for every other circuit."""
        if not waits(circuit.name):
            return None
        kept = frozenset(name for name in self.used[circuit.name] if waits(self.owners[name]))
        return Gate(frozenset(levels_before(circuit.name, circuit.inputs)), kept)

    def build(self, circuit: Circuit, *, wide: bool) -> Flow:
        shape = Shape(wide, self.partitions if wide else 1)
        builder = Builder(
            self.spark, circuit.name, shape, self.owners, self.read_range, self.table_keys, counting=self.counting
        )
        self.operators[circuit.name] = builder.operators
        self.unseen[circuit.name, wide] = builder.unseen
        if circuit.relation is not None:
            self.used[circuit.name] = {TABLE + circuit.relation.name}
            return table.circuit(builder, circuit.relation)
        assert circuit.root is not None
        delta = builder.delta(circuit.root)
        level = loop_of(circuit.name)
        if level is not None and level[1] == LEVELS:
            delta = delta.then(Deepest(), delta.columns)
        flow = publish.publish(builder, delta, durable=circuit.is_view, stateless=stateless(circuit))
        self.used[circuit.name] = builder.taken
        return flow

    @property
    def arrangements(self) -> set[str]:
        """Every arrangement that some circuit writes."""
        return set(self.owners)
