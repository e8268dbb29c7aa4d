"""Relations and their columns, with types named as Spark SQL names them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation.

    ``type`` is Spark SQL's own spelling in lower case: ``bigint``, ``decimal(12,2)``, ``timestamp``,
    ``array<string>``, ``struct<a:int,b:string>``.
    """

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """A table of a source: its name in SQL, its columns in order and, when it has one, its key.

    A relation without a key is a multiset of rows. ``updates`` is false when the source can only ever
    insert into it or empty it (a table without key and identity), ``append_only`` true when it cannot even do that.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    updates: bool = True
    append_only: bool = False

    def column(self, name: str) -> Column:
        """The column of that name; ``KeyError`` when there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class ViewSchema:
    """What a sink or a reader must know of a view: columns in order, key, version, presentation order.

    ``key`` is a set of columns that is unique in the view, or empty when rows may repeat (a multiset).
    ``of``: where these are the matches of a stored query, whose name it has, the view that they are rows of.
    """

    name: str
    version: int
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = field(default=())
    of: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)
