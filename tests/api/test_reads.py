"""Goal: rows over HTTP are those of the view at the commit that the answer names, filtered, ordered and paged as asked.

Method: views published by hand, asked by real HTTP; oracle: the rows that the test adds up and filters itself.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from contract import agreed
from pydantic import TypeAdapter, ValidationError
from served_project import site

from headrace.api import answers, feed
from headrace.api.routes import quarantine
from headrace.catalog.quarantine import SetAside
from headrace.catalog.store import StepShape
from headrace.governance.roles import Role
from headrace.model.schema import Column, Relation
from headrace.model.transaction import RefusedRow
from headrace.serve import newest
from headrace.serve.fitting import Room
from headrace.state.run import write_run
from published_view import Published, Versions
from random_log import RELATIONS, RandomLog, history


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    made, rng = Published(tmp_path_factory.mktemp("reads") / "shop"), random.Random(2)
    for _ in range(31):
        made.step([made.changes(rng)])
    for _ in range(3):
        made.step([made.changes(rng) for _ in range(3)], each=True)
    return made


@pytest.fixture(scope="module")
def client(published: Published) -> Iterator[httpx.Client]:
    with site(published.folder) as running, running.client() as asking:
        yield asking


def rows_at(published: Published, commit: int) -> list[tuple[int, int]]:
    return sorted(published.held[commit].elements())


Keep = Callable[[int, int], bool]


@pytest.mark.parametrize(
    ("query", "keep"),
    [
        ("", lambda id, n: True),
        ("id=eq.3", lambda id, n: id == 3),
        ("id=neq.3&n=gt.1", lambda id, n: id != 3 and n > 1),
        ("id=gte.2&id=lte.5", lambda id, n: 2 <= id <= 5),
        ("n=lt.2", lambda id, n: n < 2),
        ("id=in.(1,2,8)", lambda id, n: id in (1, 2, 8)),
        ("id=in.1,2", lambda id, n: id in (1, 2)),
        ("id=is.null", lambda id, n: False),
        ("id=is.not_null", lambda id, n: True),
        ("id=like.%251%25", lambda id, n: "1" in str(id)),
    ],
)
def test_filters_take_the_rows_that_they_name(
    published: Published, client: httpx.Client, query: str, keep: Keep
) -> None:
    answer = client.get(f"/api/views/sums/rows?limit=1000&{query}").json()
    assert answer["commit"] == 40 and not answer["more"] and answer["stale"] == {}
    assert [(row["id"], row["n"]) for row in answer["rows"]] == [r for r in rows_at(published, 40) if keep(*r)]


def test_pages_in_an_order_are_the_rows_once(published: Published, client: httpx.Client) -> None:
    found, offset, more = list[int](), 0, True
    while more:
        page = client.get(f"/api/views/SUMS/rows?select=n,id&order=n.desc,id&limit=3&offset={offset}").json()
        assert [column["name"] for column in page["columns"]] == ["n", "id"]
        found += [(row["n"], row["id"]) for row in page["rows"]]
        offset, more = offset + 3, page["more"]
    assert found == sorted(((n, id) for id, n in rows_at(published, 40)), key=lambda row: (-row[0], row[1]))


@pytest.mark.parametrize("commit", [1, 17, 40])
def test_a_view_is_read_as_of_a_commit_that_is_past(published: Published, client: httpx.Client, commit: int) -> None:
    answer = client.get(f"/api/views/sums/rows?at={commit}&limit=1000").json()
    assert answer["commit"] == commit
    assert [(row["id"], row["n"]) for row in answer["rows"]] == rows_at(published, commit)


def test_csv_and_arrow_hold_the_same_rows(published: Published, client: httpx.Client) -> None:
    texts = client.get("/api/views/sums/rows?format=csv&limit=1000")
    assert texts.headers["x-headrace-commit"] == "40" and texts.headers["content-type"].startswith("text/csv")
    head, *rows = csv.reader(io.StringIO(texts.text))
    assert head == ["id", "n"] and [(int(id), int(n)) for id, n in rows] == rows_at(published, 40)
    table = pa.ipc.open_stream(client.get("/api/views/sums/rows?format=arrow&limit=2").content).read_all()
    assert table.to_pylist() == [{"id": id, "n": n} for id, n in rows_at(published, 40)[:2]]


def test_csv_tells_null_from_empty_text_and_keeps_what_is_nested(client: httpx.Client) -> None:
    sql = "SELECT NULL::VARCHAR AS nothing, '' AS empty, 'a\"b' AS quoted, [1, 2] AS list, 1.50::DECIMAL(5,2) AS price"
    answer = client.post("/api/sql", json={"sql": sql, "format": "csv"})
    assert answer.text == '"nothing","empty","quoted","list","price"\n,"","a""b","[1,2]","1.50"\n'


def test_a_row_is_found_by_its_key(published: Published, client: httpx.Client) -> None:
    ids = [id for id, _ in rows_at(published, 40)]
    once = next(row for row in rows_at(published, 40) if ids.count(row[0]) == 1)
    found = client.get(f"/api/views/sums/row?id={once[0]}").json()
    assert found == {"commit": 40, "row": {"id": once[0], "n": once[1]}}
    then = next(row for row in rows_at(published, 3) if [id for id, _ in rows_at(published, 3)].count(row[0]) == 1)
    found = client.get(f"/api/views/sums/row?id={then[0]}&at=3").json()
    assert found == {"commit": 3, "row": {"id": then[0], "n": then[1]}}
    late = client.get(f"/api/views/sums/row?id={then[0]}&at=41")
    assert (late.status_code, late.json()["next"]) == (410, "ask as of commit 40, or for now")
    absent = client.get("/api/views/sums/row?id=4711")
    assert (absent.status_code, absent.json()["code"]) == (404, "row.unknown")


def test_sql_binds_values_and_says_when_there_is_more(published: Published, client: httpx.Client) -> None:
    asked = {"sql": "SELECT id, n FROM sums WHERE id > ? ORDER BY id, n", "parameters": [2], "limit": 2}
    answer = client.post("/api/sql", json=asked).json()
    wanted = [row for row in rows_at(published, 40) if row[0] > 2]
    assert [(row["id"], row["n"]) for row in answer["rows"]] == wanted[:2]
    assert answer["more"] == (len(wanted) > 2) and answer["commit"] == 40
    twice = client.post("/api/sql", json={"sql": "SELECT 1 AS a, 2 AS a, 3 AS a_2"}).json()
    assert list(twice["rows"][0].values()) == [1, 2, 3]
    past = client.post("/api/sql", json={"sql": "SELECT count(*) AS n FROM sums", "at": 3}).json()
    assert (past["commit"], past["rows"]) == (3, [{"n": len(rows_at(published, 3))}])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "views/none", None, 404, "view.unknown"),
        ("GET", "views/none/rows", None, 404, "view.unknown"),
        ("GET", "views/none/changes", None, 404, "view.unknown"),
        ("GET", "views/sums/rows?id=3", None, 400, "api.request"),
        ("GET", "views/sums/rows?id=about.3", None, 400, "api.request"),
        ("GET", "views/sums/rows?id=eq.three", None, 400, "query.filter"),
        ("GET", "views/sums/rows?nothing=eq.1", None, 400, "query.filter"),
        ("GET", "views/sums/rows?order=nothing", None, 400, "query.filter"),
        ("GET", "views/sums/rows?order=id,,n", None, 400, "api.request"),
        ("GET", "views/sums/rows?select=%22a", None, 400, "api.request"),
        ("GET", "views/sums/rows?order=%22a%22b", None, 400, "api.request"),
        ("POST", "sql", {"sql": 'SELECT "date", "timestamp" FROM test_all_types()'}, 400, "query.failed"),
        ("GET", "views/sums/rows?limit=-1", None, 400, "api.request"),
        ("GET", "views/sums/rows?limit=10001", None, 400, "api.request"),
        ("GET", "views/sums/rows?format=xml", None, 400, "api.request"),
        ("GET", "views/sums/rows?at=41", None, 410, "view.not_at"),
        ("GET", "views/sums/rows?at=yesterday", None, 400, "api.request"),
        ("GET", "views/sums/row", None, 400, "query.filter"),
        ("GET", "views/sums/row?n=1", None, 400, "query.filter"),
        ("GET", "views/sums/changes?after=x", None, 400, "api.request"),
        ("GET", "views/sums/changes?id=3", None, 400, "api.request"),
        ("GET", "views/sums/changes?m=eq.3", None, 400, "query.filter"),
        ("GET", "views?state=live", None, 400, "api.request"),
        ("GET", "views/sums/versions?at=1", None, 400, "api.request"),
        ("POST", "sql?limit=3", {"sql": "SELECT 1"}, 400, "api.request"),
        ("GET", "feeds/sums/transactions?limt=3", None, 400, "api.request"),
        ("POST", "sql", {"sql": "SELECT 1", "seconds": 61}, 400, "query.bounds"),
        ("POST", "sql", {"sql": "SELECT 1", "engine": "spark", "seconds": 61}, 400, "query.bounds"),
        ("POST", "sql", {"sql": "SELECT repeat('x', 2000000) FROM range(20)"}, 413, "query.size"),
        (
            "POST",
            "sql",
            {"sql": "SELECT CAST(if(range = 9999, 'x', '1') AS INT) FROM range(10000)", "limit": 10000},
            400,
            "query.failed",
        ),
        ("POST", "sql", {"sql": "SELEC 1"}, 400, "sql.syntax"),
        ("POST", "sql", {"sql": "DROP VIEW sums"}, 400, "sql.refused"),
        ("POST", "sql", {"sql": "SELECT * FROM read_csv('/etc/passwd')"}, 400, None),
        ("POST", "sql", {"sql": "SELECT 1", "engine": "spark", "at": 1}, 400, "api.request"),
        ("POST", "sql", {"sql": "SELECT 1", "wrong": 1}, 400, "api.request"),
        ("POST", "sql", {}, 400, "api.request"),
        ("DELETE", "quarantine/orders:1:1", None, 404, "quarantine.unknown"),
        ("GET", "nothing", None, 404, "api.route"),
        ("PUT", "views", None, 405, "api.route"),
    ],
)
def test_what_is_wrong_with_a_request_is_told_with_a_code(
    client: httpx.Client, method: str, path: str, body: object, status: int, code: str | None
) -> None:
    answer = client.request(method, f"/api/{path}", json=body)
    told = answer.json()
    assert (answer.status_code, told["code"]) == (status, code or told["code"]), answer.text
    assert set(told) == {"code", "what", "where", "why", "next"} and told["what"]
    assert told["next"] or told["code"] not in ("sql.syntax", "sql.refused")


def test_a_view_is_told_with_what_it_reads_and_who_reads_it(published: Published, client: httpx.Client) -> None:
    told = client.get("/api/views/sums").json()
    assert told["sql"] == "SELECT 1" and told["key"] == ["id"] and told["state"] == "live"
    assert told["columns"] == [{"name": "id", "type": "bigint"}, {"name": "n", "type": "bigint"}]
    assert (told["commit"], told["rows"]) == (40, len(rows_at(published, 40)))
    assert (told["reads"], told["read_by"], told["sinks"]) == (["orders"], ["top"], ["store"])


def test_lineage_joins_sources_tables_views_and_sinks(client: httpx.Client) -> None:
    found = client.get("/api/lineage").json()
    nodes = {(node["id"], node["kind"], node["name"], node["state"]) for node in found["nodes"]}
    assert nodes == {
        ("source:shop", "source", "shop", "running"), ("table:orders", "table", "orders", "running"),
        ("view:sums", "view", "sums", "live"), ("view:top", "view", "top", "refused"),
        ("sink:store", "sink", "store", "failed"),
    }  # fmt: skip
    assert {(edge["from"], edge["to"]) for edge in found["edges"]} == {
        ("source:shop", "table:orders"), ("table:orders", "view:sums"), ("view:sums", "view:top"),
        ("view:sums", "sink:store"),
    }  # fmt: skip


def test_transactions_of_a_view_are_told_newest_first_in_pages(published: Published, client: httpx.Client) -> None:
    deltas = {n: _delta(published, n) for n in range(1, 41)}
    told, before = list[dict[str, object]](), None
    while page := client.get(f"/api/feeds/sums/transactions?limit=7{f'&before={before}' if before else ''}").json():
        told += page
        before = page[-1]["commit"]
    assert [each["commit"] for each in told] == [n for n in range(40, 0, -1) if deltas[n]]
    for each in told:
        found = {(c["row"]["id"], c["row"]["n"]): c["weight"] for c in each["changes"]}
        assert found == deltas[each["commit"]]
    after = client.get("/api/feeds/sums/transactions?after=30&limit=1000").json()
    assert [each["commit"] for each in after] == [n for n in range(40, 30, -1) if deltas[n]]
    upto = client.get("/api/feeds/sums/transactions?at=20&limit=1000").json()
    assert [each["commit"] for each in upto] == [n for n in range(20, 0, -1) if deltas[n]]
    assert client.get("/api/feeds/sums/transactions?at=20&before=9&limit=1000").json() == [
        each for each in upto if each["commit"] < 9
    ]
    found = client.get("/api/feeds/sums/search?q=2&at=20&limit=1000").json()["transactions"]
    assert [each["commit"] for each in found] == [
        n for n in range(20, 0, -1) if any("2" in str(cell) for row in deltas[n] for cell in row)
    ]
    refused = client.get("/api/feeds/sums/transactions?at=yesterday")
    assert (refused.status_code, refused.json()["code"]) == (400, "api.request")


@pytest.mark.parametrize("seconds", [feed.SECONDS, 0.0])  # 0: a step an answer
def test_transactions_of_a_view_are_found_by_a_text(
    published: Published, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(feed, "SECONDS", seconds)
    deltas = {n: _delta(published, n) for n in range(1, 41)}
    for text in ("7", "2", "x"):
        told, asked = list[dict[str, Any]](), {"q": text, "limit": "3"}
        while True:
            page = TypeAdapter(dict[str, Any]).validate_python(
                client.get("/api/feeds/SUMS/search", params=asked).json()
            )
            told += page["transactions"]
            if page["before"] is None:
                break
            asked["before"] = page["before"]
        expected = [n for n in range(40, 0, -1) if any(text in str(cell) for row in deltas[n] for cell in row)]
        assert [each["commit"] for each in told] == expected
        assert bool(expected) == (text != "x")
        for each in told:
            assert {(c["row"]["id"], c["row"]["n"]): c["weight"] for c in each["changes"]} == deltas[each["commit"]]
    assert client.get("/api/feeds/sums/search?q=").status_code == 400


def test_changes_of_a_view_that_are_not_kept_any_more_are_not_left_out_in_silence(tmp_path: Path) -> None:
    made, rng = Versions(tmp_path / "shop"), random.Random(5)
    for _ in range(6):
        made.step([made.changes(rng)])
    made.base()
    made.forget(2)
    with site(made.folder) as running, running.client() as asking:
        lost, kept = (asking.get(f"/api/feeds/sums/transactions?after={n}") for n in (3, 4))
        assert (lost.status_code, lost.json()["code"]) == (410, "view.not_at")
        assert lost.json()["next"].startswith("after=4,")
        assert {each["commit"] for each in kept.json()} <= {5, 6} and kept.status_code == 200
        assert asking.get("/api/feeds/sums/transactions").status_code == 200
        made.swap()
        path = "/api/feeds/sums/transactions?after"
        assert asking.get(f"{path}=5").status_code == 410
        for asked in ("6", "6&version=1"):  # the version before was there at that commit too
            swapped = asking.get(f"{path}={asked}")
            assert (swapped.status_code, swapped.json()["code"]) == (410, "view.not_at")
            assert swapped.json()["next"] == "read the contents anew, and go on with version=2"
        assert asking.get(f"{path}=6&version=2").json() == []
        made.step([made.changes(rng)])
        assert {each["commit"] for each in asking.get(f"{path}=6&version=2").json()} <= {7}
        assert asking.get(f"{path}=7").status_code == 200 and asking.get(f"{path}=7&version=1").status_code == 410


def _delta(published: Published, commit: int) -> dict[tuple[int, int], int]:
    after, before = published.held[commit], published.held[commit - 1]
    return {row: after[row] - before[row] for row in {*after, *before} if after[row] != before[row]}


def test_answers_have_the_forms_of_the_contract(client: httpx.Client) -> None:
    for path in (
        "health", "me", "session", "errors/view.unknown", "status", "sources", "sinks", "lineage", "lineage?columns=true",
        "views/sums/lineage", "views", "views/sums", "views/SUMS/versions", "views/sums/rows", "views/sums/search?q=id:3",
        "feeds", "feeds/sums/transactions", "feeds/sums/search?q=7", "quarantine", "queries", "notices", "alerts", "tokens",
        "audit", "audit/verdict",
    ):  # fmt: skip
        agreed(client.get(f"/api/{path}").raise_for_status())
    agreed(client.post("/api/sql", json={"sql": "SELECT 1 AS a"}).raise_for_status())
    agreed(client.post("/api/tokens", json={"name": "form"}).raise_for_status())
    with pytest.raises(ValidationError, match="extra_field"):
        answer = client.get("/api/health")
        agreed(httpx.Response(200, json={**answer.json(), "extra_field": 1}, request=answer.request))


def test_rows_are_found_by_words(published: Published, client: httpx.Client) -> None:
    wanted = [row for row in rows_at(published, 40) if row[0] == 3]
    told = client.get("/api/views/sums/search", params={"q": "id:3", "limit": 100}).json()
    assert (told["view"], told["commit"], told["total"]) == ("sums", 40, len(wanted))
    assert sorted((hit["row"]["id"], hit["row"]["n"]) for hit in told["hits"] for _ in range(hit["copies"])) == wanted
    bad = client.get("/api/views/sums/search", params={"q": "id:("})
    assert (bad.status_code, bad.json()["code"]) == (400, "search.query")


def test_an_answer_ends_where_it_has_no_room(
    published: Published, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 16 bytes and their NULLs' bits: a page has two, and the pages together all."""
    whole = client.get("/api/views/sums/rows?limit=1000").json()["rows"]
    monkeypatch.setitem(answers.BYTES_MAX, "json", 40)
    found, page = list[dict[str, int]](), {"more": True}
    while page["more"]:
        page = client.get(f"/api/views/sums/rows?limit=1000&offset={len(found)}").json()
        assert len(page["rows"]) == min(2, len(whole) - len(found))
        found += page["rows"]
    assert found == whole and len(whole) > 2
    refused = client.post("/api/sql", json={"sql": "SELECT * FROM sums"})
    assert (refused.status_code, refused.json()["code"]) == (413, "query.size")
    hits = client.get("/api/views/sums/search", params={"q": "*", "limit": 100}).json()
    assert 0 < len(hits["hits"]) <= 2 < hits["total"]
    monkeypatch.setitem(answers.BYTES_MAX, "json", 15)
    for path in ("rows?limit=1000", "search?q=*"):
        refused = client.get(f"/api/views/sums/{path}")
        assert (refused.status_code, refused.json()["code"]) == (413, "query.size")


