"""What followed tables have lost since they were announced: noted once, in the transaction where it shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from headrace.model.altered import ALTERED, WHOLE
from headrace.model.schema import Relation
from headrace.sources.altered import Loss, Losses, change_table
from headrace.sources.connectors.postgres.announce import change, changed, places
from headrace.sources.connectors.postgres.changes import Places
from headrace.sources.connectors.postgres.introspect import SourceTable, refitted
from headrace.sources.connectors.postgres.pgoutput import RelationMessage

Notes = dict[Loss, int]  # with the ordinal of the transaction where it shows first


class Altered(Losses):
    """Told by the stream's descriptions of the tables."""

    def __init__(self, say: Callable[[Loss], None]) -> None:
        super().__init__(say)
        self._told: set[tuple[str, str]] = set()  # the log knows

    def begin(self) -> None:
        """The source starts again: whether the log knows is not known."""
        self._told.clear()

    def there(self, wanted: Iterable[str], offered: Collection[str], announced: Collection[str]) -> list[str]:
        """The wanted tables without those that were announced once and are not there any more."""
        names = list(wanted)
        for name in names:
            if name in announced and name not in offered:
                text = f"table {name} changed: it is not there any more (by DROP TABLE, or under another name)"
                self.lost(Loss(name, WHOLE, text))
        return [name for name in names if name in offered or name not in announced]

    def fitted(
        self, found: Iterable[SourceTable], announced: Mapping[str, Relation], followed: Mapping[str, SourceTable]
    ) -> list[SourceTable]:
        """The tables as they were announced; not those that cannot be copied as such any more."""
        fit = []
        for table in found:
            name = table.relation.name
            new = set(table.relation.names) - set(announced[name].names)
            self.new = self.new | {name} if new else self.new - {name}
            again = refitted(table, announced[name])
            if again is None:
                self.lost(Loss(name, WHOLE, changed(followed.get(name, announced[name]), table)))
                continue
            gone = {column.name for column in again.columns if not column.type_oid}
            for column in gone:
                self.lost(Loss(name, column, changed(followed.get(name, announced[name]), table)))
            self.keep(name, gone)
            fit.append(again)
        return fit

    def places(self, table: SourceTable, message: RelationMessage, ordinal: int, notes: Notes) -> Places | None:
        """As ``announce.places``; None for rows that are left out. What is lost goes to ``notes``."""
        name = table.relation.name
        if (name, WHOLE) in self._told:
            return None
        found = places(table, message)
        if {column.name for column in message.columns} - set(table.relation.names):
            self.new.add(name)
        if found is None or min(found, default=0) < 0:
            known, text = self.gone.get(name, {}), change(table, message)
            for column in self.lacking(table, found):
                notes.setdefault(known.get(column) or Loss(name, column, text), ordinal)
        return found

    def lacking(self, table: SourceTable, places: Places | None) -> list[str]:
        if places is None:
            return [WHOLE]
        return [column.name for column, place in zip(table.columns, places, strict=True) if place < 0]

    def copied(self, tables: Iterable[str]) -> Notes:
        """These tables are copied in a transaction (ordinal 0): so much of them is there."""
        names = set(tables)
        self._told = {told for told in self._told if told[0] not in names}
        there = [loss for loss in self.losses if loss.table in names]
        return dict.fromkeys([*(Loss(name, "") for name in sorted(names)), *there], 0)

    def rows(self, notes: Notes, held: Collection[str] = ()) -> Iterator[tuple[str, pa.Table]]:
        """The change table of what the log does not know yet, if there is anything; it knows now.

        ``held``: tables that the log has held before; of others there is nothing to say.
        """
        fresh = {
            n: at for n, at in notes.items() if (n.table, n.column) not in self._told and (n.column or n.table in held)
        }
        for loss in fresh:
            if loss.column:
                self.lost(loss)
                self._told.add((loss.table, loss.column))
        if fresh:
            order = sorted(fresh, key=lambda loss: (fresh[loss], loss.column != "", loss.table, loss.column))
            yield ALTERED.name, change_table(order, [fresh[loss] for loss in order])
