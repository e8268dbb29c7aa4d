"""What followed tables have lost since they were announced: told in the log, in the transaction where it happens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.formats.types import arrow as arrow_types
from headrace.model.altered import ALTERED, WHOLE
from headrace.model.schema import Relation
from headrace.model.transaction import INSERT, OPERATION, ORDINAL
from headrace.sources.connectors.mysql import announce
from headrace.sources.connectors.mysql.introspect import SourceTable, refitted


@dataclass(frozen=True, slots=True)
class Loss:
    """A column (WHOLE: all of it) that a table does not have any more; none: the table is copied anew."""

    table: str
    column: str
    text: str = ""


class Altered:
    """``say``: hears of each loss once. ``gone``: what the tables lack now, by table and column."""

    def __init__(self, say: Callable[[Loss], None]) -> None:
        self._say = say
        self.gone: dict[str, dict[str, Loss]] = {}
        self.new: set[str] = set()  # tables that may have columns which were not announced

    def __bool__(self) -> bool:
        return bool(self.new or any(self.gone.values()))

    @property
    def losses(self) -> list[Loss]:
        return [loss for known in self.gone.values() for loss in known.values()]

    def left(self, relation: Relation) -> Relation:
        """The relation without the columns that are not there any more."""
        gone = self.gone.get(relation.name, {})
        return replace(relation, columns=tuple(c for c in relation.columns if c.name not in gone))

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
                self._lost(Loss(name, WHOLE, announce.gone(name, by)))
                continue
            if set(now.relation.names) - set(before.names):
                self.new.add(name)
            text = announce.changed(now, before, by)
            again = refitted(now, before)
            if again is None:
                self._lost(Loss(name, WHOLE, text))
                continue
            lacking = [column.name for column in again.columns if not column.column_type]
            for column in lacking:
                self._lost(Loss(name, column, text))
            self.gone[name] = {column: loss for column, loss in self.gone.get(name, {}).items() if column in lacking}
            fit.append(again)
        return fit

    def of(self, tables: Collection[str]) -> list[Loss]:
        """What these tables lack."""
        return [loss for loss in self.losses if loss.table in tables]

    def copied(self, tables: Collection[str], held: Collection[str]) -> list[Loss]:
        """What to tell with a copy: so much of the tables is there. Of tables that the log never held: nothing."""
        again = sorted(set(tables) & set(held))
        return [*(Loss(name, "") for name in again), *self.of(again)]

    def _lost(self, loss: Loss) -> None:
        known = self.gone.setdefault(loss.table, {})
        if loss.column not in known:
            known[loss.column] = loss
            self._say(loss)


def rows(losses: list[Loss], ordinal: int) -> Iterator[tuple[str, pa.Table]]:
    """The change table that tells of these in one transaction, if there are any."""
    if losses:
        values = [
            [ordinal] * len(losses), [INSERT] * len(losses), [loss.table for loss in losses],
            [loss.column for loss in losses], [loss.text for loss in losses],
        ]  # fmt: skip
        head = [pa.field(ORDINAL, pa.int32()), pa.field(OPERATION, pa.int8())]
        schema = pa.schema([*head, *arrow_types.schema(ALTERED.columns)])
        arrays = [pa.array(v, field.type) for v, field in zip(values, schema, strict=True)]
        yield ALTERED.name, pa.Table.from_arrays(arrays, schema=schema)
