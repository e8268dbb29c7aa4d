"""Views whose SQL throws on some row: out of the consistent set, their error deltas, and when they are tried again.

A failed view is rebuilt from what it reads, so it holds back no state and no merge. Its error delta is the
multiset of rows that it throws on, each with its weight. The deltas of what it reads are taken from it in every
step; the step that leaves nothing of it builds the view again, and publishes it with the others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.store import Catalog, ErrorRow, Output, ViewRecord
from headrace.circuit.task import Step
from headrace.engine.compile import Compiled
from headrace.engine.culprits import Culprit, Found, Search
from headrace.engine.deadly import ENDED
from headrace.engine.program import Circuit, Program
from headrace.engine.step import CircuitFailed, Stepper
from headrace.engine.unroll import feeds_of
from headrace.formats.types.spelled import value
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.serve.snapshot import failing
from headrace.sql.errors import java_cause
from headrace.state.rows import consolidate, row_codes
from headrace.state.run import HASH, column, open_run

# A row may also be put right through another input (the dimension that gave it its zero), which its own weight does
# not tell; finding out costs a rebuild. So it is tried only after what the view reads has changed, after a pause that
# doubles with every vain attempt and is never shorter than SHARE attempts take: a tenth of the engine's time at most.
PAUSE_S, PAUSE_MAX_S, SHARE = 1.0, 600.0, 10
SHOWN_MAX = 3  # rows that a sentence names; `--json` has them all
TEXT_MAX = 200  # characters of a row in a sentence
MISMATCH = "state.mismatch"
BACK = "the view comes back by itself"
_ADVICE = re.compile(r' If necessary set "spark\.sql\.ansi\.enabled" to "false" to bypass this error\.')


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a view threw: its circuits (shared sub-queries first), and what they ran over."""

    stepper: Stepper
    circuits: Sequence[Circuit]
    step: Step

    @classmethod
    def of(cls, failure: CircuitFailed) -> Scene:
        shared = shared_below(failure.stepper.program, failure.circuit)
        return cls(failure.stepper, [*shared, failure.circuit], failure.step)

    def search(self, wide_rows: int) -> Found:
        """The rows of what it reads that make it throw."""
        names = {name for circuit in self.circuits for name in circuit.inputs} - {c.name for c in self.circuits}
        rows = {name: _whole(self.step.feeds[name]) for name in sorted(names) if self.step.feeds.get(name)}

        def attempt(chosen: Mapping[str, list[pa.Table]]) -> Exception | None:
            count = sum(table.num_rows for tables in chosen.values() for table in tables)
            return self.stepper.attempt(self.circuits, self.step, chosen, wide=count >= wide_rows)

        return Search(attempt, rows).run()