def test_changes_of_a_feed_are_told_as_far_as_there_is_room(
    published: Published, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "Room", lambda: Room(100))
    told = client.get("/api/feeds/sums/transactions?limit=1000").json()
    deltas = {n: _delta(published, n) for n in range(1, 41)}
    assert [each["commit"] for each in told] == [n for n in range(40, 0, -1) if deltas[n]]
    assert 0 < sum(len(each["changes"]) for each in told) <= 100 // 16
    assert all(each["more"] == (len(each["changes"]) < len(deltas[each["commit"]])) for each in told)
    whole = [not each["more"] for each in told]
    assert whole == sorted(whole, reverse=True) and whole[0]  # the newest have the room


def test_of_a_table_the_newest_changes_have_the_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RandomLog(4).grow(tmp_path / ".headrace/log", 60)
    every = newest.of_table(tmp_path, "orders", 0, None, 1_000)
    monkeypatch.setattr(newest, "Room", lambda: Room(2_000))
    some = newest.of_table(tmp_path, "orders", 0, None, 1_000)
    commits = [each["commit"] for each in every]
    assert [each["commit"] for each in some] == commits == sorted(commits, reverse=True)
    kept = sum(not each["more"] for each in some)
    assert 3 < kept < len(every) - 3 and some[:3] == every[:3]
    assert all(each["changes"] == [] and each["more"] for each in some[-3:])


