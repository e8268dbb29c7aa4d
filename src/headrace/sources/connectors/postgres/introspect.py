"""The tables of a PostgreSQL database as relations: columns, types, keys, and what each can be asked for."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from headrace.formats.types import postgres as types
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.sources.connectors.postgres.config import PostgresOptions
from headrace.sources.connectors.postgres.pgoutput import RelationColumn

# Ordinary permanent tables and partitioned roots; partitions are followed as their root.
_TABLES = """
SELECT c.oid, n.nspname AS schema, c.relname AS table, c.relkind = 'p' AS partitioned, c.relreplident::text AS identity,
       ARRAY(SELECT DISTINCT l.relreplident::text FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid
             WHERE t.isleaf AND l.relkind <> 'p') AS leaf_identities,
       ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
             WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place) AS primary_key,
       COALESCE((SELECT i.indimmediate FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), false)
           AS primary_key_immediate,
       ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
             WHERE i.indrelid = c.oid AND i.indisreplident AND k.place <= i.indnkeyatts ORDER BY k.place)
           AS identity_index,
       has_table_privilege(c.oid, 'SELECT') AS may_select,
       has_schema_privilege(n.oid, 'USAGE') AS may_use_schema,
       pg_has_role(c.relowner, 'USAGE') AS is_owner,
       EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid) AS has_children
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' AND n.nspname = ANY(%s)
ORDER BY n.nspname, c.relname
"""

# Domains are followed to their base type, arrays to their element type, in any nesting. 22 and 30 are the vector types
# of the catalogue, which look like arrays but print otherwise. Arrays that are printed without commas are text.
_COLUMNS = """
WITH RECURSIVE resolved AS (
    SELECT a.attrelid, a.attnum, a.atttypid AS type, a.atttypmod AS modifier, '' AS suffix
    FROM pg_attribute a
    WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
  UNION ALL
    SELECT r.attrelid, r.attnum, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE r.modifier END,
           r.suffix || CASE WHEN t.typtype = 'd' THEN '' ELSE '[]' END
    FROM resolved r JOIN pg_type t ON t.oid = r.type
    WHERE t.typtype = 'd' OR (t.typcategory = 'A' AND t.typlen = -1 AND t.typelem <> 0 AND t.oid NOT IN (22, 30))
)
SELECT a.attrelid AS oid, a.attname AS name, a.atttypid AS type_oid, a.atttypmod AS modifier, a.attnotnull AS not_null,
       CASE WHEN r.suffix <> '' AND t.typdelim <> ',' THEN 'text'
            ELSE format_type(r.type, r.modifier) || r.suffix END AS type
FROM resolved r
JOIN pg_type t ON t.oid = r.type
JOIN pg_attribute a ON a.attrelid = r.attrelid AND a.attnum = r.attnum
WHERE NOT (t.typtype = 'd' OR (t.typcategory = 'A' AND t.typlen = -1 AND t.typelem <> 0 AND t.oid NOT IN (22, 30)))
ORDER BY a.attrelid, a.attnum
"""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table: how the product sees it (``relation``) and how PostgreSQL does.

    ``identity``: what PostgreSQL writes of an old row: ``d`` primary key, ``i`` an index, ``f`` all, ``n`` nothing;
    of a partitioned table, what its partitions agree on.
    """

    relation: Relation
    oid: int
    schema: str
    table: str
    columns: tuple[RelationColumn, ...]
    types: tuple[str, ...]
    identity: str
    partitioned: bool
    may_select: bool
    may_use_schema: bool
    is_owner: bool
    has_children: bool

    @property
    def qualified(self) -> str:
        """schema.table, for people."""
        return f"{self.schema}.{self.table}"


def tables(connection: psycopg.Connection[Any], options: PostgresOptions) -> dict[str, SourceTable]:
    """Every table offered, by relation name.

    A table is named as in PostgreSQL; where two schemas have one of that name, the first schema listed keeps it and
    the others' are ``schema_table``. With ``options.tables`` exactly those, under the names given there.
    Raises ``HeadraceError`` source.no_table when one given there does not exist.
    """
    schemas = list(options.schemas)
    if options.tables is not None:
        schemas = sorted({table.partition(".")[0] for table in options.tables.values()})
    cursor: psycopg.Cursor[Any] = connection.cursor(row_factory=namedtuple_row)
    rows = cursor.execute(_TABLES, (schemas,)).fetchall()
    columns: dict[int, list[Any]] = {}
    for column in cursor.execute(_COLUMNS, ([row.oid for row in rows],)):
        columns.setdefault(column.oid, []).append(column)
    by_place = {(row.schema, row.table): row for row in rows if row.oid in columns}
    named = _named(by_place, options)
    found = {name: _table(name, row, columns[row.oid], options.text_columns(name)) for name, row in named.items()}
    for name, column in (place.split(".", 1) for place in options.as_text):
        if name not in found or column not in found[name].relation.names:
            raise no_column(f"{name}.{column}", found)
    return found


