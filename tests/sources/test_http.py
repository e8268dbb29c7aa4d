"""Pushed transactions become typed change tables, or are refused whole with row, column, value and reason.

Over real HTTP; judged by the rows and commit numbers that a transaction in plain JSON must give, written out by hand.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pushing import ORDERS, TABLES, Start, insert, order, starting

from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import RefusedRow
from headrace.sources.connectors.http.connector import HttpSource


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as one:
        yield one


def test_a_transaction_over_two_tables_gets_one_commit(start: Start) -> None:
    shop = start()
    answer = shop.push(
        {
            "changes": [
                {"table": "orders", "op": "insert", "row": order(1, total="19.99", at="2024-02-29T12:00:00+02:00")},
                {"table": "clicks", "row": {"page": "/", "n": 1}},
                {"table": "orders", "op": "update", "row": {"id": 1, "note": "paid"}},
                {"table": "orders", "op": "delete", "row": {"id": 2}},
                {"table": "clicks", "op": "truncate"},
            ]
        }
    )
    assert (answer.status_code, answer.json()) == (200, {"commit": 1})
    rows = shop.engine.rows("orders")
    full = {"commit": 1, "_op": 0, "_unchanged": None, "id": 1, "total": Decimal("19.99"), "note": None, "tag": "t"}
    assert {k: v for k, v in rows[0].items() if k != "at"} == full
    assert rows[0]["at"].isoformat() == "2024-02-29T10:00:00+00:00"
    assert rows[1]["_op"], rows[1]["id"] == (1, 1)
    assert rows[1]["_unchanged"] == bytes([0b11010])  # total, at and tag keep their values
    assert (rows[2]["_op"], rows[2]["id"], rows[2]["_unchanged"]) == (2, 2, None)
    assert [(row["_op"], row["page"], row["n"]) for row in shop.engine.rows("clicks")] == [(0, "/", 1), (3, None, None)]
    table = shop.engine.kept[0][1].changes["orders"]
    assert table.column_names == ["_t", "_op", "_unchanged", "id", "total", "note", "at", "tag"]
    assert [table.schema.field(name).type for name in ("_t", "_op", "_unchanged", "total")] == [
        *(pa.int32(), pa.int8(), pa.binary(), pa.decimal128(12, 2))
    ]
    origin = shop.engine.kept[0][1].origins[0]
    assert origin.source == "shop"
    assert abs(origin.committed_us / 1e6 - time.time()) < 60


def test_compact_form_deletes_before_it_inserts(start: Start) -> None:
    shop = start()
    content = {
        "tables": {
            "orders": {"update": [{"id": 4, "note": "x"}], "insert": [order(1), order(2)], "delete": [{"id": 3}]},
            "clicks": {"insert": [{"page": "/"}], "truncate": True},
        }
    }
    assert shop.push(content).json() == {"commit": 1}
    assert [(row["_op"], row["id"]) for row in shop.engine.rows("orders")] == [(2, 3), (0, 1), (0, 2), (1, 4)]
    assert [(row["_op"], row["page"]) for row in shop.engine.rows("clicks")] == [(3, None), (0, "/")]


@pytest.mark.parametrize("lines", [False, True])
def test_several_transactions_in_one_request_keep_order_and_numbers(start: Start, lines: bool) -> None:
    shop = start()
    transactions = [insert("orders", order(1)), insert("clicks", {"n": 1}), insert("orders", order(2), order(3))]
    if lines:
        body = "\n".join(json.dumps(transaction) for transaction in transactions) + "\n\n"
        headers = {"content-type": "application/x-ndjson"}
        answer = shop.client.post("/transactions", content=body, headers=headers)
    else:
        answer = shop.push(transactions)
    assert answer.json() == {"commits": [1, 3]}
    assert [(row["commit"], row["id"]) for row in shop.engine.rows("orders")] == [(1, 1), (3, 2), (3, 3)]
    assert [(row["commit"], row["n"]) for row in shop.engine.rows("clicks")] == [(2, 1)]
    assert shop.push(insert("orders", order(4))).json() == {"commit": 4}


def test_many_clients_get_the_commit_of_their_own_rows(start: Start) -> None:
    shop = start()

    def client(number: int) -> dict[int, int]:
        with httpx.Client(base_url=str(shop.client.base_url), headers=shop.client.headers, timeout=20) as own:
            ids = range(number * 100, number * 100 + 20)
            return {id_: own.post("/transactions", json=insert("orders", order(id_))).json()["commit"] for id_ in ids}

    with ThreadPoolExecutor(4) as pool:
        answered = {id_: commit for part in pool.map(client, range(4)) for id_, commit in part.items()}
    assert {row["id"]: row["commit"] for row in shop.engine.rows("orders")} == answered
    assert sorted(answered.values()) == list(range(1, 81))


BAD: list[tuple[dict[str, Any], str, str, str]] = [
    (
        insert("orders", order(1), order(2, total="many")),
        "source.row",
        "table 'orders', change 2",
        "column 'total' (decimal(12,2)) must be a decimal number, not text 'many'",
    ),
    (insert("orders", order("7")), "source.row", "table 'orders', change 1", "column 'id' (bigint) must be a whole"),
    (insert("orders", order(2**63)), "source.row", "table 'orders', change 1", "column 'id' (bigint) 9223372036854"),
    (insert("orders", order(1, total=1.005)), "source.row", "table 'orders', change 1", "column 'total'"),
    (
        insert("orders", order(1, totl=1)),
        "source.row",
        "table 'orders', change 1",
        "there is no column 'totl'; did you",
    ),
    (insert("orders", {"id": 1}), "source.row", "table 'orders', change 1", "column 'tag' is missing, and must not be"),
    (insert("orders", order(1, tag=None)), "source.row", "table 'orders', change 1", "column 'tag' is null, and must"),
    (insert("orders", {"tag": "t"}), "source.row", "table 'orders', change 1", "key column 'id' is missing, and must"),
    (
        {"tables": {"orders": {"insert": [order(1)], "delete": [{"id": 1}, {"id": None}]}}},
        "source.row",
        "table 'orders', orders.delete row 2",
        "key column 'id' is null, and must not be",
    ),
    (
        {"tables": {"orders": {"update": [{"id": 1, "tag": None}]}}},
        "source.row",
        "table 'orders', orders.update row 1",
        "column 'tag' is null, and must not be",
    ),
    (insert("order", order(1)), "source.no_table", "change 1", "there is no table 'order'"),
    (
        {"changes": [{"table": "clicks", "op": "update", "row": {"n": 1}}]},
        "source.no_identity",
        "change 1",
        "'update' needs a key, and the table 'clicks' has none",
    ),
    ({"changes": [{"table": "events", "op": "delete", "row": {}}]}, "source.row", "table 'events'", "the columns of"),
]


@pytest.mark.parametrize(("bad", "code", "where", "what"), BAD)
def test_a_bad_row_refuses_the_whole_request(start: Start, bad: Any, code: str, where: str, what: str) -> None:
    shop = start()
    good = insert("clicks", {"n": 1})
    answer = shop.push({"changes": good["changes"] + bad["changes"]} if "changes" in bad else bad)
    error = answer.json()
    if "changes" in bad:  # one more change stands before it
        where = where.replace("change 2", "change 3").replace("change 1", "change 2")
    assert (answer.status_code, error["code"], error["where"]) == (422, code, where)
    assert error["what"].startswith(what)
    several = shop.push([good, bad, good])
    assert several.status_code == 422
    assert several.json()["where"].startswith("transaction 2, ")
    assert shop.engine.kept == []
    assert shop.push(good).json() == {"commit": 1}


def test_a_bad_request_does_not_harm_its_neighbours(start: Start) -> None:
    shop = start()
    shop.engine.pause()
    futures = shop.source.push([insert("orders", order(n if n % 3 else "bad")) for n in range(30)])
    shop.engine.paused.clear()
    results = [future.exception(10) or future.result() for future in futures]
    assert [n for n, result in enumerate(results) if isinstance(result, HeadraceError)] == list(range(0, 30, 3))
    assert [result for result in results if isinstance(result, int)] == list(range(1, 21))
    assert [row["id"] for row in shop.engine.rows("orders")] == [n for n in range(30) if n % 3]


@pytest.mark.parametrize(
    ("table", "row", "what"),
    [
        ("spans", b'{"length": "P200000000D"}', "column 'length' (interval day to second) 'P200000000D' is too long"),
        (
            "spans",
            b'{"months": {"_months": 3000000000}}',
            "column 'months' (interval year to month) {'_months': 3000000000} is too long",
        ),
        pytest.param(
            "clicks",
            b'{"page": ' + b"[" * 1010 + b"]" * 1010 + b"}",
            "column 'page' (string) must be text, not array ",
            id="arrays",
        ),
        pytest.param(
            "events",
            b'{"a": ' * 500 + b"1" + b"}" * 500,
            "the type of column 'a' of 'events' cannot be inferred: it has values nested more than 64 deep",
            id="objects",
        ),
    ],
)
def test_no_value_ends_the_source_for_all(start: Start, table: str, row: bytes, what: str) -> None:
    spans = {"columns": {"length": "interval day to second", "months": "interval year to month"}}
    shop = start(tables={**TABLES, "spans": spans})
    body = b'{"changes": [{"table": "%s", "row": %s}]}' % (table.encode(), row)
    answer = shop.client.post("/transactions", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "source.row")
    assert answer.json()["what"].startswith(what)
    assert shop.push(insert("clicks", {"n": 1})).json() == {"commit": 1}


def test_what_no_rule_foresees_is_told_to_who_sent_it_alone(start: Start) -> None:
    """A column's name that is no Unicode: Arrow does not take it."""
    shop = start()
    shop.engine.pause()
    odd, good = shop.source.push([insert("events", {"\ud800": 1}), insert("events", {"n": 1})])
    shop.engine.paused.clear()
    assert good.result(10) == 1
    error = odd.exception(10)
    assert isinstance(error, HeadraceError)
    assert (error.code, error.where) == ("source.row", "table 'events', change 1")
    assert error.what.startswith("the rows from here on cannot be taken: ")
    assert shop.source.relations()[2].columns == (Column("n", "bigint"),)


