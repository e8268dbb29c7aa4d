"""What the rows of each table of the catalogue add up to, kept beside them by triggers of SQLite.

SQLite notices a page that is not well formed. A flipped bit in a value, which leaves it well formed, is noticed by
these sums: of the CRC-32 of every row, and of the definitions of all tables, modulo 2**32.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

TABLE = "create table sums (relation text primary key, total integer not null) strict"
_MASK = (1 << 32) - 1
_DEFINITIONS = "definitions"  # in ``sums``, beside the names of tables
_COMMITS = "commits"


def checksum(*values: Any) -> int:
    """CRC-32 of a row; integers, texts, blobs and nulls only."""
    return zlib.crc32(ascii(values).encode())


def keep(database: sqlite3.Connection) -> None:
    """Makes this connection one that may write: its changes are added up."""
    database.create_function("row_checksum", -1, checksum, deterministic=True)
    database.execute("pragma recursive_triggers=on")  # else a row that is replaced would go unseen


def begin(database: sqlite3.Connection) -> None:
    """Adds up what is there, and from now on what changes; within a transaction that has changed the layout."""
    stop(database)
    if not _there(database):
        database.execute(TABLE)
        database.execute("insert into sums values (?, 0)", (_COMMITS,))
    for name in _tables(database):
        for event, change in (
            ("insert", f"+ {_row(database, name, 'new.')}"),
            ("delete", f"- {_row(database, name, 'old.')}"),
            ("update", f"+ {_row(database, name, 'new.')} - {_row(database, name, 'old.')}"),
        ):
            kept = f"update sums set total = (total {change}) & {_MASK} where relation = '{name}'"  # noqa: S608
            database.execute(f"create trigger {name}_{event} after {event} on {name} begin {kept}; end")
    found = {name: _total(database, name) for name in _tables(database)} | {_DEFINITIONS: _definitions(database)}
    database.executemany("insert or replace into sums values (?, ?)", found.items())


def end(database: sqlite3.Connection) -> None:
    """Nothing is added up any more, as in layouts before 9."""
    stop(database)
    database.execute("drop table sums")


def stop(database: sqlite3.Connection) -> None:
    """Until ``begin``: while the layout changes."""
    for (name,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        database.execute(f"drop trigger {name}")


def wrong(database: sqlite3.Connection) -> str:
    """What is not as it was written, in words; empty when all is. Work: one reading of every row."""
    if not _there(database):  # not before layout 9
        return ""
    known: dict[str, int] = dict(database.execute("select relation, total from sums"))
    if known.get(_DEFINITIONS) != _definitions(database):
        return "the definitions of its tables are not those that were written"
    for name in _tables(database):
        if known.get(name) != _total(database, name):
            return f"the rows of its table {name} are not those that were written"
    return ""


def rows(database: sqlite3.Connection, table: str) -> list[tuple[Any, ...]] | None:
    """Of a damaged catalogue: the rows of a table that is as it was written; None when it is not."""
    try:
        found = database.execute(f"select * from {table}").fetchall()  # noqa: S608
        known = database.execute("select total from sums where relation = ?", (table,)).fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return None
    return found if known == (sum(checksum(*row) for row in found) & _MASK,) else None


def count(database: sqlite3.Connection) -> int:
    """Within a transaction that changes something: the how-manieth it is of those that were committed."""
    database.execute("update sums set total = total + 1 where relation = ?", (_COMMITS,))
    return counted(database)


def counted(database: sqlite3.Connection) -> int:
    """Transactions so far; 0 before layout 9."""
    if not _there(database):
        return 0
    return int(database.execute("select total from sums where relation = ?", (_COMMITS,)).fetchone()[0])


def _there(database: sqlite3.Connection) -> bool:
    return bool(database.execute("select count(*) from sqlite_master where name = 'sums'").fetchone()[0])


def _tables(database: sqlite3.Connection) -> list[str]:
    found = database.execute("select name from sqlite_master where type = 'table' order by name")
    return [name for (name,) in found if name != "sums" and not name.startswith("sqlite_")]


def _row(database: sqlite3.Connection, table: str, prefix: str = "") -> str:
    columns = ", ".join(f'{prefix}"{column}"' for _, column, *_ in database.execute(f"pragma table_info({table})"))
    return f"row_checksum({columns})"


def _total(database: sqlite3.Connection, table: str) -> int:
    rows = database.execute(f"select * from {table}")  # noqa: S608
    return sum(checksum(*row) for row in rows) & _MASK


def _definitions(database: sqlite3.Connection) -> int:
    rows = database.execute("select type, name, tbl_name, sql from sqlite_master order by type, name")
    return sum(checksum(*row) for row in rows) & _MASK
