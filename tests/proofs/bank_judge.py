"""What a kill left behind, read without any code of the product: by sqlite3, Arrow, and the stores' own clients.

Each function returns what is wrong, in words; nothing when all is well.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
from bank import VIEWS, History, Rows
from control_plane import World

NAMES = [schema.name for schema in VIEWS]
Query = Callable[[str], list[tuple[Any, ...]]]


def wrong(world: World, *, finished: bool) -> list[str]:
    """All that may be said of a folder at any moment at which nobody works on it."""
    history = History(world.seed, world.transactions)
    found: list[str] = []
    try:
        at, contents = sink(world)
    except (duckdb.Error, psycopg.Error) as error:
        return [f"the sink cannot be read: {error}"]
    if at is not None:
        found += _differs(f"the sink at commit {at}", contents, history, at)
    published, feeds, told = catalogue(Path(world.folder) / "catalog.db", found)
    found += _differs(f"the feeds at commit {published}", feeds, history, published)
    if (at or 0) > published:
        found.append(f"the sink has commit {at}, and published is {published}")
    if told > (at or 0):
        found.append(f"the catalogue says that the sink has commit {told}, it has {at}")
    lines = world.acknowledged.read_text().split() if world.acknowledged.exists() else []
    if lines != [str(n) for n in range(1, len(lines) + 1)]:
        found.append(f"acknowledged were {lines}")
    if finished and (at, published, len(lines)) != (world.transactions,) * 3:
        found.append(f"of {world.transactions} transactions the sink has {at}, published are {published}")
    return found


def sink(world: World) -> tuple[int | None, dict[str, Rows]]:
    """(commit, contents of each view) in one snapshot; None for a sink that nothing was delivered to."""
    with _reading(world) as query:
        if "headrace_progress" not in _there(query, world):
            return None, {}
        rows = query('SELECT "commit" FROM headrace_progress')
        if len(rows) != 1 or rows[0][0] is None:
            return None, {}
        there = _there(query, world)
        return rows[0][0], {n: Counter(query(f'SELECT id, amount FROM "{n}"')) for n in NAMES if n in there}


def generation(world: World) -> int:
    """Of the instance that has the sink, 0 for none."""
    with _reading(world) as query:
        rows = query("SELECT generation FROM headrace_progress") if "headrace_progress" in _there(query, world) else []
        return int(rows[0][0]) if rows else 0


@contextmanager
def _reading(world: World) -> Iterator[Query]:
    """Of a DuckDB file a copy is read, since reading the file itself would put its parts together."""
    if world.dsn:
        with psycopg.connect(world.dsn, options=f"-c search_path={world.schema}") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield lambda statement: connection.execute(statement.encode()).fetchall()
        return
    copy = Path(world.folder) / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for file in (world.store, Path(f"{world.store}.wal")):
        if file.exists():
            shutil.copy(file, copy / file.name)
    with duckdb.connect(str(copy / world.store.name)) as reader:
        yield lambda statement: reader.execute(statement).fetchall()


def _there(query: Query, world: World) -> set[str]:
    schema = world.schema if world.dsn else "main"
    return {n for (n,) in query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'")}


def catalogue(file: Path, found: list[str]) -> tuple[int, dict[str, Rows], int]:
    """(commit published, what the files of each feed add up to, the commit that it says the sink has)"""
    if not file.exists():
        return 0, {}, 0
    connection = sqlite3.connect(file)
    try:
        if connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'sink'").fetchone() == (0,):
            return 0, {}, 0
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            found.append("the catalogue is damaged")
        steps = connection.execute("SELECT number, after, upto, published_us FROM step ORDER BY number").fetchall()
        for (number, _, upto, at), (following, after, _, later) in itertools.pairwise(steps):
            if following != number + 1 or after != upto or (at is None and later is not None):
                found.append(f"step {following} from commit {after} follows step {number} up to commit {upto}")
        done = [(number, upto) for number, _, upto, at in steps if at is not None]
        last, published = done[-1] if done else (0, 0)
        feeds = {}
        for name in NAMES:
            base = connection.execute("SELECT step, paths FROM base WHERE feed = ?", (f"{name}@1",)).fetchone()
            start, paths = (base[0], json.loads(base[1])) if base else (-1, [])
            outputs = connection.execute(
                "SELECT path FROM output WHERE feed = ? AND step > ? AND step <= ?", (f"{name}@1", start, last)
            )
            feeds[name] = _added([file.parent / path for path in (*paths, *(path for (path,) in outputs))], found)
        told = connection.execute("SELECT max(frontier) FROM sink").fetchone()[0]
        return published, feeds, told or 0
    finally:
        connection.close()


def _added(paths: Iterable[Path], found: list[str]) -> Rows:
    rows: Rows = Counter()
    for path in paths:
        if not path.exists():
            found.append(f"the catalogue names {path}, which is not there")
            continue
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        for identity, amount, weight in zip(*(table[c].to_pylist() for c in ("c0", "c1", "_w")), strict=True):
            rows[identity, amount] += weight
    return Counter({row: copies for row, copies in rows.items() if copies})


def _differs(what: str, contents: dict[str, Rows], history: History, commit: int) -> list[str]:
    expected = history.held[commit] if commit < len(history.held) else {}
    return [
        f"{what}: view {name} lacks {dict(rows - contents.get(name, Counter()))},"
        f" has too many {dict(contents.get(name, Counter()) - rows)}"
        for name, rows in expected.items()
        if rows != contents.get(name, Counter())
    ]
