"""A project with one view whose steps are published by hand, written as the engine writes them; no engine runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.formats.types.arrow import to_arrow
from headrace.model.schema import Column, ViewSchema
from headrace.state.run import write_run

Row = tuple[Any, ...]


class PublishedView:
    """``columns``: name -> type. Rows are tuples in their order. ``started_us``: when it was, for times of steps."""

    def __init__(
        self, folder: Path, name: str, columns: dict[str, str], key: Sequence[str] = (), started_us: int = 0
    ) -> None:
        self.started_us = started_us
        self.folder, self.name, self.step, self.commit, self.version = folder, name, 0, 0, 1
        self.columns = tuple(Column(column, type) for column, type in columns.items())
        self.key = tuple(key)
        (folder / "views").mkdir(parents=True)
        (folder / "headrace.yaml").write_text("")
        (folder / "views" / f"{name}.sql").write_text("SELECT 1")
        (folder / ".headrace").mkdir()
        self.catalog = Catalog(folder / ".headrace/catalog.db")
        self.put_version(1)

    def put_version(self, version: int) -> None:
        self.version = version
        schema = ViewSchema(self.name, version, self.columns, self.key)
        self.catalog.put_view(ViewRecord(schema, "SELECT 1", f"f{version}", "live", "", self.commit))

    @property
    def feed(self) -> str:
        return f"{self.name}@{self.version}"

    def table(self, rows: Iterable[Row], weights: Iterable[int]) -> pa.Table:
        cells = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        arrays = [pa.array(list(c), to_arrow(column.type)) for c, column in zip(cells, self.columns, strict=True)]
        names = [f"c{place}" for place in range(len(arrays))]
        return pa.Table.from_arrays([*arrays, pa.array(list(weights), pa.int64())], names=[*names, "_w"])

    def publish(self, delta: Iterable[tuple[Row, int]]) -> int:
        """A step with (row, weight); its commit."""
        pairs = list(delta)
        return self.publish_table(self.table([row for row, _ in pairs], [weight for _, weight in pairs]))

    def publish_table(self, table: pa.Table) -> int:
        """A step with columns ``c0 ..`` and ``_w``; its commit."""
        self.step += 1
        self.commit += 10
        path = self.folder / ".headrace" / f"{self.step}.arrow"
        write_run(path, table)
        self.catalog.record_step(self.step, self.commit - 10, self.commit, StepShape(), 0)
        outputs = [Output(self.step, self.feed, str(path), table.num_rows, "")] if table.num_rows else []
        self.catalog.publish(self.step, outputs, self.started_us + self.step * 1_000)
        return self.commit

    def rebase(self, rows: Iterable[tuple[Row, int]], forget_steps: bool = False) -> None:
        """What the view holds becomes its base; with ``forget_steps`` all before the last step is forgotten."""
        pairs = list(rows)
        path = self.folder / ".headrace" / f"base{self.step}.arrow"
        write_run(path, self.table([row for row, _ in pairs], [weight for _, weight in pairs]))
        with self.catalog.transaction():
            self.catalog.put_base(self.feed, self.step, self.commit, [str(path)], len(pairs))
            if forget_steps:
                self.catalog.forget_outputs(self.feed, self.step - 1)
                self.catalog.forget_steps(self.step)
