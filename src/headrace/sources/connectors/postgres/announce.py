"""What a table promises its readers: warnings before it is followed, and whether it still keeps to what was said."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.finding import WARNING, Finding
from headrace.model.schema import Relation
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.pgoutput import RelationColumn, RelationMessage

_TEXTS = frozenset({25, 1043})  # text, varchar


def places(table: SourceTable, message: RelationMessage) -> tuple[int, ...] | None:
    """Where in rows described by ``message`` each column of the relation is; -1: they do not have it any more.

    A column that is new there is left out, as is one that is gone, or has another type. None: such rows cannot be told
    apart as the relation's, since the table has another name, its key is gone, or its rows are known by all columns.
    """
    if (message.schema, message.table) != (table.schema, table.table):
        return None
    at = {column.name: place for place, column in enumerate(message.columns)}
    by_rows = table.relation.updates and not table.relation.key
    found = []
    for column, announced in zip(table.relation.columns, table.columns, strict=True):
        place = at.get(column.name, -1)
        if place < 0 or not _reads_alike(column.type, announced, message.columns[place]):
            if by_rows or column.name in table.relation.key:
                return None
            place = -1
        found.append(place)
    kept = [place for place in found if place >= 0]
    # In another order columns were renamed in a circle: their earlier values are under the other's name.
    return tuple(found) if kept == sorted(kept) else None


def _reads_alike(type_text: str, before: RelationColumn, now: RelationColumn) -> bool:
    """Whether values described the one way and the other have one form as text of one type."""
    if type_text == "string":
        return before.type_oid == now.type_oid or {before.type_oid, now.type_oid} <= _TEXTS
    return before.type_oid == now.type_oid and (before.modifier == now.modifier or "decimal" not in type_text)


def change(table: SourceTable, message: RelationMessage) -> str:
    """What has become of a table, with the statements that do so."""
    name = table.relation.name
    if (message.schema, message.table) != (table.schema, table.table):
        alter = f"ALTER TABLE {table.qualified} RENAME TO {message.table}"
        return f"table {name} changed: it is called {message.schema}.{message.table} now (by {alter})"
    return f"table {name} changed: {_column_changes(table, message.columns) or 'its columns have another order'}"


def changed(before: SourceTable | Relation, now: SourceTable) -> str:
    """The same, of a table as it is in the catalogue."""
    name = now.relation.name
    relation = before if isinstance(before, Relation) else before.relation
    if (now.relation.key, now.relation.updates) != (relation.key, relation.updates):
        return f"table {name} changed: its key is ({', '.join(now.relation.key)}), not ({', '.join(relation.key)})"
    if isinstance(before, SourceTable):
        return f"table {name} changed: {_column_changes(before, now.columns)}"
    types = {column.name: column.type for column in now.relation.columns}
    parts = [f"column {c.name} is gone" for c in relation.columns if c.name not in types]
    parts += [f"column {c.name} is {types[c.name]}" for c in relation.columns if types.get(c.name, c.type) != c.type]
    return f"table {name} changed: {', '.join(parts)}"


def _column_changes(table: SourceTable, columns: Iterable[RelationColumn]) -> str:
    """What happened, with the statements that do so."""
    before = {column.name: column for column in table.columns if column.type_oid}
    now = {column.name: column for column in columns}
    new = [name for name in now if name not in before]
    gone = [name for name in before if name not in now]
    alter = f"ALTER TABLE {table.qualified}"
    parts = [f"column {name} is new" for name in new]
    parts += [f"column {name} is gone" for name in gone]
    parts += [f"column {name} has another type" for name in now if name in before and now[name] != before[name]]
    said = [f"{alter} ALTER COLUMN {name} TYPE ..." for name in now if name in before and now[name] != before[name]]
    for name in gone:
        renamed = [f"{alter} RENAME COLUMN {name} TO {other}" for other in new if _same_type(now[other], before[name])]
        said.append(" or ".join([*renamed, f"{alter} DROP COLUMN {name}"]))
    return ", ".join(parts) + (f" (by {'; '.join(said)})" if said else "")


def _same_type(one: RelationColumn, other: RelationColumn) -> bool:
    return (one.type_oid, one.modifier) == (other.type_oid, other.modifier)


def warnings(table: SourceTable) -> list[str]:
    """What following the table means for the database and its users; one sentence or two each."""
    return [f"{found.what}. {found.next}" if found.next else found.what for found in examined(table)]


def examined(table: SourceTable) -> list[Finding]:
    """The same, each with what makes it better."""
    relation = table.relation
    found = []
    if not relation.updates:
        found.append(
            Finding(
                WARNING,
                f"table {table.qualified} has neither a primary key nor a replica identity: only inserts can be "
                "followed, and from the moment it is followed PostgreSQL itself refuses every UPDATE and DELETE on it, "
                "for everyone",
                f"Give it a primary key, or: ALTER TABLE {table.qualified} REPLICA IDENTITY FULL",
            )
        )
    elif not relation.key:
        found.append(
            Finding(
                WARNING,
                f"table {table.qualified} has no primary key, or a deferrable one: with REPLICA IDENTITY FULL it is "
                "followed as a multiset of rows, and every update or delete writes the whole old row to the server's "
                "log",
            )
        )
    if table.has_children and not table.partitioned:
        found.append(
            Finding(
                WARNING,
                f"table {table.qualified} has tables that inherit from it: their rows are followed as rows of "
                "those tables, not of it; a view can put them together with UNION ALL",
            )
        )
    bare = [column.name for column, spelled in zip(relation.columns, table.types, strict=True) if spelled == "numeric"]
    if bare:
        found.append(
            Finding(
                WARNING,
                f"table {table.qualified}: {', '.join(bare)} is numeric without a declared precision and is carried as "
                "decimal(38,18): a value with more digits before or after the point, or NaN, stops the source; "
                f"`as_text: [{relation.name}.{bare[0]}]` carries such a column as text, whatever it holds",
            )
        )
    return found