def test_a_fault_of_nobody_is_told_to_all(tmp_path: Path) -> None:
    """The columns that a push shows cannot be kept."""
    (tmp_path / ".headrace").mkdir()
    (tmp_path / ".headrace" / "schemas").write_text("a file, where a folder should be")
    source = HttpSource("shop", {"listen": False, "tables": TABLES}, base=tmp_path)
    source.start(frozenset(), None)
    waiting = source.push([insert("events", {"n": 1}), insert("clicks", {"n": 1})])
    with pytest.raises(FileExistsError):
        source.poll(0)
    for future in waiting:
        error = future.exception(0)
        assert isinstance(error, HeadraceError)
        assert error.code == "log.failed"
    source.close()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"{", "the body is not JSON"),
        (b"", "the body is not JSON"),
        (b"[]", "the request holds no transaction"),
        (b"5", "a transaction must be an object, not 5"),
        (b"{}", "a transaction must have either 'changes' or 'tables', and nothing else"),
        (b'{"changes": []}', "the transaction is empty"),
        (b'{"changes": {}}', "'changes' must be an array"),
        (b'{"changes": [{"table": "orders", "row": 5}]}', "'row' must be an object, not 5"),
        (b'{"changes": [{"table": "orders", "rows": []}]}', "a change must be an object with 'table'"),
        (b'{"changes": [{"table": "orders", "op": "inser", "row": {}}]}', "there is no operation 'inser'"),
        (b'{"changes": [{"table": "orders", "op": [], "row": {}}]}', "there is no operation []"),
        (b'{"tables": {"orders": []}}', "'tables' must map each table to an object"),
        (b'{"tables": {"orders": {"insert": [1]}}}', "the rows must be an array of objects"),
    ],
)
def test_what_is_not_a_transaction_is_refused(start: Start, body: bytes, what: str) -> None:
    shop = start()
    answer = shop.client.post("/transactions", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "source.request")
    assert answer.json()["what"].startswith(what)


