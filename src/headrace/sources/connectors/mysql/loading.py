"""Tables whose copy is under way, and the changes that are kept for the moment when it is revealed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.model import transaction as model
from headrace.sources.connectors.mysql import changes
from headrace.sources.connectors.mysql.introspect import SourceTable
from headrace.sources.connectors.mysql.position import Place
from headrace.sources.connectors.mysql.snapshot import Snapshot
from headrace.sources.connectors.mysql.stream import Transaction

_KEEPS_ORDER = pa.int32()


@dataclass(slots=True)
class Loading:
    """A copy of some tables with the changes that came for them meanwhile."""

    snapshot: Snapshot
    rows: list[changes.Rows] = field(default_factory=list)
    ends: list[Place] = field(default_factory=list)  # of each change's transaction

    @property
    def tables(self) -> Mapping[tuple[str, str], SourceTable]:
        return {table.place: table for table in self.snapshot.tables}

    def since(self, decoder: changes.Decoder) -> dict[str, pa.Table]:
        """The changes that the copy does not hold, as one transaction (ordinal 0). Raises as ``Decoder`` does."""
        later = [number for number, end in enumerate(self.ends) if end > self.snapshot.point]
        if not later:
            return {}
        try:
            found = decoder.decode(
                [self.rows[number] for number in later],
                range(len(later)),  # only to name the place in an error
                self.tables,
                lambda ordinal: str(self.ends[later[ordinal]]),
            )
        except changes.RefusedTransaction as refused:
            raise refused.error from refused
        return {name: _as_one(table) for name, table in found.items()}


def _as_one(table: pa.Table) -> pa.Table:
    zeros = pa.array(np.zeros(table.num_rows, dtype=np.int32), _KEEPS_ORDER)
    return table.set_column(table.schema.get_field_index(model.ORDINAL), table.schema.field(0), zeros)


def set_aside(
    loadings: Sequence[Loading], silent: Collection[tuple[str, str]], transactions: Sequence[Transaction]
) -> tuple[list[changes.Rows], list[int]]:
    """Keep the changes of loading tables for their reveal; (those to be delivered now, the transaction of each).

    A table that is copied anew has both, unless it is ``silent``: it goes on until the copy takes its place.
    """
    target = {place: loading for loading in loadings for place in loading.tables}
    rest: list[changes.Rows] = []
    ordinals: list[int] = []
    for ordinal, transaction in enumerate(transactions):
        for rows in transaction.rows:
            loading = target.get(rows.place)
            if loading is not None:
                loading.rows.append(rows)
                loading.ends.append(transaction.end)
            if rows.place not in silent:
                rest.append(rows)
                ordinals.append(ordinal)
    return rest, ordinals
