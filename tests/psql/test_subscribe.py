"""Goal: SUBSCRIBE gives a view's contents and then every change, whole steps at a time, until it is cancelled.

Method: the rows with their differences, added up, must be what was published after every commit.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from psql_project import Views, connect, serving


def test_contents_and_changes_add_up_to_what_is_published_at_every_commit(tmp_path: Path) -> None:
    views, rng = Views(tmp_path / "p"), random.Random(1)
    views.view("sums", {"id": "int", "tags": "array<string>"}, ())
    held: dict[int, Counter[tuple[int, tuple[str, ...]]]] = {}
    now: Counter[tuple[int, tuple[str, ...]]] = Counter()

    def publish() -> None:
        delta: Counter[tuple[int, tuple[str, ...]]] = Counter()
        for row in rng.sample(sorted(now), min(len(now), 2)):
            delta[row] -= 1
        for _ in range(3):
            delta[rng.randrange(5), tuple("ab"[: rng.randrange(3)])] += 1
        now.update(delta)
        for row in [row for row, count in now.items() if not count]:
            del now[row]
        commit = views.step(sums=[(key, list(tags), count) for (key, tags), count in delta.items() if count])
        held[commit] = now.copy()

    for _ in range(3):
        publish()
    seen: Counter[tuple[int, tuple[str, ...]]] = Counter()
    commits: list[int] = []
    with serving(views) as served, connect(served, autocommit=True) as connection:
        with (
            pytest.raises(psycopg.errors.QueryCanceled),
            connection.cursor().copy("COPY (SUBSCRIBE sums) TO STDOUT") as copy,
        ):
            copy.set_types(["int8", "int8", "int4", "text[]"])
            for row in copy.rows():
                commit, difference, key, tags = row
                if commits and commit != commits[-1]:
                    assert {r: n for r, n in seen.items() if n} == held[commits[-1]]
                if not commits or commit != commits[-1]:
                    commits.append(commit)
                    if len(commits) < 12:
                        publish()
                    else:
                        connection.cancel_safe()
                seen[key, tuple(tags)] += difference
        assert commits[0] == 3 and commits == sorted(set(commits)) and len(commits) == 12
        assert connection.execute("SELECT count(*) FROM sums").fetchone() == (sum(now.values()),)


def test_without_the_contents_only_what_is_published_from_now_on_comes(tmp_path: Path) -> None:
    """Steps go on until the first is told, as nothing says before that it is followed."""
    views = Views(tmp_path / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",))
    views.step(sums=[(1, 1, 1)])
    with serving(views) as served, connect(served, autocommit=True) as connection:
        over = threading.Event()

        def steps() -> None:
            n = 1
            while not over.wait(0.2):
                views.step(sums=[(1, n, -1), (1, n + 1, 1)])
                n += 1

        beside = threading.Thread(target=steps)
        beside.start()
        found = []
        try:
            with pytest.raises(psycopg.errors.QueryCanceled):
                for row in connection.cursor().stream("SUBSCRIBE sums WITH (SNAPSHOT = false)"):
                    found.append(row)
                    if len(found) == 2:
                        over.set()
                        connection.cancel_safe()
        finally:
            over.set()
            beside.join()
        commit, *_ = found[0]
        assert sorted(found[:2]) == [(commit, -1, 1, commit - 1), (commit, 1, 1, commit)]
        assert [c.name for c in connection.execute("SELECT 1 AS one").description or ()] == ["one"]


def test_a_subscription_ends_when_its_client_goes_away(tmp_path: Path) -> None:
    views = Views(tmp_path / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",))
    views.step(sums=[(1, 1, 1)])
    with serving(views) as served:
        connection = connect(served, autocommit=True)
        with connection.cursor().copy("COPY (SUBSCRIBE sums) TO STDOUT") as copy:
            assert next(iter(copy.rows())) == ("1", "1", "1", "1")
            connection.pgconn.finish()
        for _ in range(100):
            if not served.connections:
                return
            threading.Event().wait(0.05)
        raise AssertionError("it still follows the view")


@pytest.mark.parametrize(
    "columns",
    [{"id": "int"}, {"id": "int", "m": "int"}, {"id": "int", "n": "bigint"}, {"id": "int", "n": "int", "x": "int"}],
)
def test_a_view_with_other_columns_ends_it_and_says_so(tmp_path: Path, columns: dict[str, str]) -> None:
    """One that went, one of another name, one of another type, one more; what it had of the first goes before."""
    views = Views(tmp_path / "p")
    views.view("sums", {"id": "int", "n": "int"})
    views.step(sums=[(1, 2, 1)])
    rows = list[tuple[int, ...]]()
    with serving(views, seconds=20) as served, connect(served, autocommit=True) as connection:
        with (
            pytest.raises(psycopg.errors.FeatureNotSupported, match="sums has other columns now"),
            connection.cursor().copy("COPY (SUBSCRIBE sums) TO STDOUT") as copy,
        ):
            copy.set_types(["int8", "int8", "int4", "int4"])
            for row in copy.rows():
                rows.append(row)
                if len(rows) == 1:
                    views.step(sums=[(3, 4, 1)])
                if len(rows) == 2:
                    views.view("sums", columns, version=2)
                    views.step(sums=[(*range(len(columns)), 1)])
        assert rows[:2] == [(1, 1, 1, 2), (2, 1, 3, 4)]
        assert sorted(rows[2:]) == [(3, -1, 1, 2), (3, -1, 3, 4)]  # what was told of those columns goes
        again = connection.cursor().copy("COPY (SUBSCRIBE sums) TO STDOUT")
        with again as copy:
            assert len(next(copy.rows())) == 2 + len(columns)
            connection.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                list(copy.rows())
