"""Nodes to flows: each node's operator turns its inputs' deltas into its own."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.circuit.exchange import LIES, TASK, Deal, Dealt
from headrace.circuit.explain import name as name_of
from headrace.circuit.flow import INSTANT, Columns, Flow, Stage
from headrace.circuit.node import Expression, Feed, Node, Shared
from headrace.circuit.operators import OPERATORS
from headrace.circuit.operators.changes import ReadRange
from headrace.circuit.work import Operator, Passed
from headrace.model.delivery import WEIGHT
from headrace.state.run import HASH

TABLE = "table:"  # arrangements of a table's contents are named after it


@dataclass(frozen=True, slots=True)
class Shape:
    """How a circuit is laid out: narrow is one task and no exchange, wide is ``partitions`` tasks by key hash."""

    wide: bool
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Arranged:
    """An arrangement as one operator sees it: its name, the stored names of its columns, whether this operator writes
    it, and the operator as its ``reader``."""

    name: str
    columns: tuple[str, ...]
    owned: bool
    reader: str


@dataclass
class Builder:
    """Builds one circuit in one shape.

    ``owners`` maps an arrangement to the circuit that writes it; the first to ask owns it, and every other
    operator with the same input and key reads it as of the step before. ``table_keys`` gives, for each table
    arranged by its key, the ordinals of the key columns. ``operators``: those built, inputs first. They count what
    they do, all of them when ``counting``, else but those in Python; the others are ``unseen``.
    """

    spark: SparkSession
    circuit: str
    shape: Shape
    owners: dict[str, str]
    read_range: ReadRange
    table_keys: dict[str, tuple[int, ...]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    counting: bool = False
    operators: list[Operator] = field(default_factory=list)
    unseen: set[str] = field(default_factory=set)
    _open: list[Operator] = field(default_factory=list)

    def delta(self, node: Node) -> Flow:
        """The node's output delta: ``c0 ..``, ``_w`` (bigint), ``_i`` (int)."""
        with self.operator(titled(node), node.fingerprint) as operator:
            flow: Flow = OPERATORS[type(node)](self, node)
        return self.counted(flow, operator.key)

    @contextmanager
    def operator(self, name: str, identity: str) -> Iterator[Operator]:
        """An operator while it is built: what is arranged meanwhile is its own, what it asks for is its input."""
        same = sum(o.key.startswith(f"{self.circuit}/{identity}/") for o in self.operators)
        operator = Operator(f"{self.circuit}/{identity}/{same}", name)
        if self._open:
            self._open[-1].inputs.append(operator.key)
        self._open.append(operator)
        yield operator
        self._open.pop()
        self.operators.append(operator)

    def counted(self, flow: Flow, key: str) -> Flow:
        """The same rows, counted under the key where Python has them, or it is asked for."""
        if self.counting or flow.in_python:
            return flow.then(Passed(key), flow.columns)
        self.unseen.add(key)
        return flow

    def made(self, stage: Stage, columns: Columns) -> Flow:
        """The rows that a stage makes from nothing in each task."""
        leaf = self.spark.range(0, self.shape.partitions, 1, self.shape.partitions)
        return Flow(leaf, columns, (stage,), made=True)

    def gather(self, flow: Flow) -> Flow:
        """Rows of one key hash in one task: the one there is, or the one that owns this part of the hash space.

        The part is a range of hashes, so runs sorted by hash serve any number of partitions.
        """
        if not self.shape.wide:
            return self.alone(flow)
        return self.dealt(flow)

    def gather_all(self, flow: Flow) -> Flow:
        """Rows that all have the hash 0, ``_w`` and ``_i`` in one task.

        In a wide circuit with one more, without weight: the one task of several that has any is known by that, also
        where nothing changes. A task's number does not tell, as it depends on what else the job does.
        """
        if not self.shape.wide:
            return self.alone(flow)
        head = {HASH: 0, WEIGHT: 0, INSTANT: 1}
        columns = [F.lit(head.get(name)).cast(type_text).alias(name) for name, type_text in flow.columns]
        row = Flow(self.spark.range(0, 1, 1, 1).select(*columns), flow.columns)
        return self.lie([flow, row]).then(Dealt(), flow.columns)

    def alone(self, flow: Flow) -> Flow:
        """All rows in the one task of a narrow circuit."""
        return flow if flow.made else Flow(flow.frame.coalesce(1), flow.columns)

    def dealt(self, flow: Flow, by: str | None = None) -> Flow:
        """Each row in the task that owns its key's hash, or of the number in the column ``by`` where it has one."""
        return self.lie([flow], by).then(Dealt(), flow.columns)

    def lie(self, flows: Sequence[Flow], by: str | None = None, *, everywhere: Collection[int] = ()) -> Flow:
        """Where the rows of some flows lie for each task. Each deals out its own: Spark would carry a union's.

        ``everywhere``: the numbers of those whose rows are all for every task.
        """
        tasks = self.shape.partitions
        inputs = [(input, each) for input, flow in enumerate(flows) for each in flow.each]
        frames = [
            flow.then(Deal(tasks, input, number, by, everywhere=input in everywhere), LIES).frame
            for number, (input, flow) in enumerate(inputs)
        ]
        return Flow(reduce(DataFrame.unionAll, frames).repartitionById(tasks, F.col(TASK)), LIES)

    def arrange(self, node: Node, keys: Sequence[Expression], *, strict: bool = False) -> Arranged:
        """The arrangement of a node's output by some keys, shared with whatever has the same.

        ``strict``: by the strict hash of the keys, which joins use and tables too; else by their group hash.
        """
        shared = self._table(node, keys) if strict else None
        if shared is not None:
            self._open[-1].arrangements.append(shared.name)
            return shared
        return self.claim(_named(node, keys, *([] if strict else ["group"])), node.names)

    def arranged(self, node: Node, keys: Sequence[Expression]) -> Arranged:
        """What a join below this operator arranges by the strict hash of the keys, and is told to keep."""
        return self._table(node, keys) or self._arranged(_named(node, keys), node.names, owned=False)

    def nothing(self) -> Arranged:
        """The arrangement of an input that is not kept."""
        return self._arranged("", (), owned=False)

    def claim(self, name: str, columns: tuple[str, ...] = ()) -> Arranged:
        """An arrangement by its name: the first to ask for it writes it."""
        # Within one circuit a second operator on the same arrangement is a reader too: one writer in the step.
        owned = self.owners.setdefault(name, self.circuit) == self.circuit and name not in self.taken
        self.taken.add(name)
        self._open[-1].arrangements.append(name)
        return self._arranged(name, columns, owned)

    def _arranged(self, name: str, columns: tuple[str, ...], owned: bool) -> Arranged:
        return Arranged(name, columns, owned, self._open[-1].key)

    def _table(self, node: Node, keys: Sequence[Expression]) -> Arranged | None:
        """A table by its own key is what its upsert keeps already."""
        if not isinstance(node, Feed) or node.relation not in self.table_keys or node.without:
            return None
        wanted = self.table_keys[node.relation]
        by = tuple(k.text.split(":")[0] for k in keys)
        if by != tuple(f"'c{node.ordinals.index(o)}" if o in node.ordinals else "" for o in wanted):
            return None
        return self._arranged(TABLE + node.relation, tuple(f"c{o}" for o in node.ordinals), owned=False)


def _named(node: Node, keys: Sequence[Expression], *more: str) -> str:
    text = repr((node.fingerprint, [k.text for k in keys], *more))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def titled(node: Node) -> str:
    """An operator's name where its work is told: a leaf's says what it reads."""
    if isinstance(node, Shared):
        return f"{name_of(node)} of a shared subquery"
    return f"{name_of(node)} {node.relation.split('@')[0]}" if isinstance(node, Feed) else name_of(node)