@dataclass
class Failed:
    """A failed view. ``held``: the last commit that its contents hold; ``rows``: its error delta, never empty.

    ``ready``: no row is known that still keeps it from working; ``changed``: what it reads has changed since it
    was last tried; ``vain``: attempts that failed, and ``misled`` those of them made though no bad row was known;
    ``scene``: where its rows are to be searched; ``lost``: what has become of a table whose columns it reads, which
    keeps it from working until they are there.
    """

    compiled: Compiled
    held: int
    rows: list[ErrorRow] = field(default_factory=list)
    ready: bool = False
    changed: bool = False
    vain: int = 0
    misled: int = 0
    wait_until: float = 0.0
    scene: Scene | None = None
    told: bool = False
    lost: str = ""

    @property
    def named(self) -> bool:
        return any(row.content for row in self.rows)

    def due(self, now: float) -> bool:
        """Whether to build it again: at once when its last bad row goes, and after the pause."""
        return not self.lost and self._due(now)

    def _due(self, now: float) -> bool:
        return (self.ready and self.misled == 0) or ((self.ready or self.changed) and now >= self.wait_until)

    def tried(self, took_s: float, failure: CircuitFailed) -> None:
        """It was built again in vain. What is known of its rows stays; where nothing is known, it is searched."""
        pause = min(PAUSE_S * 2**self.vain, PAUSE_MAX_S)
        self.wait_until = time.monotonic() + max(pause, SHARE * took_s)
        self.vain += 1
        self.misled += self.ready
        self.ready = self.changed = False
        if not self.named:
            self.scene, self.told = Scene.of(failure), False
            self.rows = [unnamed(self.held, message(failure.cause))]

    def found(self, found: Found, columns: Mapping[str, Sequence[str]]) -> None:
        """What the search has found in its scene."""
        self.scene = None
        if found.cause is None:  # nothing throws any more: it was no row
            self.ready = True
            return
        self.rows = [self.entry(culprit, columns[culprit.feed]) for culprit in found.culprits]
        if not found.complete:
            self.rows.append(unnamed(self.held, message(found.cause)))
        self.ready = False

    def entry(self, culprit: Culprit, names: Sequence[str]) -> ErrorRow:
        stored = [f"c{i}" for i in range(len(names))]
        row = culprit.row.select(stored).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, row.schema) as writer:
            writer.write_table(row)
        values = {name: value(row[c][0].as_py()) for name, c in zip(names, stored, strict=True)}
        of = {"table": culprit.feed} if culprit.feed in self.compiled.reads else {"view": view_of(culprit.feed)}
        shown = orjson.dumps({**of, "row": values}).decode()
        weight = int(column(culprit.row, WEIGHT)[0])
        content = sink.getvalue().to_pybytes()
        return ErrorRow(culprit.feed, culprit.together, content, shown, weight, self.held, message(culprit.cause))


