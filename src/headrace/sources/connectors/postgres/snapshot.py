"""The contents of some tables at one consistent point, copied in a thread of its own.

TRUNCATE, and an ALTER TABLE that rewrites the rows, are not kept apart by snapshots: a table that was emptied since the
point looks as if it had been empty then. So all tables are locked against both before the first row is read, and where
one was made anew between the point and the lock, the copy is made of a later point.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from headrace.formats import values
from headrace.formats.types import arrow as arrow_types
from headrace.model.errors import HeadraceError
from headrace.model.pace import Copying, Pace
from headrace.sources.connectors.postgres import columns, setup, wire
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.stream import ReplicationStream, lsn_text

_BLOCK_BYTES_MIN = 4 << 20

# The file as the snapshot knows it, and the one that is read; a partitioned table has none, its partitions have.
_MADE_ANEW = """
SELECT EXISTS (
    SELECT FROM pg_class c
    WHERE c.oid IN (SELECT o FROM unnest(%(tables)s::oid[]) o
                    UNION SELECT relid FROM unnest(%(tables)s::oid[]) o, pg_partition_tree(o))
      AND c.relfilenode <> pg_relation_filenode(c.oid))
"""


class _Stopped(Exception):
    """The snapshot was given up."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A snapshot that another session holds open: it shows what was committed before ``point``."""

    point: int
    name: str


class Snapshot:
    """Copies ``tables`` as of ``exported``, or, without it, as of a temporary slot made for the purpose.

    ``point`` is behind that of ``exported`` where a table was made anew right then. Starts at once. ``result`` is there
    when ``done``. The rows are kept in memory as Arrow.
    """

    def __init__(self, conninfo: str, tables: Sequence[SourceTable], where: str, exported: Exported | None) -> None:
        self.tables = tuple(tables)
        self._conninfo, self._where, self._exported = conninfo, where, exported
        self._stop = threading.Event()
        self._contents: dict[str, pa.Table] = {}
        self.point = 0  # known when done
        self.copying: Copying | None = None  # the table at hand
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"snapshot {where}", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after at most so many seconds."""
        self._thread.join(seconds)
        return self.done

    def result(self) -> tuple[int, dict[str, pa.Table]]:
        """(point, contents by relation name), once done. Raises what went wrong, as ``HeadraceError``."""
        if isinstance(self._error, psycopg.Error):
            raise setup.failure(self._error, self._where) from self._error
        if self._error is not None:
            raise self._error
        return self.point, self._contents

    def stop(self) -> None:
        """Give it up; returns when its connections are closed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            copied = not self.tables or (self._exported is not None and self._copied(self._exported))
            while not copied:
                copied = self._copied_later()
        except Exception as error:
            self._error = error
        finally:
            self.copying = None

    def _copied_later(self) -> bool:
        """As of a point that is reached from now on."""
        session = ReplicationStream(self._conninfo, self._where)
        try:
            slot = f"headrace_add_{uuid.uuid4().hex}"  # goes with its session
            return self._copied(Exported(*session.create_slot(slot, temporary=True, go_on=self._go_on)))
        except _Stopped:
            session.cancel()
            raise
        finally:
            session.close()

    def _copied(self, exported: Exported) -> bool:
        """Copy all tables; False when one of them was made anew since the snapshot, so that it does not show its rows.

        Waits for whoever holds a table exclusively, and as long as the copy takes such a one waits for it.
        """
        with setup.connect(self._conninfo, self._where) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported.name)))
            locked = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.SQL(", ").join(map(_from, self.tables)))
            wire.command(connection, locked.as_bytes(connection), self._go_on)
            ((anew,),) = connection.execute(_MADE_ANEW, {"tables": [table.oid for table in self.tables]})
            if anew:
                return False
            contents = {table.relation.name: self._copy(connection, table, exported.point) for table in self.tables}
            connection.execute("COMMIT")
        self.point, self._contents = exported.point, contents
        return True

    def _copy(self, connection: psycopg.Connection[Any], table: SourceTable, point: int) -> pa.Table:
        query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(
            sql.SQL(", ").join(
                sql.Identifier(column.name) if column.type_oid else sql.NULL for column in table.columns
            ),
            _from(table),
        )
        pace = Pace(_estimated(connection, table))
        self.copying = Copying(table.relation.name, pace)
        pieces = wire.copy_out(connection, query.as_bytes(connection), self._go_on, partial(setattr, pace, "done"))
        schema = arrow_types.schema(table.relation.columns)
        parsed = [self._parse(piece, table, point) for piece in pieces]
        return pa.concat_tables(parsed) if parsed else schema.empty_table()

    def _parse(self, piece: bytes, table: SourceTable, point: int) -> pa.Table:
        """A piece of CSV, whole rows, -> the relation's columns. An unquoted empty field is null."""
        names = [str(number) for number in range(len(table.columns))]
        texts = csv.read_csv(
            pa.py_buffer(piece),
            read_options=csv.ReadOptions(column_names=names, block_size=max(len(piece), _BLOCK_BYTES_MIN)),
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        arrays = []
        for column, text in zip(table.relation.columns, texts.columns, strict=True):
            try:
                arrays.append(columns.convert(text.combine_chunks(), column.type))
            except values.UnfitValue as error:
                raise HeadraceError(
                    "source.row",
                    f"table {table.relation.name}: column {column.name}: the value {error.text!r} cannot be carried",
                    where=f"LSN {lsn_text(point)}, in the first copy of the table",
                    why=error.why,
                    next="correct the row, or " + values.remedy(table.relation.name, column.name),
                ) from error
        return pa.Table.from_arrays(arrays, schema=arrow_types.schema(table.relation.columns))

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise _Stopped


def _estimated(connection: psycopg.Connection[Any], table: SourceTable) -> int:
    """The rows that the server's planner expects of the table: from its size, also where it was never analysed."""
    ((plan,),) = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM {}").format(_from(table)))
    return int(plan[0]["Plan"]["Plan Rows"])


def _from(table: SourceTable) -> sql.Composed:
    return sql.SQL("" if table.partitioned else setup.ONLY) + sql.Identifier(table.schema, table.table)
