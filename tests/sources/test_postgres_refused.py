"""Goal: the position never moves behind a transaction that is refused, whatever else is told beside it.

Method: the decoder's own messages, without a server: a transaction that cannot be read, of a table that has lost a column.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.model.altered import ALTERED
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.sources.connectors.postgres.form import Form
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.pgoutput import RelationColumn, RelationMessage
from headrace.sources.connectors.postgres.stream import Received

OID, INT = 100, 23
NAMES = ("id", "a", "b")
RELATION = Relation("t", (Column("id", "int", False), Column("a", "int"), Column("b", "int")), ("id",))
COLUMNS = tuple(RelationColumn(name, INT, -1) for name in NAMES)
TABLE = SourceTable(RELATION, OID, "public", "t", COLUMNS, ("int",) * 3, "d", False, True, True, True, False)
WITHOUT_B = RelationMessage(OID, "public", "t", COLUMNS[:2])


def insert(*values: bytes) -> bytes:
    fields = b"".join(b"t" + struct.pack(">I", len(value)) + value for value in values)
    return b"w" + bytes(24) + b"I" + struct.pack(">I", OID) + b"N" + struct.pack(">H", len(values)) + fields


def received(*values: bytes) -> Received:
    """A transaction for each value of ``a``, all after the table has lost ``b``."""
    rows = [insert(b"%d" % number, value) for number, value in enumerate(values)]
    numbers = range(1, len(rows) + 1)
    lsns = [1000 * n for n in numbers], [1000 * n + 100 for n in numbers]
    return Received(rows, [1] * len(rows), *lsns, [0] * len(rows), [(0, WITHOUT_B)])


@pytest.fixture
def source(tmp_path: Path) -> PostgresSource:
    made = PostgresSource("pg", {"host": "x", "database": "d", "user": "u"}, base=tmp_path)
    made._follow([replace(TABLE, columns=(*COLUMNS[:2], RelationColumn("b", 0, 0)))], {OID: Form("f")})
    return made


def test_nothing_is_told_at_the_place_of_what_is_refused(source: PostgresSource) -> None:
    with pytest.raises(HeadraceError, match="no number"):
        source._batch(received(b"no number"))


def test_what_came_before_it_is_told_with_its_losses(source: PostgresSource) -> None:
    batch = source._batch(received(b"5", b"no number", b"6"))
    assert batch is not None
    assert [json.loads(origin.position)["lsn"] for origin in batch.origins] == ["0/44C"]
    assert batch.changes["t"].column("a").to_pylist() == [5]
    assert batch.changes[ALTERED.name].column("column").to_pylist() == ["b"]
