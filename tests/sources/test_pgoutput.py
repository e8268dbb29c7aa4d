"""Goal: bytes of the pgoutput protocol become the change tables that the manual's message layouts mean.

Method: messages made by hand from the manual ("Logical Replication Message Formats"); no server. Random rows are
compared with what they were made of.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import values as formats
from headrace.model import transaction as model
from headrace.model.schema import Column, Relation
from headrace.sources.connectors.postgres import changes, columns, pgoutput
from headrace.sources.connectors.postgres.stream import lsn_number, lsn_text

Value = str | bytes | None | type(...)  # ...: unchanged
HEADER = bytes(changes.HEADER)
KEYED = Relation("k", (Column("id", "int"), Column("t", "string"), Column("n", "decimal(6,2)")), ("id",))
BAG = Relation("bag", (Column("x", "int"), Column("y", "string")))
RELATIONS = {7: KEYED, 8: BAG}


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def row(*values: Any) -> bytes:
    """A TupleData."""
    out = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            out += b"n"
        elif value is ...:
            out += b"u"
        else:
            raw = value if isinstance(value, bytes) else str(value).encode()
            out += b"t" + struct.pack(">I", len(raw)) + raw
    return out


def insert(oid: int, *values: Any) -> bytes:
    return HEADER + b"I" + struct.pack(">I", oid) + b"N" + row(*values)


def update(oid: int, new: Sequence[Any], old: Sequence[Any] = (), mark: bytes = b"K") -> bytes:
    before = mark + row(*old) if old else b""
    return HEADER + b"U" + struct.pack(">I", oid) + before + b"N" + row(*new)


def delete(oid: int, *old: Any, mark: bytes = b"K") -> bytes:
    return HEADER + b"D" + struct.pack(">I", oid) + mark + row(*old)


def truncate(oid: int) -> bytes:
    return pgoutput.truncate_row(oid, changes.HEADER)


def decode(messages: Sequence[bytes], ordinals: Sequence[int] | None = None) -> dict[str, pa.Table]:
    numbers = np.asarray(ordinals if ordinals is not None else [0] * len(messages), dtype=np.int64)
    return changes.decode(messages, numbers, RELATIONS, lambda ordinal: f"0/{ordinal:X}")


def rows(messages: Sequence[bytes], name: str = "k") -> list[tuple[Any, ...]]:
    """(operation, values...) of one relation; decimals as text."""
    table = decode(messages)[name]
    names = [column for column in table.column_names if column not in (model.ORDINAL, model.UNCHANGED)]
    return [tuple(row.values()) for row in table.select(names).to_pylist()]


def test_control_messages() -> None:
    begin = b"B" + struct.pack(">QqI", 0x16_B374D848, 1_000_000, 77)
    assert pgoutput.begin(b"xx" + begin, 2) == pgoutput.Begin(0x16_B374D848, 946_684_801_000_000)
    commit = b"C" + struct.pack(">BQQq", 0, 10, 20, 30)
    assert pgoutput.commit(commit, 0) == pgoutput.Commit(20)
    relation = b"R" + struct.pack(">I", 16390) + text("sales") + text("örders") + b"d" + struct.pack(">H", 2)
    relation += b"\1" + text("id") + struct.pack(">Ii", 23, -1) + b"\0" + text("amount") + struct.pack(">Ii", 1700, 786)
    described = (pgoutput.RelationColumn("id", 23, -1), pgoutput.RelationColumn("amount", 1700, 786))
    assert pgoutput.relation(relation, 0) == pgoutput.RelationMessage(16390, "sales", "örders", described)
    assert pgoutput.truncated(b"T" + struct.pack(">IBII", 2, 1, 5, 4_000_000_000), 0) == (5, 4_000_000_000)


def test_a_catalogue_relation_has_an_empty_schema_name_on_the_wire() -> None:
    relation = b"R" + struct.pack(">I", 1) + text("") + text("t") + b"d" + struct.pack(">H", 0)
    assert pgoutput.relation(relation, 0).schema == "pg_catalog"


def test_log_positions_are_spelled_as_postgresql_does() -> None:
    assert lsn_text(0x16_B374D848) == "16/B374D848" and lsn_text(5) == "0/5"
    assert lsn_number("FFFFFFFF/FFFFFFFF") == 2**64 - 1


def test_rows_of_several_relations_and_transactions_are_parted_and_keep_their_order() -> None:
    messages = [insert(7, 1, "a", "1.5"), insert(8, 1, None), insert(9, "x"), insert(7, 2, "", None), insert(8, 2, "é")]
    tables = decode(messages, [0, 0, 1, 3, 4])
    assert set(tables) == {"k", "bag"}  # 9 is not followed
    assert tables["bag"].to_pylist() == [{"_t": 0, "_op": 0, "x": 1, "y": None}, {"_t": 4, "_op": 0, "x": 2, "y": "é"}]
    assert tables["k"].select(["_t", "id", "t"]).to_pylist() == [
        {"_t": 0, "id": 1, "t": "a"},
        {"_t": 3, "id": 2, "t": ""},
    ]
    assert tables["k"].schema.types == [pa.int32(), pa.int8(), pa.int32(), pa.string(), pa.decimal128(6, 2)]


def test_updates_and_deletes_by_key() -> None:
    assert rows([update(7, [1, "b", None]), delete(7, 1, None, None), truncate(7), insert(7, 1, "c", None)]) == [
        (model.UPDATE, 1, "b", None),
        (model.DELETE, 1, None, None),
        (model.TRUNCATE, None, None, None),
        (model.INSERT, 1, "c", None),
    ]


def test_a_changed_key_is_a_delete_and_an_insert_in_place() -> None:
    messages = [insert(7, 1, "a", None), update(7, [2, "a", None], [1, None, None]), delete(7, 2, None, None)]
    assert rows(messages) == [
        (model.INSERT, 1, "a", None),
        (model.DELETE, 1, None, None),
        (model.INSERT, 2, "a", None),
        (model.DELETE, 2, None, None),
    ]


def test_an_old_row_with_the_same_key_is_a_plain_update() -> None:
    messages = [update(7, [1, "b", None], [1, "a", None], b"O"), update(7, [2, "b", None], [1, "b", None], b"O")]
    assert rows(messages) == [
        (model.UPDATE, 1, "b", None),
        (model.DELETE, 1, "b", None),
        (model.INSERT, 2, "b", None),
    ]


def test_unchanged_values_are_marked_or_taken_from_the_old_row() -> None:
    table = decode([update(7, [1, ..., "2"]), insert(7, 2, "x", None), update(7, [3, ..., ...])])["k"]
    assert table.column(model.UNCHANGED).to_pylist() == [b"\x02", None, b"\x06"]
    assert table.column("t").to_pylist() == [None, "x", None]
    table = decode([update(7, [2, ..., None], [1, "kept", None], b"O")])["k"]
    assert model.UNCHANGED not in table.column_names
    assert table.column("t").to_pylist() == ["kept", "kept"]


def test_a_wide_relation_marks_every_column() -> None:
    wide = Relation("w", tuple(Column(f"c{n}", "string") for n in range(19)), ("c0",))
    values = ["k", *(... if n % 3 == 0 else "v" for n in range(1, 19))]
    table = changes.decode([update(5, values)], np.zeros(1, np.int64), {5: wide}, str)["w"]
    (bitmap,) = table.column(model.UNCHANGED).to_pylist()
    assert [n for n in range(19) if bitmap[n // 8] >> (n % 8) & 1] == [3, 6, 9, 12, 15, 18]


def test_a_multiset_turns_an_update_into_two_rows() -> None:
    messages = [update(8, [1, "b"], [1, "a"], b"O"), delete(8, 1, "b", mark=b"O"), update(8, [2, ...], [1, "c"], b"O")]
    assert rows(messages, "bag") == [
        (model.DELETE, 1, "a"),
        (model.INSERT, 1, "b"),
        (model.DELETE, 1, "b"),
        (model.DELETE, 1, "c"),
        (model.INSERT, 2, "c"),
    ]


@pytest.mark.parametrize(
    ("bad", "code", "named"),
    [
        (insert(7, "x", "t", None), "source.row", "column id: the value 'x'"),
        (insert(7, 1, b"\xff", None), "source.row", "column t"),
        (insert(7, 1, "t", "12345.00"), "source.row", "column n: the value '12345.00'"),
        (insert(7, 1, "t"), "source.schema", "columns"),
        (delete(7, None, None, None), "source.schema", "key column 'id'"),
        (update(7, [2, ..., None], [9, None, None]), "source.row", "large column 't'"),
    ],
)
def test_a_transaction_that_cannot_be_taken_is_named(bad: bytes, code: str, named: str) -> None:
    with pytest.raises(changes.RefusedTransaction) as caught:
        decode([insert(7, 1, "ok", "1"), insert(8, 1, "ok"), bad], [0, 1, 2])
    assert (caught.value.ordinal, caught.value.error.code) == (2, code)
    assert named in caught.value.error.what and "table k" in caught.value.error.what


def test_an_insert_only_relation_refuses_updates() -> None:
    fixed = {8: Relation("bag", BAG.columns, (), updates=False)}
    for message in (update(8, [1, "b"], [1, "a"], b"O"), delete(8, 1, "a", mark=b"O")):
        with pytest.raises(changes.RefusedTransaction) as caught:
            changes.decode([insert(8, 1, "a"), message], np.array([3, 5]), fixed, str)
        assert (caught.value.ordinal, caught.value.error.code) == (5, "source.no_identity")


values = st.one_of(st.none(), st.binary(max_size=70).map(bytes.hex))


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), values), max_size=60), st.integers(20, 4000))
def test_any_rows_come_out_as_they_went_in(pairs: list[tuple[int, str | None]], chunk: int) -> None:
    """In small chunks as well."""
    messages = [insert(8, x, y) for x, y in pairs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "CHUNK_BYTES", chunk)
        tables = decode(messages, range(len(messages)))
    found = tables["bag"].to_pylist() if pairs else []
    assert found == [{"_t": n, "_op": 0, "x": x, "y": y} for n, (x, y) in enumerate(pairs)]


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 90), st.integers(0, 10))), max_size=12), st.booleans())
def test_values_are_gathered_from_where_they_lie(places: list[tuple[int, int] | None], in_order: bool) -> None:
    """Also where values overlap or come in another order, as those do that an update takes from the old row."""
    if in_order:  # one after another, up to touching
        places = [None if place is None else (8 * n, min(place[1], 8)) for n, place in enumerate(places)]
    data = np.arange(100, dtype=np.uint8)
    starts, lengths = np.array([place or (99, 5) for place in places], np.int64).reshape(-1, 2).T
    valid = np.array([place is not None for place in places], np.bool_)
    expected = [None if place is None else data.tobytes()[place[0] : sum(place)] for place in places]
    assert formats.gather(data, starts, lengths, valid).to_pylist() == expected


elements = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8))


@given(st.lists(st.one_of(st.none(), st.lists(elements, max_size=5)), max_size=8))
def test_any_array_text_is_read_back(arrays: list[list[str | None] | None]) -> None:
    """PostgreSQL quotes what is empty, spells NULL, or holds a quote, brace, comma, backslash or white space."""

    def spell(element: str | None) -> str:
        if element is None:
            return "NULL"
        bare = element and element.upper() != "NULL" and not set(element) & set('"{},\\ \t\n\r\v\f')
        return element if bare else '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"'

    texts = [None if a is None else "{" + ",".join(map(spell, a)) + "}" for a in arrays]
    encoded = pa.array([None if t is None else t.encode() for t in texts], pa.binary())
    assert columns.convert(encoded, "array<string>").to_pylist() == arrays
