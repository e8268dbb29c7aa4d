"""Goal: small transactions that follow each other closely are polled together; one alone, many rows, and those whose
clients wait for an answer are not waited for.

Method: a real log, the thread's own moves one by one, a source that gives the batches of the case; no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.engine.ingest import GATHER_S, GATHERED_ROWS, Ingest
from headrace.log.append import LogWriter
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources.base import Source


class Given(Source):
    """The batches that it was made with, one a poll: of so many transactions, each of so many rows."""

    name = "given"

    def __init__(self, sizes: Sequence[tuple[int, int]]) -> None:
        self._sizes = iter(sizes)

    def relations(self) -> tuple[Relation, ...]:
        return ()

    def start(self, tables: frozenset[str], position: str | None) -> None: ...

    def add(self, tables: frozenset[str]) -> None: ...

    def poll(self, wait_s: float) -> TransactionBatch | None:
        transactions, rows = next(self._sizes, (0, 0))
        if not transactions:
            return None
        of = [at for at in range(transactions) for _ in range(rows)]
        table = pa.table({"_t": pa.array(of, pa.int32()), "_op": pa.array([0] * len(of), pa.int8()), "n": pa.array(of)})
        return TransactionBatch(
            tuple(TransactionOrigin(self.name, str(at), 0) for at in range(transactions)), {"t": table}
        )

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None: ...

    def close(self) -> None: ...


class Pushed(Given):
    """Its clients get their own answers."""

    def reject(self, batch: TransactionBatch, error: Exception) -> None: ...


@pytest.mark.parametrize(
    ("source", "transactions", "rows", "rests_s"),
    [
        (Given, 4, 5, GATHER_S),
        (Given, 2, 1, GATHER_S),
        (Given, 1, 5, 0.0),  # one alone: the next is not there, and whoever writes it may wait for this one
        (Given, 2, GATHERED_ROWS // 2, 0.0),
        (Given, 2, GATHERED_ROWS // 2 - 1, GATHER_S),
        (Pushed, 4, 5, 0.0),
    ],
)
def test_what_comes_close_together_gathers(
    tmp_path: Path, source: type[Given], transactions: int, rows: int, rests_s: float
) -> None:
    with LogWriter(tmp_path / "log") as log:
        ingest = Ingest(source([(transactions, rows)]), log, frozenset({"t"}), lambda event: None)
        assert ingest.turn() == rests_s
        assert (log.end, ingest.rows) == (transactions, transactions * rows)
        assert ingest.turn() == 0.0  # nothing came: the poll itself has waited
        assert ingest.caught_up.is_set()
