"""What a table promises its readers: warnings before it is followed, and whether it still keeps to what was said."""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.sources.connectors.mysql import columns
from headrace.sources.connectors.mysql.images import Field
from headrace.sources.connectors.mysql.introspect import SourceTable


def places(table: SourceTable, fields: tuple[Field, ...], where: str) -> tuple[int, ...]:
    """Where in images of these fields each column of the relation is; -1: known not to be there any more.

    A column that is new there is left out. Where images carry no names, they are those of the catalogue. Raises
    ``HeadraceError`` source.schema where the images are not those of the table as it was found.
    """
    names = [field.name for field in fields]
    if not all(names):
        names = [column.name for column in table.layout] if len(fields) == len(table.layout) else []
    at = {name: place for place, name in enumerate(names)}
    found = []
    for column in table.columns:
        place = at.get(column.name, -1) if column.column_type else -1
        if column.column_type and (place < 0 or not columns.fits(column, fields[place])):
            raise HeadraceError(
                "source.schema",
                f"table {table.relation.name}: rows have another column {column.name} than the table",
                where=where,
                why=f"{table.qualified} was altered more than once in a short time, or by a statement not known",
                next="`headrace stop`, then `headrace up`; if it stays so, `headrace drop --source` with the source's "
                "name before: its tables are copied anew, in place of what was there",
            )
        found.append(place)
    return tuple(found)


def changed(table: SourceTable, announced: Relation, by: str) -> str:
    """What has become of a table that was announced otherwise."""
    now = {column.name: column.type for column in table.relation.columns}
    parts = [f"column {c.name} is gone" for c in announced.columns if c.name not in now]
    parts += [f"column {c.name} is {now[c.name]} now" for c in announced.columns if now.get(c.name, c.type) != c.type]
    if table.relation.key != announced.key:
        parts.append(f"its key is ({', '.join(table.relation.key)}) now, not ({', '.join(announced.key)})")
    return f"table {announced.name} changed: {', '.join(parts)}" + (f" (by {by})" if by else "")


def gone(name: str, by: str) -> str:
    return f"table {name} changed: it is not there any more (by {by or 'DROP TABLE, or under another name'})"


def check_readable(table: SourceTable, accepted: Collection[str], where: str) -> None:
    """Raises ``HeadraceError`` source.setup for a table whose rows cannot be read from the log, or are not all in it.

    ``accepted``: the tables that are followed without what foreign keys do to their rows.
    """
    name = table.relation.name
    for key, parent, does in () if name in accepted else table.cascades:
        raise HeadraceError(
            "source.setup",
            f"table {name}: the foreign key {key} changes its rows when {parent} changes ({does})",
            where=where,
            why="the server does not write such changes to its log: views would keep what is gone",
            next="do with statements or a trigger what the foreign key does; or, by the source's option "
            f"`cascades: [{name}]`, follow the table without these changes: they are seen when it is copied anew only",
        )
    packed = [column.name for column in table.layout if "COMPRESSED" in column.column_type]
    if packed:
        raise HeadraceError(
            "source.setup",
            f"table {name}: {', '.join(packed)} is a COMPRESSED column",
            where=where,
            why="how its values are written to the log cannot be read",
            next=f"ALTER TABLE {table.quoted} MODIFY the column without COMPRESSED, or do not follow the table",
        )


def warnings(table: SourceTable) -> list[str]:
    relation = table.relation
    found = []
    if not table.transactional:
        found.append(
            f"table {table.qualified} is kept by {table.engine}, which has no transactions: each statement is one, and "
            "a change made while the table is copied may be seen twice where the table has no key. "
            f"ALTER TABLE {table.quoted} ENGINE = InnoDB"
        )
    if not relation.key:
        found.append(f"table {table.qualified} has no primary key: it is followed as a multiset of rows")
    for name, parent, does in table.cascades:
        found.append(
            f"table {table.qualified}: the foreign key {name} changes its rows when {parent} changes ({does}), and "
            "the server does not write such changes to its log: they are seen when the table is copied anew only. "
            "Do with statements or a trigger what the foreign key does"
        )
    return found
