"""Every version that a view ever had, those of dropped views too: its SQL, and when it came and went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from headrace.catalog.aside import AsideTables
from headrace.model.schema import Column, ViewSchema


@dataclass(frozen=True, slots=True)
class Version:
    """``came`` and ``gone``: at which commit, and when in microseconds since the epoch; None where it is not known.

    ``state``: live, failed or gone.
    """

    schema: ViewSchema
    sql: str
    state: str
    came_commit: int
    came_us: int | None
    gone_commit: int | None
    gone_us: int | None


class VersionTables(AsideTables):
    """The part of the catalogue that remembers versions."""

    def history(self, view: str) -> list[Version]:
        """The versions of a view, newest first; none of one that never was."""
        rows = self._rows(
            "select version, sql, columns, key, came_commit, came_us, gone_commit, gone_us,"
            " coalesce((select state from view where view.name = version.view and view.version = version.version"
            " and number = (select max(number) from version of where of.view = version.view)), 'gone')"
            " from version where view = ? order by number desc",
            view,
        )
        return [
            Version(ViewSchema(view, version, columns_of(columns), tuple(orjson.loads(key))), sql, state, *when)
            for version, sql, columns, key, *when, state in rows
        ]

    def remember(self, schema: ViewSchema, sql: str, commit: int, at_us: int | None) -> None:
        """A version has come in place of the one before. The same one again, built anew, is the same."""
        values = (schema.name, schema.version, sql, dumped(schema.columns), orjson.dumps(schema.key).decode())
        same = "view = ? and version = ? and sql = ? and columns = ? and key = ? and gone_commit is null"
        with self.transaction():
            if self._rows(f"select 1 from version where {same}", *values):  # noqa: S608
                return
            self.end_version(schema.name, commit, at_us)
            self._db.execute(
                "insert into version (view, version, sql, columns, key, came_commit, came_us)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                (*values, commit, at_us),
            )

    def end_version(self, view: str, commit: int, at_us: int | None) -> None:
        """The version there is has gone."""
        with self.transaction():
            self._db.execute(
                "update version set gone_commit = ?, gone_us = ? where gone_commit is null and number ="
                " (select max(number) from version where view = ?)",
                (commit, at_us, view),
            )


def dumped(columns: Iterable[Column]) -> str:
    """Columns as the catalogue keeps them."""
    return orjson.dumps([[c.name, c.type, c.nullable] for c in columns]).decode()


def columns_of(text: str) -> tuple[Column, ...]:
    return tuple(Column(name, type_text, nullable) for name, type_text, nullable in orjson.loads(text))
