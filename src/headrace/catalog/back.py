"""The catalogue in an earlier layout, for an earlier version of Headrace: all of it, or it stays as it is."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import orjson

from headrace.catalog import state_layout, sums
from headrace.catalog.database import LAYOUT
from headrace.catalog.mark import Mark
from headrace.catalog.store import Catalog
from headrace.model.errors import HeadraceError


def take_back(path: Path, layout: int) -> None:
    """Raises ``state.layout``, with nothing changed, where that layout cannot hold what is there."""
    if not 1 <= layout < LAYOUT:
        raise HeadraceError(
            "state.layout", f"there is no earlier layout {layout}", where=str(path),
            next=f"this version knows the layouts 1 to {LAYOUT}",
        )  # fmt: skip
    Catalog(path).close()  # sound, and in the present layout
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        sums.keep(database)
        database.execute("begin immediate")
        for now in range(LAYOUT, layout, -1):
            _refuse(database, now, layout, path)
        if layout < SUMMED:
            sums.end(database)
        else:
            sums.stop(database)
        for now in range(LAYOUT, layout, -1):
            _BACK[now](database, f"{path.parent}/")
        database.execute("update meta set value = ? where name = 'layout'", (str(layout),))
        if layout >= SUMMED:
            sums.begin(database)
        database.execute("commit")
        database.execute("pragma wal_checkpoint(truncate)")
    if layout < SUMMED:
        Mark(path).remove()  # earlier versions do not count


SUMMED = 9  # from this layout on the rows are added up and transactions counted
# What a layout can hold and the one before it cannot: a count, and what is counted.
_HELD = {
    12: (
        "select count(*) from meta where name = 'state layout' and value <> '1' and value not like '1 %'",
        "kept files of another layout than 1",
    ),
    10: ("select count(*) from aside_row where until is null", "rows that views go on without"),
    8: ("select count(*) from refused where gone_us is null", "rows or requests that sources could not read"),
    5: ("select count(*) from settled", "changes that have left the quarantine"),
    4: ("select count(*) from set_aside", "files of changes that tables could not take"),
    3: ("select count(*) from step where each", "steps with each transaction by itself"),
    2: ("select count(*) from error_row", "rows that views fail on"),
}


def _refuse(database: sqlite3.Connection, now: int, layout: int, path: Path) -> None:
    if now in _HELD:
        sql, what = _HELD[now]
        (count,) = database.execute(sql).fetchone()
        if count:
            raise HeadraceError(
                "state.layout", f"layout {layout} cannot hold all that is in the catalogue", where=str(path),
                why=f"it has no place for {what}: {count} are there, kept since layout {now}",
                next=f"`headrace migrate --to {now}` goes as far as it can; or settle these first",
            )  # fmt: skip


def _dropping(*tables: str) -> Callable[[sqlite3.Connection, str], None]:
    def drop(database: sqlite3.Connection, home: str) -> None:
        for table in tables:
            database.execute(f"drop table {table}")

    return drop


def _without_checksums(database: sqlite3.Connection, home: str) -> None:
    database.execute("alter table base drop column crcs")
    for step, runs in database.execute("select step, runs from checkpoint").fetchall():
        kept = {name: [entry[:3] for entry in of] for name, of in orjson.loads(runs).items()}
        database.execute("update checkpoint set runs = ? where step = ?", (orjson.dumps(kept).decode(), step))


def _named_in_full(database: sqlite3.Connection, home: str) -> None:
    def full(path: str) -> str:
        return path if path.startswith("/") else home + path

    for table in ("output", "set_aside"):
        database.execute(f"update {table} set path = ? || path where substr(path, 1, 1) <> '/'", (home,))  # noqa: S608
    for feed, paths in database.execute("select feed, paths from base").fetchall():
        stored = orjson.dumps([full(path) for path in orjson.loads(paths)]).decode()
        database.execute("update base set paths = ? where feed = ?", (stored, feed))
    for step, runs in database.execute("select step, runs from checkpoint").fetchall():
        kept = {name: [[full(path), *rest] for path, *rest in of] for name, of in orjson.loads(runs).items()}
        database.execute("update checkpoint set runs = ? where step = ?", (orjson.dumps(kept).decode(), step))


def _without_each(database: sqlite3.Connection, home: str) -> None:
    database.execute("alter table step drop column each")


def _dropping_summed(table: str) -> Callable[[sqlite3.Connection, str], None]:
    """A table that may be added up: its sum goes too."""

    def drop(database: sqlite3.Connection, home: str) -> None:
        database.execute(f"drop table {table}")
        if database.execute("select count(*) from sqlite_master where name = 'sums'").fetchone()[0]:
            database.execute("delete from sums where relation = ?", (table,))

    return drop


_BLOCK = 256 << 10  # bytes that have a checksum of their own in layout 11
_OUTPUT = """create table output (step integer not null, feed text not null, path text not null, rows integer not null,
    crc integer not null, primary key (feed, step, path)) strict"""


def _summed_whole(database: sqlite3.Connection, home: str) -> None:
    """One checksum a file, a number."""

    def whole(path: str, texts: str) -> int:
        return _joined(Path(home, path), [int(texts[at : at + 8], 16) for at in range(0, len(texts), 8)])

    outputs = database.execute("select step, feed, path, rows, sums from output").fetchall()
    database.execute("drop table output")
    database.execute(_OUTPUT)
    database.execute("create index output_by_step on output (step)")
    rows = [(step, feed, path, count, whole(path, texts)) for step, feed, path, count, texts in outputs]
    database.executemany("insert into output values (?, ?, ?, ?, ?)", rows)
    database.execute("alter table base rename column sums to crcs")
    for feed, paths, texts in database.execute("select feed, paths, crcs from base").fetchall():
        crcs = [whole(*of) for of in zip(orjson.loads(paths), orjson.loads(texts), strict=False)]
        database.execute("update base set crcs = ? where feed = ?", (orjson.dumps(crcs).decode(), feed))
    for step, runs in database.execute("select step, runs from checkpoint").fetchall():
        now = orjson.loads(runs)
        kept = {name: [[*e[:3], *(whole(e[0], t) for t in e[3:])] for e in of] for name, of in now.items()}
        if kept != now:
            database.execute("update checkpoint set runs = ? where step = ?", (orjson.dumps(kept).decode(), step))


def _without_state_layout(database: sqlite3.Connection, home: str) -> None:
    database.execute("delete from meta where name = ?", (state_layout.NAME,))


def _joined(path: Path, crcs: list[int]) -> int:
    """The CRC-32 of a file whose blocks have these; 0, none, of a file that is gone. Work: as if it were read."""
    if len(crcs) < 2:
        return sum(crcs)
    try:
        last = path.stat().st_size - (len(crcs) - 1) * _BLOCK
    except FileNotFoundError:
        return 0
    found = crcs[0]
    for crc, length in zip(crcs[1:], [*[_BLOCK] * (len(crcs) - 2), last], strict=True):
        zeros = bytes(max(0, length))  # a checksum moves over what follows it as it would over zeros
        found = zlib.crc32(zeros, found) ^ zlib.crc32(zeros) ^ crc
    return found


_BACK = {
    13: _dropping_summed("version"),
    12: _without_state_layout,
    11: _summed_whole,
    10: _dropping_summed("aside_row"),
    9: lambda database, home: None,
    8: _dropping("refused"),
    7: _without_checksums,
    6: _named_in_full,
    5: _dropping("settled", "replay"),
    4: _dropping("set_aside"),
    3: _without_each,
    2: _dropping("error_row"),
}