def test_columns_are_inferred_once_and_stand(start: Start, tmp_path: Path) -> None:
    shop = start()
    assert [relation.name for relation in shop.source.relations()] == ["orders", "clicks"]
    first = {"changes": [{"table": "events", "row": {"at": "2024-01-01T00:00:00Z", "n": 1, "who": {"name": "a"}}}]}
    assert shop.push(first).status_code == 200
    columns = (Column("at", "timestamp"), Column("n", "bigint"), Column("who", "struct<name:string>"))
    assert shop.source.relations()[2] == Relation("events", columns)
    answer = shop.push(insert("events", {"at": "2024-01-01T00:00:00Z", "n": 1.5}))
    assert answer.json()["what"] == "column 'n' (bigint) must be a whole number, not number 1.5"
    again = HttpSource("shop", {"listen": False, "tables": TABLES}, base=tmp_path)
    assert again.relations()[2] == Relation("events", columns)
    assert shop.client.get("/tables").json()["tables"] == {
        "orders": {
            "columns": {**ORDERS["columns"], "id": "bigint not null"},
            "key": ["id"],
            "inferred": False,
        },
        "clicks": {"columns": {"page": "string", "n": "int"}, "key": [], "inferred": False},
        "events": {
            "columns": {"at": "timestamp", "n": "bigint", "who": "struct<name:string>"},
            "key": [],
            "inferred": True,
        },
    }


def test_a_refused_transaction_leaves_no_columns_behind(start: Start) -> None:
    shop = start()
    bad = {"changes": [*insert("events", {"n": "text"})["changes"], *insert("orders", order("bad"))["changes"]]}
    shop.engine.pause()
    refused, taken = shop.source.push([bad, insert("events", {"n": 1})])
    shop.engine.paused.clear()
    assert taken.result(10) == 1
    assert isinstance(refused.exception(10), HeadraceError)
    assert shop.source.relations()[2].columns == (Column("n", "bigint"),)


