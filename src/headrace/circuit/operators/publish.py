"""What leaves a circuit: the step's delta, the same bytes whenever it is made, checksummed and synced. No state.

Rows are consolidated and in canonical order. Of a circuit that keeps nothing, rows that only come are as they came:
nothing cancels, and their order is that of the changes, whatever else was done before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.circuit.flow import CHANGE, INSTANT, Flow, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.task import current, gathered, keep
from headrace.circuit.written import COLUMNS, Written, told
from headrace.model.delivery import WEIGHT
from headrace.state.phases import PUBLISH, phase
from headrace.state.rows import canonical, consolidate
from headrace.state.run import HASH, checksums, column
from headrace.state.sorting import stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

OUTPUT = "out:"


class Publish:
    """Writes the task's part of the delta and describes it in one row; nothing is written of an empty delta.

    ``consolidated``: the rows are so already. ``stateless``: the circuit keeps nothing, and its rows come in the order
    of the changes.
    """

    def __init__(self, circuit: str, *, durable: bool, consolidated: bool = False, stateless: bool = False) -> None:
        self.circuit, self.durable, self.consolidated, self.stateless = circuit, durable, consolidated, stateless

    @property
    def name(self) -> str:
        """Of its files."""
        return OUTPUT + self.circuit.replace("/", "_")

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        if self.stateless and int(column(table, WEIGHT).min()) > 0:
            table = pa.table({name: canonical(table[name]) for name in table.column_names})
        elif not self.consolidated:
            table = consolidate(table.drop_columns([HASH]) if HASH in table.column_names else table)
            order = stable_order(column(table, INSTANT))
            table = table.take(pa.array(order))
        if table.num_rows == 0:
            return
        with phase(PUBLISH):
            path = keep(current(), self.name, table)
            sums = checksums(Path(path), sync=self.durable) if self.durable else ""
        yield told([Written(self.circuit, path, table.num_rows, sums)])


def publish(builder: Builder, delta: Flow, *, durable: bool, stateless: bool = False) -> Flow:
    """A row of ``written`` for each file."""
    if builder.shape.wide:
        columns = [kept(n, t) for n, t in delta.columns]
        # Equal rows must meet to cancel; maps have no hash, so those meet in one task.
        hashed = [
            c for c in columns if (c.name, c.type) not in CHANGE and "map<" not in c.type and "variant" not in c.type
        ]
        delta = builder.gather(delta.select([group_hash(hashed), *columns]))
    else:
        delta = builder.alone(delta)
    in_order = stateless and not builder.shape.wide
    return delta.then(Publish(builder.circuit, durable=durable, stateless=in_order), COLUMNS)
