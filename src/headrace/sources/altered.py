"""What followed tables have lost since they were announced, for sources that tell it in the log where it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.formats.types import arrow as arrow_types
from headrace.model.altered import ALTERED
from headrace.model.schema import Relation
from headrace.model.transaction import INSERT, OPERATION, ORDINAL


@dataclass(frozen=True, slots=True)
class Loss:
    """A column (WHOLE: all of it) that a table does not have any more; none: the table is copied anew."""

    table: str
    column: str
    text: str = ""


class Losses:
    """``say``: hears of each loss once. ``gone``: what the tables lack now, by table and column."""

    def __init__(self, say: Callable[[Loss], None]) -> None:
        self.say = say
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

    def lost(self, loss: Loss) -> None:
        known = self.gone.setdefault(loss.table, {})
        if loss.column not in known:
            known[loss.column] = loss
            self.say(loss)

    def keep(self, table: str, columns: Iterable[str]) -> None:
        """The table lacks no others than these now."""
        lacking = set(columns)
        self.gone[table] = {column: loss for column, loss in self.gone.get(table, {}).items() if column in lacking}


def change_table(losses: Sequence[Loss], ordinals: Sequence[int]) -> pa.Table:
    """The changes of the relation ALTERED that tell of these, each in the transaction of its ordinal."""
    values = [
        ordinals, [INSERT] * len(losses), [loss.table for loss in losses],
        [loss.column for loss in losses], [loss.text for loss in losses],
    ]  # fmt: skip
    head = [pa.field(ORDINAL, pa.int32()), pa.field(OPERATION, pa.int8())]
    schema = pa.schema([*head, *arrow_types.schema(ALTERED.columns)])
    return pa.Table.from_arrays([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema)