class Failures:
    """All failed views. Belongs to the engine's thread."""

    def __init__(self, catalog: Catalog, tell: Callable[[dict[str, Any]], None]) -> None:
        self.catalog, self.tell = catalog, tell
        self.records: dict[str, ViewRecord] = {}
        self.known: dict[str, Failed] = {}  # upstream first; a failed view whose text no longer compiles is not there

    def take(
        self, records: Mapping[str, ViewRecord], views: Mapping[str, Compiled], lost: Callable[[Compiled], str]
    ) -> None:
        """At a start: the views that the catalogue has as failed. ``views``: all that compile, upstream first.

        Each is tried once after the pause: whether what it reads has changed since it was tried is not kept.
        """
        self.records.update({n: r for n, r in records.items() if r.state == "failed"})
        for name, compiled in views.items():
            record = self.records.get(name)
            if record is not None and compiled.schema.version == record.schema.version:
                rows = self.catalog.error_rows(name, record.schema.version)
                failed = Failed(compiled, rows[0].held if rows else 0, rows, changed=True, told=True)
                failed.ready, failed.lost = not failed.named, lost(compiled)
                failed.wait_until = time.monotonic() + PAUSE_S
                self.known[name] = failed

    def reads(self) -> set[str]:
        """The feeds that failed views read: their tables are kept up, since error deltas follow them."""
        return {feed for failed in self.known.values() for feed in feeds_of(failed.compiled.root)}

    def holds(self, compiled: Compiled) -> bool:
        """Whether this very version has failed and is looked after here."""
        failed = self.known.get(compiled.schema.name)
        return failed is not None and failed.compiled.schema.version == compiled.schema.version

    def add(self, record: ViewRecord, failed: Failed) -> None:
        self.records[record.schema.name], self.known[record.schema.name] = record, failed

    def shelve(self, name: str) -> None:
        """A failed view cannot be compiled any more: it is not tried again until it is edited."""
        self.known.pop(name, None)

    def forget(self, names: Iterable[str]) -> None:
        """Views that were dropped, or are back."""
        for name in list(names):
            self.records.pop(name, None)
            self.known.pop(name, None)

    def doubt(
        self, feeds: Iterable[str], program: Program, views: Mapping[str, Compiled], text: str, held: int
    ) -> set[str]:
        """The views that go with those of which what they hold is doubted: a step gave other rows than it published,
        before a crash; or somebody wants them tried with all rows.

        What they keep is not to be trusted, nor what they share, nor those that read it: all are built again at once.
        ``held``: the last commit published, which their contents hold.
        """
        doubted = [c for c in program.circuits if c.name in set(feeds)]
        gone = program.downstream(c.name for d in doubted for c in (d, *shared_below(program, d)))
        records = self.catalog.views()
        leaving = {n: c for n, c in views.items() if c.feed in gone}
        for name, compiled in leaving.items():
            above = next((r for r in compiled.reads if r in leaving), "")
            self.add(records[name], Failed(compiled, held, [unnamed(held, text, above)], ready=True))
            self.save(name)
        return set(leaving)

    def stop(
        self, program: Program, views: Mapping[str, Compiled], lost: Callable[[Compiled], str], held: int
    ) -> set[str]:
        """The views that go with what tables have lost. What failed views wait for is found anew."""
        gone = program.downstream(c.feed for c in views.values() if lost(c))
        records = self.catalog.views()
        leaving = {n: c for n, c in views.items() if c.feed in gone}
        for name, compiled in leaving.items():
            self.add(records[name], Failed(compiled, held, told=False))
        for name, failed in self.known.items():
            before, failed.lost = failed.lost, lost(failed.compiled)
            if failed.lost or before or name in leaving:
                above = "" if failed.lost else next((r for r in failed.compiled.reads if r in self.known), "")
                failed.rows, failed.scene = [unnamed(failed.held, failed.lost, above)], None
                failed.ready, failed.misled, failed.told = not failed.lost, 0, failed.told and not failed.lost
                self.save(name)
        return set(leaving)

    def leave(self, failure: CircuitFailed, views: Mapping[str, Compiled]) -> set[str]:
        """The views that go with a circuit that threw in a step; they stay as they were, marked.

        Those that contain the circuit are searched after the step; those that read such a view wait for it.
        """
        gone = failure.stepper.program.downstream([failure.circuit.name])
        scene = Scene.of(failure)
        records = self.catalog.views()
        leaving = {n: c for n, c in views.items() if c.feed in gone}
        for name, compiled in leaving.items():
            failed = Failed(compiled, failure.step.after, wait_until=time.monotonic() + PAUSE_S)
            above = next((r for r in compiled.reads if r in leaving), None)
            if above is None:
                failed.scene, failed.rows = scene, [unnamed(failed.held, message(failure.cause))]
            else:
                failed.rows, failed.ready = [unnamed(failed.held, "", above)], True
            self.add(records[name], failed)
            self.save(name)
        return set(leaving)

    def save(self, name: str) -> None:
        """The view's error delta and the sentence that tells it, durable."""
        failed, version = self.known[name], self.records[name].schema.version
        with self.catalog.transaction():
            self.catalog.set_view_state(name, version, "failed", self.reason(name))
            self.catalog.put_error_rows(name, version, failed.rows)

    def reason(self, name: str, failing: Mapping[str, Failed] | None = None) -> str:
        """Why a view is failed, in one sentence; ``failing`` in place of the views known here."""
        known = self.known if failing is None else failing
        if name not in known:
            return self.records[name].reason
        if known[name].lost:
            return stopped(name, known[name].lost)
        above = next((r for r in known[name].compiled.reads if r in known), None)
        return f"it reads {above}: {self.reason(above, known)}" if above else described(name, known[name].rows)

    def search(self, columns: Mapping[str, Sequence[str]], whole: Callable[[Compiled], Scene], wide_rows: int) -> None:
        """Name the rows on which views failed. ``whole``: the scene of a view over all that it reads now."""
        found: dict[int, Found] = {}  # views that share the circuit that threw share its scene
        for failed in self.known.values():
            scene = failed.scene
            if scene is None:
                continue
            if id(scene) not in found:
                found[id(scene)] = scene.search(wide_rows)
            here = found[id(scene)]
            if here.alone and not scene.step.whole:  # none of the rows that came: what is left after deletions throws
                here = whole(failed.compiled).search(wide_rows)
            failed.found(here, columns)

    def settle(
        self, views: Mapping[str, Compiled], dropped: Iterable[str], built: Iterable[str], broken: Mapping[str, Failed]
    ) -> None:
        """New definitions are in: ``built`` anew, of which ``broken`` have failed."""
        self.forget([*dropped, *built])
        now = self.catalog.views()
        for name, failed in broken.items():
            self.add(now[name], failed)
        rest = {name: failed for name, failed in self.known.items() if name not in views}
        self.known = {**rest, **{name: self.known[name] for name in views if name in self.known}}
        for name in self.known.keys() & views.keys():
            self.known[name].compiled = views[name]

    def tell_all(self) -> None:
        """Make durable what a search has found, and say once what each view failed on."""
        untold = {name: failed for name, failed in self.known.items() if not failed.told}
        if not untold:
            return
        with self.catalog.transaction():
            for name in self.known:
                self.save(name)  # the reason of a reader is that of the view it reads
        for name, failed in untold.items():
            failed.told, reason = True, self.reason(name)
            text = f"view.failed: {reason}"
            self.tell({
                "event": "view.failed", "view": name, "text": text, "reason": reason, "failing": failing(failed.rows)
            })  # fmt: skip

    def due(self, name: str) -> bool:
        """Whether a failed view is to be built again now; never before those that it reads are back."""
        failed = self.known[name]
        return failed.due(time.monotonic()) and not any(r in self.records for r in failed.compiled.reads)

    def hurry(self, asked: Mapping[str, Failed]) -> bool:
        """Somebody asked: those of these that still are as they were are tried in the next step; whether any is."""
        same = [failed for name, failed in asked.items() if self.known.get(name) is failed]
        for failed in same:
            failed.changed, failed.wait_until = True, 0.0
        return bool(same)

    def subtract(self, outputs: Sequence[Output]) -> set[str]:
        """Take a step's deltas from the error deltas; the views of which entries have changed."""
        moved = {output.feed for output in outputs}
        changed = set()
        for name, failed in self.known.items():
            if failed.scene is not None:  # it failed on these very deltas
                continue
            failed.changed = failed.changed or bool(moved & feeds_of(failed.compiled.root))
            if not any(row.content and row.feed in moved for row in failed.rows):
                continue
            rows = reduced(failed.rows, outputs)
            if rows != failed.rows:
                failed.rows, failed.ready = rows, not any(row.content for row in rows)
                changed.add(name)
        return changed


