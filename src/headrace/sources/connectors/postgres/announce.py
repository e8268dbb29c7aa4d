"""What a table promises its readers: warnings before it is followed, and whether it still keeps to what was said."""

from __future__ import annotations

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.pgoutput import RelationMessage


def check_unchanged(table: SourceTable, message: RelationMessage, where: str) -> None:
    """Raises ``HeadraceError`` source.schema when the server describes the table otherwise than announced."""
    if (message.schema, message.table) != (table.schema, table.table):
        change = f"it is called {message.schema}.{message.table} now"
    elif message.columns != table.columns:
        change = _column_changes(table, message)
    else:
        return
    raise HeadraceError(
        "source.schema",
        f"table {table.relation.name} changed: {change}",
        where=where,
        why=f"{table.qualified} was altered while it was followed",
        next="undo the change, or drop the views that read the table, restart, and create them again",
    )


def _column_changes(table: SourceTable, message: RelationMessage) -> str:
    before = {column.name: column for column in table.columns}
    now = {column.name: column for column in message.columns}
    parts = [f"column {name} is new" for name in now if name not in before]
    parts += [f"column {name} is gone" for name in before if name not in now]
    parts += [f"column {name} has another type" for name in now if name in before and now[name] != before[name]]
    return ", ".join(parts) or "its columns have another order"


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
            f"table {table.qualified} has no primary key: with REPLICA IDENTITY FULL it is followed as a multiset of "
            "rows, and every update or delete writes the whole old row to the server's log"
        )
    bare = [column.name for column, spelled in zip(relation.columns, table.types, strict=True) if spelled == "numeric"]
    if bare:
        found.append(
            f"table {table.qualified}: {', '.join(bare)} is numeric without a declared precision and is carried as "
            "decimal(38,18): a value with more digits before or after the point, or NaN, stops the source"
        )
    return found
