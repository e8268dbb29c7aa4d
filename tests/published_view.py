"""A view as the engine publishes it, written by hand: a catalogue, and files of steps."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.serve import past
from headrace.state.run import write_run

SCHEMA = ViewSchema("sums", 1, (Column("id", "bigint"), Column("n", "bigint")), ("id",))
Rows = Counter[tuple[int, int]]


class Published:
    """A project with a view; ``held[n]``: what it holds after commit n."""

    def __init__(self, folder: Path, created: int = 0) -> None:
        self.folder, self.state = folder, folder / ".headrace"
        (folder / "views").mkdir(parents=True)
        (folder / "headrace.yaml").write_text("")
        (folder / "views/sums.sql").write_text("SELECT 1")
        self.state.mkdir()
        self.catalog = Catalog(self.state / "catalog.db")
        self.catalog.put_view(ViewRecord(SCHEMA, "SELECT 1", "f", "live", "", created))
        self.number, self.upto, self.held = 0, 0, [Rows()]

    def changes(self, rng: random.Random) -> Rows:
        """What one commit changes."""
        held = self.held[-1]
        delta = Rows()
        for row in rng.sample(sorted(held), min(len(held), rng.randrange(3))):
            delta[row] -= 1
        for _ in range(rng.randrange(3)):
            delta[rng.randrange(9), rng.randrange(5)] += 1
        self.held.append(Rows({row: n for row in {*held, *delta} if (n := held[row] + delta[row])}))
        return delta

    def step(self, deltas: list[Rows], *, each: bool = False, folder: str = "") -> None:
        """A step over as many commits as there are ``deltas``."""
        self.number += 1
        after, self.upto = self.upto, self.upto + len(deltas)
        rows = [
            (r, instant if each else 1, n) for instant, delta in enumerate(deltas, 1) for r, n in delta.items() if n
        ]
        place = self.state / (folder or "steps")
        place.mkdir(exist_ok=True)
        path = place / f"{self.number}.arrow"
        write(path, rows)
        self.catalog.record_step(self.number, after, self.upto, StepShape(each=each), 0)
        outputs = [Output(self.number, self.catalog.views()["sums"].feed, str(path), len(rows), "")] if rows else []
        self.catalog.publish(self.number, outputs, 1)

    def base(self) -> None:
        """What it holds becomes its base; the deltas stay for who asks for earlier contents."""
        path = self.state / f"base{self.number}.arrow"
        write(path, [(row, 0, n) for row, n in self.held[self.upto].items()])
        self.catalog.put_base(
            self.catalog.views()["sums"].feed, self.number, self.upto, [str(path)], len(self.held[self.upto])
        )

    def at(self, commit: int) -> Rows:
        found, schema, rows = past.contents(self.folder, "sums", commit, None)
        assert (found, schema) == (commit, SCHEMA)
        return Rows({(r["id"], r["n"]): r["_w"] for r in rows.to_pylist()})

    def refused(self, commit: int) -> HeadraceError:
        with pytest.raises(HeadraceError) as caught:
            past.contents(self.folder, "sums", commit, None)
        return caught.value


class Versions(Published):
    """Whose view may be swapped for another version, and whose past is forgotten."""

    def swap(self) -> None:
        """The next version, with its rows moved up by 100, at the present commit."""
        version = self.catalog.views()["sums"].schema.version + 1
        rows = Rows({(id, n + 100): count for (id, n), count in self.held[self.upto].items()})
        path = self.state / f"base{self.number}.{version}.arrow"
        write(path, [(row, 0, count) for row, count in rows.items()])
        with self.catalog.transaction():
            self.catalog.put_base(f"sums@{version}", self.number, self.upto, [str(path)], len(rows))
            schema = ViewSchema("sums", version, SCHEMA.columns, SCHEMA.key)
            self.catalog.put_view(ViewRecord(schema, "SELECT 1", "f", "live", "", self.upto))
            self.held[self.upto] = rows

    def forget(self, kept: int) -> None:
        """All but the last steps, with their deltas that a base holds."""
        feed, before = self.catalog.views()["sums"].feed, self.number - kept + 1
        base = self.catalog.base(feed)
        if base is not None:
            with self.catalog.transaction():
                self.catalog.forget_outputs(feed, min(base[0], before - 1))
                self.catalog.forget_steps(before)


def write(path: Path, rows: list[tuple[tuple[int, int], int, int]]) -> None:
    columns = {
        "c0": pa.array([r[0] for r, _, _ in rows], pa.int64()),
        "c1": pa.array([r[1] for r, _, _ in rows], pa.int64()),
        "_i": pa.array([i for _, i, _ in rows], pa.int32()),
        "_w": pa.array([n for _, _, n in rows], pa.int64()),
    }
    write_run(path, pa.table(columns))