def reduced(rows: Sequence[ErrorRow], outputs: Sequence[Output]) -> list[ErrorRow]:
    """The entries after a step's deltas. Rows that throw only together go together; what is unnamed stays."""
    kept = list(rows)
    for feed in {row.feed for row in rows if row.content}:
        paths = [output.path for output in outputs if output.feed == feed]
        places = [i for i, row in enumerate(rows) if row.content and row.feed == feed]
        if paths:
            for place, weight in zip(places, weights([rows[i].content for i in places], paths), strict=True):
                kept[place] = replace(rows[place], weight=rows[place].weight + weight)
    gone = {row.together for row in kept if row.content and row.weight <= 0}
    return [row for row in kept if not row.content or row.together not in gone]


def _whole(paths: Sequence[str]) -> pa.Table:
    """Rows of some files, copies of a row added up: they throw alike."""
    tables = [open_run(path) for path in paths]
    return consolidate(pa.concat_tables([t.drop_columns([HASH]) if HASH in t.column_names else t for t in tables]))


def weights(contents: Sequence[bytes], paths: Sequence[str]) -> list[int]:
    """What the delta in some files adds to the weight of each of these rows, compared as a whole."""
    entries = pa.concat_tables([pa.ipc.open_stream(content).read_all() for content in contents])
    delta = pa.concat_tables([open_run(path) for path in paths])
    names = entries.column_names
    plain = next((n for n in names if pa.types.is_integer(entries.schema.field(n).type)), None)
    if plain is not None:  # few rows of a large delta have one of these values, and only those are compared
        delta = delta.filter(pc.is_in(delta[plain], value_set=entries[plain].combine_chunks()))
    rows = delta.select(names).cast(entries.schema)
    codes = row_codes([pa.chunked_array([*entries[n].chunks, *rows[n].chunks]) for n in names])
    weights, of = column(delta, WEIGHT), codes[len(contents) :]
    return [int(weights[of == code].sum()) for code in codes[: len(contents)]]


