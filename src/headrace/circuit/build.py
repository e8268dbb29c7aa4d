"""Nodes to DataFrames: each node's operator turns its inputs' deltas into its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.circuit.node import Expression, Feed, Node
from headrace.circuit.operators import OPERATORS
from headrace.circuit.operators.changes import ReadRange
from headrace.model.delivery import WEIGHT
from headrace.state.run import HASH

INSTANT = "_i"
TABLE = "table:"  # arrangements of a table's contents are named after it


@dataclass(frozen=True, slots=True)
class Shape:
    """How a circuit is laid out: narrow is one task and no exchange, wide is ``partitions`` tasks by key hash."""

    wide: bool
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Arranged:
    """An arrangement as one operator sees it: its name, the stored names of its columns, and who writes it."""

    name: str
    columns: tuple[str, ...]
    owned: bool


@dataclass
class Builder:
    """Builds one circuit in one shape.

    ``owners`` maps an arrangement to the circuit that writes it; the first to ask owns it, and every other
    operator with the same input and key reads it as of the step before. ``table_keys`` gives, for each table
    arranged by its key, the ordinals of the key columns.
    """

    spark: SparkSession
    circuit: str
    shape: Shape
    owners: dict[str, str]
    read_range: ReadRange
    table_keys: dict[str, tuple[int, ...]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def delta(self, node: Node) -> DataFrame:
        """The node's output delta: ``c0 ..``, ``_w`` (bigint), ``_i`` (int)."""
        return OPERATORS[type(node)](self, node)

    def leaf(self) -> DataFrame:
        """One row a task: what a stage without input is mapped over."""
        return self.spark.range(0, self.shape.partitions, 1, self.shape.partitions)

    def gather(self, frame: DataFrame) -> DataFrame:
        """Rows of one key hash in one task: the one there is, or the one that owns this part of the hash space.

        The part is a range of hashes, so runs sorted by hash serve any number of partitions.
        """
        if not self.shape.wide:
            return frame.coalesce(1)
        return frame.repartitionById(self.shape.partitions, bucket(F.col(HASH), self.shape.partitions))

    def arrange(self, node: Node, keys: Sequence[Expression]) -> Arranged:
        """The arrangement of a node's output by some keys, shared with whatever has the same."""
        shared = self._table(node, keys)
        if shared is not None:
            return shared
        text = repr((node.fingerprint, [k.text for k in keys]))
        name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        # Within one circuit a second operator on the same arrangement is a reader too: one writer in the step.
        owned = self.owners.setdefault(name, self.circuit) == self.circuit and name not in self.taken
        self.taken.add(name)
        return Arranged(name, node.names, owned)

    def own(self, name: str) -> None:
        """An arrangement that no other operator could share."""
        self.owners.setdefault(name, self.circuit)
        self.taken.add(name)

    def _table(self, node: Node, keys: Sequence[Expression]) -> Arranged | None:
        """A table by its own key is what its upsert keeps already."""
        if not isinstance(node, Feed) or node.relation not in self.table_keys:
            return None
        wanted = self.table_keys[node.relation]
        by = tuple(k.text.split(":")[0] for k in keys)
        if by != tuple(f"'c{node.ordinals.index(o)}" if o in node.ordinals else "" for o in wanted):
            return None
        return Arranged(TABLE + node.relation, tuple(f"c{o}" for o in node.ordinals), owned=False)


def bucket(key_hash: Column, partitions: int) -> Column:
    """The partition of a hash: equal ranges of the 64-bit space."""
    upper = F.shiftright(key_hash, 32) + F.lit(1 << 31)
    return F.coalesce(F.shiftright(upper * F.lit(partitions), 32), F.lit(0)).cast("int")


def strict_hash(keys: Sequence[Expression]) -> Column:
    """The hash of keys compared by ``=``: null when any of them is null, as such rows meet nothing."""
    present = F.lit(True)
    for key in keys:
        if key.nullable:
            present = present & key.column.isNotNull()
    return F.when(present, F.xxhash64(*[key.column for key in keys]))


def group_hash(keys: Sequence[Column]) -> Column:
    """The hash of keys grouped by: null is a value, and (null, 1) is not (1, null)."""
    if not keys:
        return F.lit(0).cast("bigint")
    return F.xxhash64(*[part for key in keys for part in (key, key.isNull())])


def ddl(columns: Sequence[tuple[str, str]]) -> str:
    """A schema for ``mapInArrow``."""
    return ", ".join(f"`{name}` {type_text}" for name, type_text in columns)


def fields(node: Node, letter: str = "c") -> list[tuple[str, str]]:
    """Names and types of a node's output columns."""
    return [(f"{letter}{i}", type_text) for i, type_text in enumerate(node.types)]


CHANGE = [(WEIGHT, "bigint"), (INSTANT, "int")]
