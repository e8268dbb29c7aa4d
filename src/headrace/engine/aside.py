"""Views that go on without the rows that their SQL throws on: `-- on_error: set_aside`.

Such a view's leaves leave out the rows of a file that the engine gives to each step; a row is known by all its values,
and goes in all its copies. What it lacks is kept by step, so that a step that runs again lacks the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from headrace.catalog.aside import AsideRow
from headrace.catalog.store import Catalog, Output
from headrace.circuit.build import TABLE
from headrace.circuit.node import Feed
from headrace.circuit.operators.feed import ASIDE
from headrace.engine.compile import Compiled
from headrace.engine.culprits import Found
from headrace.engine.disk import refusal
from headrace.engine.failures import Failed, Scene, view_of, weights
from headrace.engine.kept import Kept
from headrace.engine.step import CircuitFailed
from headrace.model.delivery import WEIGHT
from headrace.serve import snapshot
from headrace.state.run import write_run

if TYPE_CHECKING:
    from headrace.engine.maintain import Maintainer

FOLDER = "aside"
ROWS_MAX = 1000  # of one view: with more it is a wrong query, and stops
T = TypeVar("T")


class Aside:
    """What views lack. Belongs to the engine's thread."""

    def __init__(
        self, folder: Path, catalog: Catalog, kept: Kept, tell: Callable[[dict[str, Any]], None], wide_rows: int
    ) -> None:
        self.folder, self.catalog, self.kept, self.tell, self.wide_rows = (
            folder / FOLDER,
            catalog,
            kept,
            tell,
            wide_rows,
        )
        self.rows: list[AsideRow] = catalog.aside_rows()
        self.changed = False
        # Files are made of those rows when they are needed, and never synced: a power cut may have torn them.
        for path in self.folder.glob("*.arrow"):
            path.unlink()

    # -- what a step lacks ----------------------------------------------------------------------------------

    def give(self, step: int, anew: Iterable[str] = ()) -> None:
        """Give the next jobs what views lack in ``step``; those ``anew`` lack what was found for them in it alone."""
        fresh = set(anew)
        parts: dict[str, list[AsideRow]] = {}
        for row in self.rows:
            there = row.since <= step and (row.until is None or step <= row.until)
            if there and (row.view not in fresh or row.since == step):
                parts.setdefault(f"{row.view}:{name_of(row.feed)}", []).append(row)
        self.kept.beside = {ASIDE + name: [self.written(rows, step)] for name, rows in parts.items()}

    def written(self, rows: Sequence[AsideRow], step: int) -> str:
        """A file with these rows; ``_w``: what the view takes of each in this step, beside leaving it out."""
        back = [-row.held if row.since == step else 0 for row in rows]
        digest = hashlib.blake2b(repr(back).encode(), digest_size=12)
        for row in rows:
            digest.update(row.content)
        path = self.folder / f"{digest.hexdigest()}.arrow"
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            table = pa.concat_tables([read(row.content) for row in rows])
            write_run(path, table.append_column(WEIGHT, pa.array(back, pa.int64())))
        return str(path)

    def of(self, view: str) -> dict[str, pa.Table]:
        """Table or view -> its rows that a view lacks now, ``c0 ..``."""
        return by_relation(row for row in self.rows if row.view == view and row.until is None)

    # -- rows are set aside ---------------------------------------------------------------------------------

    def take(self, failure: CircuitFailed, views: Mapping[str, Compiled], columns: Mapping[str, Sequence[str]],
             number: int, commit: int) -> bool:  # fmt: skip
        """Set aside what made a step throw, where the view says so; whether the step can run again without."""
        scene = Scene.of(failure)
        owner = next((name for circuit in scene.circuits if circuit.root is not None
                      for name in (owner_of(leaf) for leaf in circuit.root.walk()) if name), "")  # fmt: skip
        compiled = views.get(owner)
        if compiled is None or sum(row.view == owner and row.until is None for row in self.rows) >= ROWS_MAX:
            return False
        found = scene.search(self.wide_rows)
        if found.cause is None or found.alone or not found.culprits:
            return False
        self.add(compiled, found, columns, number, commit, whole=scene.step.whole)
        self.give(number, [owner] if scene.step.whole else ())
        return True

    def add(self, compiled: Compiled, found: Found, columns: Mapping[str, Sequence[str]], number: int, commit: int,
            *, whole: bool) -> None:  # fmt: skip
        """``whole``: the rows are those of all contents, else of a step's delta."""
        view, version = compiled.schema.name, compiled.schema.version
        chosen = {c.together: c for c in reversed(found.culprits)}  # of rows that throw together one
        place = max((r.place for r in self.rows if (r.view, r.commit) == (view, commit)), default=0)
        for culprit in chosen.values():
            place += 1
            entry = Failed(compiled, commit).entry(culprit, columns[culprit.feed])
            held = 0 if whole else self.copies(entry.content, culprit.feed, number)
            weight = entry.weight if whole else held
            self.rows.append(AsideRow(view, version, place, culprit.feed, entry.content, entry.shown, weight, held,
                                      entry.message, commit, number))  # fmt: skip
            self.tell({
                "event": "view.quarantined", "view": view, "commit": commit, "row": entry.shown,
                "reason": entry.message, "id": self.rows[-1].id,
            })  # fmt: skip
        self.changed = True

    def copies(self, content: bytes, feed: str, number: int) -> int:
        """How many copies of a row a feed had before step ``number``."""
        paths = self.kept.paths().get(TABLE + feed)
        if paths is None:
            paths = snapshot.files(self.catalog, feed, number - 1)[0] if "@" in feed else []
        return weights([content], paths)[0] if paths else 0

    def going_on(
        self, compiled: Compiled, columns: Mapping[str, Sequence[str]], number: int, commit: int, work: Callable[[], T]
    ) -> T:
        """``work`` builds a view anew, for step ``number``: again without the rows that it throws on, if it may."""
        view = compiled.schema.name
        before = self.rows
        self.rows = [row for row in before if row.view != view or row.until is not None]
        self.give(number, [view])
        try:
            while True:
                try:
                    return work()
                except CircuitFailed as failure:
                    if refusal(failure, self.catalog.folder) or not self.take(
                        failure, {view: compiled}, columns, number, commit
                    ):
                        raise
        except BaseException:
            self.rows = before
            raise
        finally:
            self.changed = self.changed or self.rows != before
            self.give(number)

    # -- steps ----------------------------------------------------------------------------------------------

    def move(self, number: int, outputs: Sequence[Output]) -> None:
        """Take a step's deltas: copies of rows that were set aside come and go. One without copies is there no more."""
        for feed in {row.feed for row in self.rows if row.until is None}:
            paths = [output.path for output in outputs if output.feed == feed]
            places = [i for i, row in enumerate(self.rows) if row.feed == feed and row.until is None]
            if paths:
                for i, by in zip(places, weights([self.rows[i].content for i in places], paths), strict=True):
                    weight = self.rows[i].weight + by
                    self.rows[i] = replace(self.rows[i], weight=weight, until=None if weight > 0 else number)
                    self.changed = self.changed or by != 0

    def reread(self, step: int) -> None:
        """Between two steps: what the catalogue has is what views lack in the next, ``step``."""
        self.rows, self.changed = self.catalog.aside_rows(), False
        self.give(step)

    def save(self) -> None:
        """In the transaction that publishes a step."""
        if self.changed:
            self.catalog.put_aside_rows(self.rows)
            self.changed = False

    def keep_only(self, views: Mapping[str, int], checkpoint: int) -> None:
        """Of these versions, and of steps that may run again."""
        left = [r for r in self.rows if views.get(r.view) == r.version and (r.until is None or r.until > checkpoint)]
        self.changed = self.changed or left != self.rows
        self.rows = left
        self.save()
        needed = {path for paths in self.kept.beside.values() for path in paths}
        for path in self.folder.glob("*.arrow"):
            if str(path) not in needed:
                path.unlink()


def build_again(maintainer: Maintainer, views: set[str]) -> None:
    """Somebody asks: these views are built anew over what they read now, in one step with those that read them."""
    feeds = [compiled.feed for name, compiled in maintainer.views.items() if name in views]
    failures, program, text = maintainer.failures, maintainer.program, "it is being built again"
    maintainer.without(failures.doubt(feeds, program, maintainer.views, text, maintainer.frontier))
    maintainer.mark("retry")
    while maintainer.step():
        pass


def by_relation(rows: Iterable[AsideRow]) -> dict[str, pa.Table]:
    """Table or view -> these rows of it, ``c0 ..``."""
    found: dict[str, list[pa.Table]] = {}
    for row in rows:
        found.setdefault(name_of(row.feed), []).append(read(row.content))
    return {name: pa.concat_tables(tables) for name, tables in found.items()}


def owner_of(leaf: Any) -> str:
    """The view that a leaf leaves rows out for."""
    return leaf.without.partition(":")[0] if isinstance(leaf, Feed) and leaf.without else ""


def name_of(feed: str) -> str:
    """A feed as views name it."""
    return view_of(feed) or feed


def read(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