OPS = st.sampled_from(["insert", "upsert", "update", "delete", "truncate"])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["orders", "clicks"]), OPS, st.integers(0, 9), st.none() | st.integers(0, 9)), min_size=1
)


@given(transactions=st.lists(CHANGES, min_size=1, max_size=8))
def test_batches_keep_every_change_in_order(transactions: list[list[tuple[str, str, int, int | None]]]) -> None:
    tables = {
        "orders": {"columns": {"id": "int", "n": "int"}, "key": ["id"]},
        "clicks": {"columns": {"id": "int", "n": "int"}},
    }
    source = HttpSource("unkept", {"listen": False, "tables": tables})
    source.start(frozenset(), None)
    codes = {"insert": 0, "upsert": 8, "update": 1, "delete": 2, "truncate": 3}
    expected: dict[str, list[tuple[Any, ...]]] = {"orders": [], "clicks": []}
    for ordinal, changes in enumerate(transactions):
        documents = []
        for table, drawn, id_, n in changes:
            verb = "insert" if table == "clicks" and drawn in ("update", "upsert") else drawn
            row = {"id": id_} if n is None else {"id": id_, "n": n}
            documents.append({"table": table, "op": verb, "row": {} if verb == "truncate" else row})
            unchanged = b"\x02" if verb == "update" and n is None else None
            values = (None, None) if verb == "truncate" else (id_, n)
            expected[table].append((ordinal, codes[verb], unchanged, *values))
        source.submit({"changes": documents})
    batch = source.poll(0)
    assert batch is not None
    assert len(batch.origins) == len(transactions)
    for table, rows in expected.items():
        held = batch.changes[table].to_pylist() if table in batch.changes else []
        assert [(r["_t"], r["_op"], r.get("_unchanged"), r["id"], r["n"]) for r in held] == rows
    source.close()


class Kept:
    """A quarantine that keeps everything, in order."""

    def __init__(self) -> None:
        self.rows: list[RefusedRow] = []

    def keep(self, refused: RefusedRow) -> str:
        self.rows.append(refused)
        return f"shop:{len(self.rows)}"


@pytest.mark.parametrize("lines", [False, True])
def test_a_request_with_a_bad_row_is_kept_whole_where_its_source_says_so(start: Start, lines: bool) -> None:
    running, kept = start(on_error="quarantine"), Kept()
    running.source.keeper = kept
    good, bad = insert("clicks", {"page": "a", "n": 1}), insert("orders", order(1), order(2, total="1.001"))
    body = b"\n".join(json.dumps(t).encode() for t in (good, bad)) if lines else json.dumps([good, bad]).encode()
    kind = "application/x-ndjson" if lines else "application/json"
    for _ in range(2):  # sent again with its key, it is the same one
        answer = running.client.post(
            "/transactions", content=body, headers={"Content-Type": kind, "Idempotency-Key": "k"}
        )
        assert answer.status_code == 202
        assert (answer.json()["quarantined"], answer.json()["error"]["code"]) == ("shop:1", "source.row")
    assert running.engine.kept == []
    (row,) = kept.rows
    assert (row.relation, row.place, row.payload, row.form) == (
        "orders", "transaction 2, table 'orders', change 2", body, "request",
    )  # fmt: skip
    with pytest.raises(HeadraceError) as raised:
        running.source.reread(row)
    assert raised.value.code == "source.row"
    right = replace(row, payload=body.replace(b"1.001", b"1.01"))
    changes = running.source.reread(right)
    assert [(r["_t"], r["_op"], r["page"], r["n"]) for r in changes["clicks"].to_pylist()] == [(0, 0, "a", 1)]
    assert [(r["_t"], r["id"], str(r["total"])) for r in changes["orders"].to_pylist()] == [
        (0, 1, "None"), (0, 2, "1.01"),
    ]  # fmt: skip
    for wrong in (b"{", b'{"changes": [{"table": "nowhere", "row": {}}]}'):
        assert running.client.post("/transactions", content=wrong).status_code in (400, 422)
    with pytest.raises(HeadraceError, match=r"source\.row"):
        running.source.submit(bad).result(20)  # who pushes from this process has the answer
    assert len(kept.rows) == 1
    assert running.push(good).json() == {"commit": 1}


def test_a_request_that_cannot_be_kept_is_refused(start: Start) -> None:
    running = start(on_error="quarantine")

    class Full:
        def keep(self, refused: RefusedRow) -> str:
            raise OSError("no space")

    running.source.keeper = Full()
    answer = running.push(insert("orders", order("x")))
    assert (answer.status_code, answer.json()["code"]) == (503, "log.failed")