def test_of_the_quarantine_as_many_entries_come_as_find_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes, then what a source could not read; what one does not reach takes no room. Oracle: sizes by hand."""
    published, wide = Published(tmp_path / "shop"), "x" * 1_000
    catalog = published.catalog
    for table in ("big", "small"):
        catalog.put_relation("shop", Relation(table, (Column("id", "bigint"), Column("text", "string")), ("id",)))
        texts = ["y", wide * 3, "z", wide, wide] if table == "big" else ["a"] * 3
        head = {"_commit": pa.array([1] * len(texts)), "_place": pa.array(range(1, len(texts) + 1)),
                "_operation": ["insert"] * len(texts), "_reason": ["no"] * len(texts),
                "_unchanged": pa.nulls(len(texts), pa.binary())}  # fmt: skip
        path = published.state / f"{table}.arrow"
        write_run(path, pa.table({**head, "id": pa.array(range(len(texts))), "text": texts}))
        catalog.put_set_aside([SetAside(table, 1, str(path), len(texts))])
    rows = [RefusedRow("small", "1", "no", payload, "json") for payload in (b"{}", wide.encode() * 3, b"[]")]
    numbers = catalog.keep_refused("shop", rows, 1)

    with site(published.folder) as running:
        near = running.tokens.create("near", Role.VIEWER, ["small"])[1]

        def told(query: str = "", token: str | None = None) -> tuple[list[str], str]:
            with running.client(token) as client:
                answer = agreed(client.get(f"/api/quarantine{query}"))
            return [entry["id"] for entry in answer.json()], answer.headers["X-Headrace-More"]

        refused = [f"shop:{number}" for number in numbers]
        big, small = [f"big:1:{n}" for n in range(1, 6)], [f"small:1:{n}" for n in range(1, 4)]
        assert told() == (big + small + refused, "false")
        assert told("?limit=6") == (big + small[:1], "true")
        assert told("?limit=4", near) == (small + refused[:1], "true")
        assert told("?table=big") == (big, "false")
        monkeypatch.setattr(quarantine, "BYTES_MAX", 2_100)
        # No page has room for the second, and none is left for the last.
        assert told() == ([big[0], big[2], big[3]], "true")
        assert told("", near) == ([*small, refused[0], refused[2]], "true")


def test_rows_of_a_table_are_found_by_words(tmp_path: Path) -> None:
    made, catalog = RandomLog(4), Published(tmp_path / "shop").catalog
    catalog.put_relation("shop", RELATIONS["orders"])
    made.grow(tmp_path / "shop/.headrace/log", 60)
    catalog.record_step(1, 0, 60, StepShape(), 0)
    catalog.publish(1, [], 1)
    wanted = [row for row in history(made).rows("orders") if row[0] == 3]
    with site(tmp_path / "shop") as running, running.client() as asking:
        told = agreed(asking.get("/api/views/Orders/search", params={"q": "id:3", "limit": 100})).json()
        late = [
            asking.get("/api/views/orders/rows?at=61"), asking.get("/api/views/orders/row?id=1&part=x&at=61"),
            asking.post("/api/sql", json={"sql": "SELECT 1 FROM orders", "at": 61}),
        ]  # fmt: skip
        then = asking.get("/api/views/orders/rows?at=60").json()
    assert {(each.status_code, each.json()["next"]) for each in late} == {(410, "ask as of commit 60")}
    assert then["commit"] == 60 and len(then["rows"]) == min(100, len(history(made).rows("orders")))
    assert wanted
    assert (told["table"], "view" in told, told["commit"], told["total"]) == ("orders", False, 60, len(wanted))
    assert sorted((list(hit["row"].values()) for hit in told["hits"]), key=repr) == wanted
