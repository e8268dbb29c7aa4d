"""What a table is made of at the server: what changes when its contents do so without any row being sent.

That happens when a partition with rows is attached, detached, dropped or emptied by itself, when the values of a column
are rewritten (ALTER COLUMN TYPE ... USING), when a column is dropped and another of its name made, when a label of an
enum is renamed. PostgreSQL sends nothing then; the catalogue shows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from headrace.sources.connectors.postgres.introspect import SourceTable

_SUM = 1 << 32

# The row versions of the columns' entries: every ALTER COLUMN makes new ones; VACUUM, TRUNCATE and ADD COLUMN do not.
_COLUMNS = """
SELECT a.attrelid, a.attname::text, format('%%s:%%s:%%s', a.attnum, a.xmin, (
         SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e
         WHERE e.enumtypid IN (t.oid, t.typelem, t.typbasetype)))
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""

# Every partition and sub-partition, the longest attached first. ``born``: made as a partition, so that it never had
# rows that were not sent. CREATE TABLE ... PARTITION OF writes the table's first entries two commands before the link.
_PARTITIONS = """
SELECT r.oid, t.relid, c.relfilenode, i.xmin = a.xmin AND (i.cmin::text::bigint - a.cmin::text::bigint) BETWEEN 0 AND 2
FROM unnest(%s::oid[]) r(oid), pg_partition_tree(r.oid) t
JOIN pg_class c ON c.oid = t.relid
JOIN pg_inherits i ON i.inhrelid = t.relid
JOIN pg_attribute a ON a.attrelid = t.relid AND a.attnum = -6
WHERE t.level > 0
ORDER BY age(i.xmin) DESC, t.relid
"""


@dataclass(frozen=True, slots=True)
class Partition:
    oid: int
    file: int  # another one after TRUNCATE
    born: bool


@dataclass(frozen=True, slots=True)
class Form:
    """One table's; equal forms: nothing has changed but by rows that were sent."""

    columns: str
    partitions: tuple[Partition, ...] = ()

    @property
    def text(self) -> str:
        """As positions keep it, so that a restart sees what happened while nobody looked."""
        if not self.partitions:
            return self.columns
        return f"{self.columns}.{len(self.partitions)}.{_sum(self.partitions):08x}"

    def follows(self, before: str) -> bool:
        """Whether the contents are those of the form with the text ``before`` and the rows sent since.

        Partitions that were made as such since then have come in with all their rows.
        """
        columns, _, rest = before.partition(".")
        count, _, total = rest.partition(".")
        old = int(count or 0)
        if columns != self.columns or len(self.partitions) < old:
            return False
        same = f"{_sum(self.partitions[:old]):08x}" == (total or f"{0:08x}")
        return same and all(partition.born for partition in self.partitions[old:])


def forms(connection: psycopg.Connection[Any], tables: Iterable[SourceTable]) -> dict[int, Form]:
    """The form of each table that is still there, by oid."""
    tables = list(tables)
    columns: dict[int, dict[str, str]] = {}
    for oid, name, text in connection.execute(_COLUMNS, ([table.oid for table in tables],)):
        columns.setdefault(oid, {})[name] = text
    partitions: dict[int, list[Partition]] = {}
    for oid, *values in connection.execute(_PARTITIONS, ([table.oid for table in tables if table.partitioned],)):
        partitions.setdefault(oid, []).append(Partition(*values))
    return {
        table.oid: Form(_digest(table, columns[table.oid]), tuple(partitions.get(table.oid, ())))
        for table in tables
        if table.oid in columns
    }


def _digest(table: SourceTable, columns: dict[str, str]) -> str:
    relation = table.relation
    parts = [table.oid, relation.key, relation.updates]
    parts += [(column.name, column.type, columns.get(column.name)) for column in relation.columns]
    return hashlib.md5(repr(parts).encode(), usedforsecurity=False).hexdigest()[:12]


def _sum(partitions: Iterable[Partition]) -> int:
    """The same in any order, as partitions attached by one transaction have none."""
    texts = (f"{partition.oid}:{partition.file}".encode() for partition in partitions)
    return sum(int(hashlib.md5(t, usedforsecurity=False).hexdigest()[:8], 16) for t in texts) % _SUM
