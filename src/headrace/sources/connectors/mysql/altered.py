"""What followed tables have lost since they were announced: told in the log, in the transaction where it happens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from headrace.model.altered import ALTERED, WHOLE
from headrace.model.schema import Relation
from headrace.sources.altered import Loss, Losses, change_table
from headrace.sources.connectors.mysql import announce
from headrace.sources.connectors.mysql.introspect import SourceTable, refitted


class Altered(Losses):
    """Told by the statements that the log holds."""

    def fitted(
        self, wanted: Iterable[str], offered: Mapping[str, SourceTable], announced: Mapping[str, Relation], by: str
    ) -> list[SourceTable]:
        """The tables as they were announced; not those that cannot be followed as such any more.

        ``by``: the statement that altered them, when it is known.
        """
        fit = []
        for name in wanted:
            before, now = announced[name], offered.get(name)
            if now is None:
                self.lost(Loss(name, WHOLE, announce.gone(name, by)))
                continue
            if set(now.relation.names) - set(before.names):
                self.new.add(name)
            text = announce.changed(now, before, by)
            again = refitted(now, before)
            if again is None:
                self.lost(Loss(name, WHOLE, text))
                continue
            lacking = [column.name for column in again.columns if not column.column_type]
            for column in lacking:
                self.lost(Loss(name, column, text))
            self.keep(name, lacking)
            fit.append(again)
        return fit

    def of(self, tables: Collection[str]) -> list[Loss]:
        """What these tables lack."""
        return [loss for loss in self.losses if loss.table in tables]

    def copied(self, tables: Collection[str], held: Collection[str]) -> list[Loss]:
        """What to tell with a copy: so much of the tables is there. Of tables that the log never held: nothing."""
        again = sorted(set(tables) & set(held))
        return [*(Loss(name, "") for name in again), *self.of(again)]


def rows(losses: list[Loss], ordinal: int) -> Iterator[tuple[str, pa.Table]]:
    """The change table that tells of these in one transaction, if there are any."""
    if losses:
        yield ALTERED.name, change_table(losses, [ordinal] * len(losses))
