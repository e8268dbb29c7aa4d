"""The tables of a MySQL or MariaDB database as relations: columns, types, keys."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headrace.formats.types import mysql as types
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.sources.connectors.mysql.config import MysqlOptions

_TABLES = """
SELECT t.table_schema, t.table_name, t.engine,
       (SELECT e.transactions = 'YES' FROM information_schema.engines e WHERE e.engine = t.engine)
FROM information_schema.tables t WHERE t.table_type = 'BASE TABLE' AND t.table_schema IN %s
ORDER BY t.table_schema, t.table_name
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, data_type, character_set_name, is_nullable
FROM information_schema.columns WHERE table_schema IN %s ORDER BY table_schema, table_name, ordinal_position
"""
_KEYS = """
SELECT table_schema, table_name, column_name FROM information_schema.statistics
WHERE index_name = 'PRIMARY' AND table_schema IN %s ORDER BY table_schema, table_name, seq_in_index
"""
_ACTING = ("CASCADE", "SET NULL")
# What a foreign key does to rows of its table is done within the storage engine and is not in the log.
_CASCADES = """
SELECT constraint_schema, table_name, constraint_name, referenced_table_name, delete_rule, update_rule
FROM information_schema.referential_constraints
WHERE constraint_schema IN %s AND (delete_rule IN ('CASCADE', 'SET NULL') OR update_rule IN ('CASCADE', 'SET NULL'))
ORDER BY constraint_schema, table_name, constraint_name
"""


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column as the catalogue has it. ``column_type`` "": the table has it no more, its values are NULL."""

    name: str
    column_type: str
    data_type: str
    charset: str | None

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.column_type


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table: how the product sees it (``relation``) and how the server does.

    ``columns``: those of the relation; ``layout``: all that the table has, in its order. ``cascades``: foreign keys
    that change its rows: (constraint, referenced table, what it does).
    """

    relation: Relation
    database: str
    table: str
    engine: str
    transactional: bool
    columns: tuple[SourceColumn, ...]
    layout: tuple[SourceColumn, ...]
    cascades: tuple[tuple[str, str, str], ...] = ()

    @property
    def place(self) -> tuple[str, str]:
        return self.database, self.table

    @property
    def qualified(self) -> str:
        """database.table, for people."""
        return f"{self.database}.{self.table}"

    @property
    def quoted(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.table)}"

    @property
    def form(self) -> str:
        """What the table is made of, as positions keep it: when that has changed, what it holds may have too."""
        relation = self.relation
        announced = [(column.name, column.type) for column in relation.columns]
        layout = [(c.name, c.column_type, c.charset) for c in self.layout]
        parts = (self.place, self.engine, relation.key, announced, layout)
        return hashlib.md5(repr(parts).encode(), usedforsecurity=False).hexdigest()[:12]


def tables(connection: Any, options: MysqlOptions, *, gone: bool = False) -> dict[str, SourceTable]:
    """Every table offered, by relation name. With ``options.tables`` exactly those, under the names given there.

    ``gone``: such as are not there are left out; else raises ``HeadraceError`` source.no_table.
    """
    given = options.places()
    databases = sorted({database for database, _ in given.values()} if given else {options.database})
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    columns: dict[tuple[str, str], list[tuple[SourceColumn, bool]]] = {}
    keys: dict[tuple[str, str], list[str]] = {}
    cascades: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_TABLES, (databases,))
        for database, table, *rest in cursor.fetchall():
            found[database, table] = tuple(rest)
        cursor.execute(_COLUMNS, (databases,))
        for database, table, name, column_type, data_type, charset, nullable in cursor.fetchall():
            column = SourceColumn(name, _text(column_type), _text(data_type), charset)
            columns.setdefault((database, table), []).append((column, nullable == "YES"))
        cursor.execute(_KEYS, (databases,))
        for database, table, name in cursor.fetchall():
            keys.setdefault((database, table), []).append(name)
        cursor.execute(_CASCADES, (databases,))
        for database, table, name, parent, *rules in cursor.fetchall():
            does = [f"ON {event} {r}" for event, r in zip(("DELETE", "UPDATE"), rules, strict=True) if r in _ACTING]
            cascades.setdefault((database, table), []).append((name, parent, ", ".join(does)))
    result = {}
    for name, place in (given or {table: (database, table) for database, table in found}).items():
        if place not in found or place not in columns:
            if gone:
                continue
            raise no_table(".".join(place), (".".join(one) for one in found), f"tables: {name}")
        engine, transactional = found[place]
        texts = options.text_columns(name)
        layout = tuple(column for column, _ in columns[place])
        typed = tuple(
            Column(c.name, "string" if c.name in texts else types.to_spark(c.column_type), nullable=nullable)
            for c, nullable in columns[place]
        )
        relation = Relation(name, typed, tuple(keys.get(place, ())))
        result[name] = SourceTable(
            relation, *place, engine or "", bool(transactional), layout, layout, tuple(cascades.get(place, ()))
        )
    for place_given in options.as_text:
        name, _, text_column = place_given.partition(".")
        if (name not in result or text_column not in result[name].relation.names) and not gone:
            raise _no_column(place_given, result)
    for name in options.cascades:
        if name not in result and not gone:
            raise no_table(name, result, "cascades")
    return result


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def refitted(table: SourceTable, relation: Relation) -> SourceTable | None:
    """``table`` as the relation that was announced of it earlier; None when that cannot be followed any more.

    Columns that are new are left out; of those that are gone, or have another type, the values are NULL, unless they
    tell rows apart: those of the key, or without one all.
    """
    if table.relation.key != relation.key:
        return None
    there = {column.name: place for place, column in enumerate(table.relation.columns)}
    columns = []
    for column in relation.columns:
        place = there.get(column.name)
        if place is not None and table.relation.columns[place].type == column.type:
            columns.append(table.columns[place])
        elif not relation.key or column.name in relation.key:
            return None
        else:
            columns.append(SourceColumn(column.name, "", "", None))
    return replace(table, relation=relation, columns=tuple(columns))


def choose(offered: dict[str, SourceTable], wanted: Iterable[str], source: str) -> list[SourceTable]:
    """The wanted tables. Raises ``HeadraceError`` source.no_table naming the nearest one."""
    for name in wanted:
        if name not in offered:
            raise no_table(name, offered, source)
    return [offered[name] for name in sorted(wanted)]


def no_table(name: str, known: Iterable[str], where: str) -> HeadraceError:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    return HeadraceError(
        "source.no_table",
        f"there is no table '{name}'",
        where=where,
        why="only ordinary tables that the user may see are offered: no views, no temporary tables",
        next=f"did you mean '{near[0]}'?" if near else f"tables: {', '.join(known[:20]) or 'none'}",
    )


def _no_column(place: str, found: dict[str, SourceTable]) -> HeadraceError:
    known = sorted(f"{table.relation.name}.{column}" for table in found.values() for column in table.relation.names)
    near = difflib.get_close_matches(place, known, n=1)
    return HeadraceError(
        "config.invalid",
        f"as_text: there is no column '{place}'",
        why="it names columns as table.column, with the table's name in views",
        next=f"did you mean '{near[0]}'?" if near else "",
    )