def shared_below(program: Program, circuit: Circuit) -> list[Circuit]:
    """The circuits of shared sub-queries that one is built on, lowest first."""
    wanted, found = set(circuit.inputs), list[Circuit]()
    for other in reversed(program.circuits):
        if other.name in wanted and other.relation is None and not other.is_view:
            wanted |= other.inputs
            found.insert(0, other)
    return found


def disagreeing(step: int) -> str:
    return f"{MISMATCH}: step {step} gave other rows when it ran again than it had published"


def view_of(feed: str) -> str:
    """The view of a view version's feed."""
    return feed.rpartition("@")[0]


def unnamed(held: int, text: str, above: str = "") -> ErrorRow:
    """An entry for what no row is known of; ``above``: the failed view that is read."""
    shown = orjson.dumps({"view": above} if above else {}).decode()
    return ErrorRow("", -1, b"", shown, 1, held, text)


def stopped(view: str, lost: str) -> str:
    return f"view {view} is stopped: {lost}; edit the view, then `headrace apply`, or undo what was done to the table"


def described(view: str, rows: Sequence[ErrorRow]) -> str:
    """An error delta in one sentence: where the view fails, on what, and what to do."""
    groups: dict[int, list[ErrorRow]] = {}
    for row in rows:
        if row.content:
            groups.setdefault(row.together, []).append(row)
    if not groups and rows and rows[0].message.startswith(ENDED):
        return (
            f"view {view} is set aside: {rows[0].message}; edit it, or put right what it reads, then `headrace apply`"
        )
    if not groups:
        return f"view {view} fails: {rows[0].message}; {BACK} when what it reads lets it" if rows else ""
    places = [" together with ".join(_place(row) for row in group) for group in list(groups.values())[:SHOWN_MAX]]
    hidden = len(groups) - len(places)
    more = " and more" if any(not row.content for row in rows) else ""
    more = f" and {hidden} more{' at least' if more else ''}" if hidden else more
    what = "the row" if len(groups) == 1 else "the rows"
    if any(len(group) > 1 for group in groups.values()):
        what = "one of the rows"
    texts = list(dict.fromkeys(row.message for row in rows if row.content))
    return f"view {view} fails on {', '.join(places)}{more}: {texts[0]}; delete or correct {what}; {BACK}"


def _place(row: ErrorRow) -> str:
    """``table orders, row {id: 7, amount: 0}``"""
    shown = orjson.loads(row.shown)
    kind = "table" if "table" in shown else "view"
    values = ", ".join(f"{name}: {orjson.dumps(v).decode()}" for name, v in shown["row"].items())
    return f"{kind} {shown[kind]}, row {{{values if len(values) <= TEXT_MAX else values[: TEXT_MAX - 1] + '…'}}}"


def message(error: Exception) -> str:
    """Spark's own words for a failure, without its stack: they name the expression and where it stands."""
    if isinstance(error, HeadraceError) and error.code == "spark.lost":
        return f"{error.what}: {error.why}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    telling = [line for line in lines if line.startswith("[") or "Error:" in line or "Exception: [" in line]
    if not telling and "Traceback" in str(error):  # of a Python worker: what was raised stands at its end, unindented
        telling = [line for line in str(error).splitlines() if re.match(r"[A-Za-z_][\w.]*: ", line)]
    text = telling[-1] if telling and not telling[0].startswith("[") else (telling or lines)[0]
    if "OutOfMemoryError" in text:
        return (
            f"what it makes needs more memory than `driver_memory` of headrace.yaml allows: {text.rpartition(': ')[2]}"
        )
    if text == lines[0]:
        text = java_cause(error)
    coded = re.search(r"\[[A-Z][A-Z0-9_.]+\].*", text)
    return _ADVICE.sub("", coded[0] if coded else text)[:500]