def no_column(place: str, found: dict[str, SourceTable]) -> HeadraceError:
    known = sorted(f"{table.relation.name}.{column}" for table in found.values() for column in table.relation.names)
    near = difflib.get_close_matches(place, known, n=1)
    return HeadraceError(
        "config.invalid",
        f"as_text: there is no column '{place}'",
        why="it names columns as table.column, with the table's name in views",
        next=f"did you mean '{near[0]}'?" if near else "",
    )


def refitted(table: SourceTable, relation: Relation) -> SourceTable | None:
    """``table`` as the relation that was announced of it earlier; None when that cannot be followed any more.

    Columns that are new are left out; of those that are gone, or have another type, the values are NULL.
    """
    if (table.relation.key, table.relation.updates) != (relation.key, relation.updates):
        return None
    by_rows = relation.updates and not relation.key  # whole rows are told apart
    there = {column.name: place for place, column in enumerate(table.relation.columns)}
    columns, types = [], []
    for column in relation.columns:
        place = there.get(column.name)
        if place is not None and table.relation.columns[place].type == column.type:
            columns.append(table.columns[place])
            types.append(table.types[place])
        elif by_rows or column.name in relation.key:
            return None
        else:
            columns.append(RelationColumn(column.name, 0, 0))
            types.append("")
    return replace(table, relation=relation, columns=tuple(columns), types=tuple(types))


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
        why="only permanent tables are offered: no views, temporary, unlogged or foreign tables, no partitions",
        next=f"did you mean '{near[0]}'?" if near else f"tables: {', '.join(known[:20]) or 'none'}",
    )


def _named(by_place: dict[tuple[str, str], Any], options: PostgresOptions) -> dict[str, Any]:
    named: dict[str, Any] = {}
    if options.tables is None:
        for place in sorted(by_place, key=lambda place: (options.schemas.index(place[0]), place[1])):
            schema, table = place
            named[f"{schema}_{table}" if table in named else table] = by_place[place]
        return named
    for name, qualified in options.tables.items():
        schema, _, table = qualified.partition(".")
        if (schema, table) not in by_place:
            raise no_table(qualified, (".".join(place) for place in by_place), f"tables: {name}")
        named[name] = by_place[schema, table]
    return named


def _table(name: str, row: Any, columns: list[Any], texts: Collection[str]) -> SourceTable:
    identity = _identity(row)
    key, updates = _key(row, identity, {column.name for column in columns})
    relation = Relation(
        name,
        tuple(
            Column(c.name, "string" if c.name in texts else types.to_spark(c.type), nullable=not c.not_null)
            for c in columns
        ),
        key,
        updates,
    )
    return SourceTable(
        relation=relation,
        oid=row.oid,
        schema=row.schema,
        table=row.table,
        columns=tuple(RelationColumn(c.name, c.type_oid, c.modifier) for c in columns),
        types=tuple(c.type for c in columns),
        identity=identity,
        partitioned=row.partitioned,
        may_select=row.may_select,
        may_use_schema=row.may_use_schema,
        is_owner=row.is_owner,
        has_children=row.has_children,
    )


def _identity(row: Any) -> str:
    """What an old row consists of; the partitions decide, as it is they that are written to."""
    leaves = set(row.leaf_identities) if row.partitioned else set()
    if not leaves:
        identity = row.identity
    elif len(leaves) == 1:
        identity = leaves.pop()
    else:  # full and primary key mixed: the key is there in both
        identity = "d" if leaves == {"d", "f"} else "n"
    if identity == "d" and not row.primary_key_immediate:  # PostgreSQL does not take a deferrable key
        return "n"
    return str(identity)


def _key(row: Any, identity: str, published: set[str]) -> tuple[tuple[str, ...], bool]:
    """(key, whether updates and deletes can come). A key with a generated column is none: it is not published.

    Nor is a deferrable one: in the middle of a transaction two rows may have it, and the changes come one by one.
    """
    key = tuple(row.identity_index if identity == "i" else row.primary_key if row.primary_key_immediate else ())
    if not set(key) <= published:
        return (), identity == "f"
    if identity == "i":
        return key, bool(key)
    return key, identity in ("d", "f")
