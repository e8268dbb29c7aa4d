"""What a table promises its readers: warnings before it is followed, and whether it still keeps to what was said."""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.pgoutput import RelationColumn, RelationMessage

_TEXTS = frozenset({25, 1043})  # text, varchar


def places(table: SourceTable, message: RelationMessage, used: Collection[str] | None, where: str) -> tuple[int, ...]:
    """Where in rows described by ``message`` each column of the relation is; -1: they do not have it any more.

    A column that is new there is left out. One that is gone, or has another type, is left out too, unless it belongs
    to ``used`` (the columns that views use; None: all) or to the key. Raises ``HeadraceError`` source.schema.
    """
    if (message.schema, message.table) != (table.schema, table.table):
        raise _changed(table, f"it is called {message.schema}.{message.table} now", where)
    at = {column.name: place for place, column in enumerate(message.columns)}
    found = []
    for column, announced in zip(table.relation.columns, table.columns, strict=True):
        place = at.get(column.name, -1)
        if place < 0 or not _reads_alike(column.type, announced, message.columns[place]):
            if used is None or column.name in used or column.name in table.relation.key:
                raise _changed(table, _column_changes(table, message), where)
            place = -1
        found.append(place)
    kept = [place for place in found if place >= 0]
    if kept != sorted(kept):  # columns were renamed in a circle: their earlier values are under the other's name
        raise _changed(table, "its columns have another order", where)
    return tuple(found)


def _reads_alike(type_text: str, before: RelationColumn, now: RelationColumn) -> bool:
    """Whether values described the one way and the other have one form as text of one type."""
    if type_text == "string":
        return before.type_oid == now.type_oid or {before.type_oid, now.type_oid} <= _TEXTS
    return before.type_oid == now.type_oid and (before.modifier == now.modifier or "decimal" not in type_text)


def _changed(table: SourceTable, change: str, where: str) -> HeadraceError:
    return HeadraceError(
        "source.schema",
        f"table {table.relation.name} changed: {change}",
        where=where,
        why=f"{table.qualified} was altered while it was followed, and views use what changed",
        next="edit the views that use it, then `headrace stop`, `headrace drop --source` with the source's name, "
        "`headrace up`: its tables are copied anew, in place of what was there",
    )


def changed(table: SourceTable, announced: Relation, where: str) -> HeadraceError:
    """What a table has that was announced otherwise and is used."""
    now = {column.name: column.type for column in table.relation.columns}
    parts = [f"column {c.name} is gone" for c in announced.columns if c.name not in now]
    parts += [f"column {c.name} is {now[c.name]} now" for c in announced.columns if now.get(c.name, c.type) != c.type]
    if (table.relation.key, table.relation.updates) != (announced.key, announced.updates):
        parts.append(f"its key is ({', '.join(table.relation.key)}) now, not ({', '.join(announced.key)})")
    return _changed(table, ", ".join(parts), where)


def _column_changes(table: SourceTable, message: RelationMessage) -> str:
    """What happened, with the statements that do so."""
    before = {column.name: column for column in table.columns}
    now = {column.name: column for column in message.columns}
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
    relation = table.relation
    found = []
    if not relation.updates:
        found.append(
            f"table {table.qualified} has neither a primary key nor a replica identity: only inserts can be followed, "
            "and from the moment it is followed PostgreSQL itself refuses every UPDATE and DELETE on it, for everyone. "
            "Give it a primary key, or: "
            f"ALTER TABLE {table.qualified} REPLICA IDENTITY FULL"
        )
    elif not relation.key:
        found.append(
            f"table {table.qualified} has no primary key, or a deferrable one: with REPLICA IDENTITY FULL it is "
            "followed as a multiset of rows, and every update or delete writes the whole old row to the server's log"
        )
    if table.has_children and not table.partitioned:
        found.append(
            f"table {table.qualified} has tables that inherit from it: their rows are followed as rows of "
            "those tables, not of it; a view can put them together with UNION ALL"
        )
    bare = [column.name for column, spelled in zip(relation.columns, table.types, strict=True) if spelled == "numeric"]
    if bare:
        found.append(
            f"table {table.qualified}: {', '.join(bare)} is numeric without a declared precision and is carried as "
            "decimal(38,18): a value with more digits before or after the point, or NaN, stops the source; "
            f"`as_text: [{relation.name}.{bare[0]}]` carries such a column as text, whatever it holds"
        )
    return found
