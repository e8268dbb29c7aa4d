"""Tables whose copy is under way, and the changes that are kept for the moment when it is revealed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.sources.change_tables import inserts
from headrace.sources.connectors.postgres import changes
from headrace.sources.connectors.postgres.form import Form
from headrace.sources.connectors.postgres.pgoutput import Integers
from headrace.sources.connectors.postgres.snapshot import Snapshot
from headrace.sources.connectors.postgres.stream import lsn_text
from headrace.sources.connectors.postgres.streamed import OnDisk


@dataclass(slots=True)
class Loading:
    """A copy of some tables with the row messages that came for them meanwhile."""

    snapshot: Snapshot
    forms: Mapping[int, Form]  # before the copy, by oid
    messages: list[bytes] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    final_lsns: list[int] = field(default_factory=list)  # of each message's transaction

    def whole(
        self, point: int, contents: Mapping[str, pa.Table], held: Collection[str],
        layout: Callable[[Integers], changes.Layout],
    ) -> dict[str, pa.Table]:  # fmt: skip
        """The tables as one transaction: ``contents``, and what came since ``point``, in place of what was ``held``."""
        tables = {
            t.relation.name: inserts(t.relation, contents[t.relation.name], emptied=t.relation.name in held)
            for t in self.snapshot.tables
        }
        for name, table in self.since(point, contents, layout).items():
            tables[name] = pa.concat_tables([tables[name], table], promote_options="default")
        return tables

    def since(
        self, point: int, contents: Mapping[str, pa.Table], layout: Callable[[Integers], changes.Layout]
    ) -> dict[str, pa.Table]:
        """The changes by transactions from ``point`` on, which the copy does not hold, as one transaction (ordinal 0).

        Raises ``HeadraceError`` as ``changes.decode`` does.
        """
        later = [number for number, lsn in enumerate(self.final_lsns) if lsn >= point]
        if not later:
            return {}
        relations = {table.oid: table.relation for table in self.snapshot.tables}
        epochs = np.asarray([self.epochs[number] for number in later], dtype=np.int64)
        try:
            found = changes.decode(
                [self.messages[number] for number in later],
                np.arange(len(later)),  # only to name the LSN in an error
                relations,
                lambda ordinal: lsn_text(self.final_lsns[later[ordinal]]),
                layout(epochs),
                lambda relation, keys: contents[relation.name],
            )
        except changes.RefusedTransaction as refused:
            raise refused.error from refused
        return {
            name: table.set_column(0, table.schema.field(0), pa.array(np.zeros(table.num_rows, dtype=np.int32)))
            for name, table in found.items()
        }


def picked(messages: Sequence[bytes], numbers: Sequence[int]) -> Sequence[bytes]:
    """The messages of these numbers, which rise; those on disk stay there."""
    if isinstance(messages, OnDisk):
        return messages.chosen(numbers)
    return [messages[number] for number in numbers]


def set_aside(
    loadings: Sequence[Loading],
    followed: Collection[int],
    messages: Sequence[bytes],
    ordinals: Integers,
    epochs: Integers,
    final_lsns: Sequence[int],
) -> list[int]:
    """Keep the messages of loading tables for their reveal; the numbers of those that are to be delivered now.

    A table that is copied anew has both: it goes on until the copy takes its place.
    """
    at = changes.HEADER + 1
    target = {oid.to_bytes(4, "big"): loading for loading in loadings for oid in loading.forms}
    silent = target.keys() - {oid.to_bytes(4, "big") for oid in followed}
    rest = []
    for number, message in enumerate(messages):
        oid = message[at : at + 4]
        loading = target.get(oid)
        if loading is not None:
            loading.messages.append(message)
            loading.epochs.append(int(epochs[number]))
            loading.final_lsns.append(final_lsns[ordinals[number]])
        if oid not in silent:
            rest.append(number)
    return rest
