"""Goal: every answer is of one commit, exact, and of what may be asked; nothing else is reached.

Method: views published by hand from random histories; oracle: the rows that the test adds up itself.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from headrace.catalog.store import StepShape
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import (
    DELETE,
    INSERT,
    OPERATION,
    ORDINAL,
    TRUNCATE,
    UPDATE,
    TransactionBatch,
    TransactionOrigin,
)
from headrace.serve.asking import Asking
from headrace.serve.database import Limits
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from headrace.serve.questions import Rows as Asked
from headrace.serve.relation import Filter
from processes import runs
from published_view import Published, Rows


@contextmanager
def asking(published: Published) -> Iterator[Questions]:
    questions = Questions(Mirror(published.folder))
    try:
        yield questions
    finally:
        questions.close()


def counted(table: pa.Table) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def refused(work: object) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        work()
    return caught.value


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_the_last_step_whatever_was_asked_before(tmp_path: Path, seed: int) -> None:
    """Asked now and then, between steps of one and of several commits, while bases are made."""
    rng, published = random.Random(seed), Published(tmp_path / "p")
    with asking(published) as questions:
        for _ in range(40):
            published.step([published.changes(rng) for _ in range(rng.randrange(1, 4))], each=rng.random() < 0.3)
            if rng.random() < 0.2:
                published.base()
                before = rng.randrange(published.number) + 1
                published.catalog.forget_outputs("sums@1", before - 1)  # together with their steps, as the engine does
                published.catalog.forget_steps(before)
            if rng.random() < 0.4:
                held = published.held[published.upto]
                answer = questions.ask("SELECT * FROM sums")
                assert (answer.commit, counted(answer.table), answer.more) == (published.upto, held, False)
                assert questions.ask("SELECT count(*), sum(n) FROM SUMS").table.to_pylist() == [
                    {"count_star()": held.total(), "sum(n)": sum(n * c for (_, n), c in held.items()) if held else None}
                ]
                wanted = rng.randrange(9)
                row = questions.row("sums", {"id": str(wanted)})
                assert set(counted(row.table)) == {r for r in held if r[0] == wanted}


def test_the_past_can_be_asked(tmp_path: Path) -> None:
    rng, published = random.Random(1), Published(tmp_path / "p")
    for _ in range(10):
        published.step([published.changes(rng)])
    with asking(published) as questions:
        for commit in range(1, 11):
            answer = questions.ask("SELECT * FROM sums", at=commit)
            assert (answer.commit, counted(answer.table)) == (commit, published.held[commit])
            assert counted(questions.rows("sums", Asked(), at=commit).table) == published.held[commit]
        assert refused(lambda: questions.ask("SELECT * FROM sums", at=11)).code == "view.not_at"


def test_filters_order_and_pages(tmp_path: Path) -> None:
    published = Published(tmp_path / "p")
    rows = Rows({(n, n % 7): 1 for n in range(50)})
    published.held.append(rows)
    published.step([rows])
    with asking(published) as questions:

        def ids(*filters: Filter, **asked: object) -> list[int]:
            return questions.rows("sums", Asked(filters, **asked)).table["id"].to_pylist()

        assert ids(Filter("n", "eq", 3)) == list(range(3, 50, 7))
        assert ids(Filter("N", "gte", "5"), Filter("id", "lt", 14)) == [5, 6, 12, 13]
        assert ids(Filter("id", "in", [1, "2", 99])) == [1, 2]
        assert ids(Filter("id", "in", [])) == []
        assert ids(Filter("id", "like", "4%")) == [4, *range(40, 50)]
        assert ids(Filter("n", "is", "null")) == []
        assert ids(order=(("n", True), ("id", False)), limit=3) == [6, 13, 20]
        pages = [questions.rows("sums", Asked(limit=20, offset=at)) for at in (0, 20, 40)]
        assert [page.more for page in pages] == [True, True, False]
        assert [id for page in pages for id in page.table["id"].to_pylist()] == list(range(50))
        assert questions.rows("sums", Asked(select=("n",), limit=1)).table.to_pylist() == [{"n": 0}]
        for wrong, text in {
            Filter("m", "eq", 1): "sums has no column 'm'",
            Filter("n", "near", 1): "there is no operator 'near'",
            Filter("n", "eq", "x'; drop table sums"): "'x'; drop table sums' is no bigint",
            Filter("n", "is", "maybe"): "nothing is 'maybe'",
        }.items():
            error = refused(lambda wrong=wrong: questions.rows("sums", Asked((wrong,))))
            assert (error.code, text in error.what.replace('"', "'")) == ("query.filter", True), error
        error = refused(lambda: questions.rows("sum", Asked()))
        assert (error.code, error.next) == ("view.unknown", "did you mean 'sums'?")
        assert refused(lambda: questions.row("sums", {"n": 1})).what == "the key of sums is id"


@pytest.mark.parametrize("seed", range(6))
def test_tables_are_as_the_log_has_them_at_the_same_commit(tmp_path: Path, seed: int) -> None:
    """Tables with a key and without one, asked now and then; oracle: the whole of each folded in a plain dict."""
    rng, published = random.Random(seed), Published(tmp_path / "p")
    orders = Relation("Orders", (Column("id", "bigint", False), Column("note", "string")), ("id",))
    clicks = Relation("clicks", (Column("page", "string"), Column("n", "double")))
    for relation in (orders, clicks):
        published.catalog.put_relation("shop", relation)
    log, kept, seen = (
        LogWriter(published.folder / ".headrace/log"),
        dict[int, str | None](),
        Counter[tuple[str, float]](),
    )
    past = dict[int, tuple[dict[int, str | None], Counter[tuple[str, float]]]]()
    with asking(published) as questions:
        for _ in range(40):
            for _ in range(rng.randrange(1, 4)):
                changed = list[tuple[int, int, str | None]]()
                for _ in range(rng.randrange(4)):
                    id, note = rng.randrange(6), rng.choice(["a", "b", None])
                    operation = rng.choice([INSERT, UPDATE, DELETE])
                    changed.append((operation, id, note))
                    kept.pop(id, None) if operation == DELETE else kept.update({id: note})
                if rng.random() < 0.05:
                    kept, changed = {}, [(TRUNCATE, 0, None)]
                clicked = list[tuple[int, str, float]]()
                for _ in range(rng.randrange(4)):
                    gone = bool(+seen) and rng.random() < 0.4
                    page, n = rng.choice(sorted(+seen)) if gone else (rng.choice("xy"), rng.choice([0.5, 1.5]))
                    clicked.append((DELETE if gone else INSERT, page, n))
                    seen[page, n] += -1 if gone else 1
                log.append(transaction(log.end, Orders=(changed, orders), clicks=(clicked, clicks)))
                published.held.append(published.held[-1])
            after, published.number = published.upto, published.number + 1
            published.upto = log.end
            published.catalog.record_step(published.number, after, log.end, StepShape(), 0)
            published.catalog.publish(published.number, [], 1)
            past[log.end] = dict(kept), +seen
            if rng.random() < 0.5:
                answer = questions.ask("SELECT id, note FROM orders")
                assert (answer.commit, dict(map(tuple, map(dict.values, answer.table.to_pylist())))) == (log.end, kept)
                assert counted(questions.ask("SELECT * FROM clicks").table) == +seen
                id = rng.randrange(6)
                expected = [{"id": id, "note": kept[id]}] if id in kept else []
                assert questions.row("orders", {"id": id}).table.to_pylist() == expected
        for commit, (rows, clicked_then) in past.items():
            found = questions.rows("orders", Asked(), at=commit).table.to_pylist()
            assert {row["id"]: row["note"] for row in found} == rows
            assert counted(questions.rows("clicks", Asked(limit=1_000), at=commit).table) == clicked_then
    log.close()


def transaction(after: int, **changes: tuple[list[tuple[int, object, object]], Relation]) -> TransactionBatch:
    tables = {}
    for name, (rows, relation) in changes.items():
        schema = pa.schema([(ORDINAL, pa.int32()), (OPERATION, pa.int8()), *arrow_schema(relation.columns)])
        entries = [dict(zip(schema.names, (0, *row), strict=True)) for row in rows]
        if entries:
            tables[name] = pa.Table.from_pylist(entries, schema)
    return TransactionBatch((TransactionOrigin("shop", str(after), 1),), tables)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM sums", "SELECT 1; SELECT 2", "COPY sums TO 'x.csv'", "ATTACH 'x.db'", "SET threads = 9",
        "INSTALL httpfs", "PRAGMA version", "CREATE TABLE t (a int)", "",
        "SELECT * FROM 'secret.csv'", "SELECT * FROM read_csv('secret.csv')", "SELECT * FROM read_text('secret.csv')",
        "SELECT * FROM glob('*')", "SELECT * FROM orders_of_python", "SELEC 1", "SELECT nothing FROM sums",
    ],
)  # fmt: skip
def test_nothing_but_one_select_over_the_project_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("a\nsecret\n")
    orders_of_python = pa.table({"a": [1]})
    assert orders_of_python.num_rows
    published = Published(tmp_path / "p")
    published.step([Rows({(1, 1): 1})])
    with asking(published) as questions:
        error = refused(lambda: questions.ask(sql))
        assert error.code in ("sql.refused", "sql.syntax", "sql.unknown_relation", "query.failed")
        assert "secret\n" not in str(error)
        assert questions.ask("SELECT n FROM sums").table.to_pylist() == [{"n": 1}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "secret.csv"]


def test_no_setting_tells_of_the_machine(tmp_path: Path) -> None:
    published = Published(tmp_path / "p")
    published.step([Rows({(1, 1): 1})])
    with asking(published) as questions:
        found = questions.ask("SELECT name, value FROM duckdb_settings()").table.to_pylist()
    told = {row["name"]: row["value"] for row in found if row["value"] and str(Path.home()) in row["value"]}
    assert told == {}


def test_a_refused_query_says_why_and_what_is_near(tmp_path: Path) -> None:
    published = Published(tmp_path / "p")
    published.step([Rows({(1, 1): 1})])
    with asking(published) as questions:
        error = refused(lambda: questions.ask("SELECT idd FROM sums"))
        assert (error.code, error.next) == ("query.failed", 'columns near to it: "id"')
        assert error.what == 'Referenced column "idd" not found in FROM clause!'
        error = refused(lambda: questions.ask("SELECT * FROM read_csv('/etc/passwd')"))
        assert (error.code, error.next.startswith("bring the file in")) == ("sql.refused", True)
        assert "Error" not in error.what
        for deep in ("SELECT " + "+".join(["n"] * 600) + " AS s FROM sums", "SELECT " + " || ".join(["'x'"] * 500)):
            error = refused(lambda deep=deep: questions.ask(deep))
            assert (error.code, error.what) == (
                "sql.refused",
                "the statement has too many expressions inside each other",
            )
        groups = "+".join("(" + "+".join(["n"] * 30) + ")" for _ in range(20))
        assert questions.ask(f"SELECT {groups} AS s FROM sums").table.to_pylist() == [{"s": 600}]


def test_a_query_has_bounds(tmp_path: Path) -> None:
    published = Published(tmp_path / "p")
    published.step([Rows({(n, 0): 1 for n in range(2000)})])
    with asking(published) as questions:
        endless = "SELECT count(*) FROM sums a, sums b, sums c, sums d"
        assert refused(lambda: questions.ask(endless, limits=Limits(seconds=0.3))).code == "query.timeout"
        answer = questions.ask("SELECT a.id FROM sums a, sums b, sums c", limits=Limits(rows=10))
        assert (answer.table.num_rows, answer.more) == (10, True)
        assert questions.ask("SELECT id FROM sums WHERE id < $1", [10], Limits(rows=10)).more is False


HUGE = {
    "SELECT repeat('x', 2000000000)": "query.memory",
    "SELECT sum(length(repeat('x', 1000000000) || range)) FROM range(20)": "query.memory",
    "SELECT string_agg(repeat('x', 1000), ',') FROM range(10000000)": "query.memory",
    "SELECT repeat('x', 2000) AS x FROM range(1000000)": "query.size",
    "SELECT CAST(if(range = 9999, 'x', '1') AS INT) FROM range(10000)": "query.failed",  # told while rows are fetched
    "SELECT sum(length(repeat('x', 20000) || range)) FROM range(10000000)": "query.timeout",
    "SELECT count(*) FROM sums a, sums b, sums c, sums d": "query.timeout",
    # One piece of 15 s, which no interrupt reaches.
    "SELECT length(regexp_replace(repeat('ab', 20000000), 'a', 'bb', 'g'))": "query.timeout",
}


def _asks(process: psutil.Process) -> bool:
    """Whether it answers questions; not one that has ended and that nobody has asked how."""
    return runs(process) and "headrace.serve.asking" in process.cmdline()


def test_time_and_memory_have_a_hard_end_that_takes_nobody_along(tmp_path: Path) -> None:
    """Beside a process with threads: who else asks has answers, and what was taken is given back.

    The process that answers may itself be ended at any moment.
    """
    published, others_of_ours = Published(tmp_path / "p"), set(psutil.Process().children())
    published.step([Rows({(n, 0): 1 for n in range(2000)})])
    answers, over = list[object](), threading.Event()
    asking = Asking(published.folder)
    questions = Questions(Mirror(published.folder), "256MB", asking=asking)

    def others() -> None:
        while not over.is_set():
            answers.append(questions.ask("SELECT count(*) AS n FROM sums", limits=Limits(seconds=30)).table.to_pylist())

    sizes = [0]

    def watch() -> None:
        while not over.wait(0.01):
            with suppress(psutil.Error):  # each of them may end at any moment
                for answering in filter(_asks, psutil.Process().children()):  # it may not have begun yet
                    sizes.extend(each.memory_info().rss for each in answering.children())

    beside = [threading.Thread(target=work) for work in (others, watch)]
    try:
        for each in beside:
            each.start()
        assert questions.ask("SELECT 1", limits=Limits(seconds=30)).table.num_rows == 1  # it is at work
        for sql, code in HUGE.items():
            began = time.monotonic()
            seconds = 4 if code == "query.timeout" else 9
            ask = partial(questions.ask, sql, limits=Limits(seconds=seconds, bytes=16 << 20))
            assert refused(ask).code == code, sql
            assert time.monotonic() - began < 10, sql
        over.set()
        for each in beside:
            each.join()
        (answering,) = [each for each in psutil.Process().children() if _asks(each)]
        assert not [each for each in answering.children() if runs(each)], "one goes on"
        answering.kill()
        assert questions.ask("SELECT 1", limits=Limits(seconds=30)).table.num_rows == 1
    finally:
        over.set()
        for each in beside:
            each.join()
        questions.close()
    assert len(answers) > 10 and all(answer == [{"n": 2000}] for answer in answers)
    assert set(psutil.Process().children()) <= others_of_ours
    assert 128 << 20 < max(sizes) < 512 << 20
    assert refused(lambda: questions.ask("SELECT 1")).code == "project.not_running"


def test_readers_beside_steps_see_whole_ones(tmp_path: Path) -> None:
    """Each step moves one from one row to another: whoever asks finds the same sum."""
    published = Published(tmp_path / "p")
    published.step([Rows({(n, 100): 1 for n in range(10)})])
    found, stop = list[tuple[int, int]](), threading.Event()
    with closing(Questions(Mirror(published.folder), asking=Asking(published.folder))) as questions:

        def ask() -> None:
            while not stop.is_set():
                answer = questions.ask("SELECT sum(n)::BIGINT AS s, count(*) AS c FROM sums").table.to_pylist()[0]
                found.append((answer["s"], answer["c"]))

        assert questions.ask("SELECT 1").table.num_rows == 1  # so that it is at work before they begin
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        held, rng, end = dict.fromkeys(range(10), 100), random.Random(4), time.monotonic() + 60
        while len(found) <= 10 and time.monotonic() < end:
            a, b = rng.sample(range(10), 2)
            delta = Rows({(a, held[a]): -1, (b, held[b]): -1})
            held[a], held[b] = held[a] - 1, held[b] + 1
            delta.update({(a, held[a]): 1, (b, held[b]): 1})
            published.step([delta])
        stop.set()
        for thread in threads:
            thread.join()
    assert len(found) > 10
    assert set(found) == {(1000, 10)}
