"""What a user does with the quarantine of a project at work; no Spark is needed for any of it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.catalog.quarantine import Refused, SetAside
from headrace.catalog.store import Catalog
from headrace.engine import replay
from headrace.engine.aside import build_again
from headrace.engine.door import settle
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import SELF, Form, RefusedRow, TransactionBatch, TransactionOrigin
from headrace.serve import quarantine
from headrace.serve.quarantine import FOLDER, Chosen, Found
from headrace.state.run import column

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


WAIT_S = 10.0  # at most, until the step over what was sent again is published
LOOK_S = 0.01
Changes = dict[str, list[pa.Table]]  # table -> its changes, as the log takes them


class Quarantined:
    """The quarantine of a pipeline, as ``Pipeline.quarantine``; from any thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def entries(self, table: str | None = None) -> list[dict[str, Any]]:
        """``{"id", "table", "commit", "operation", "reason", "row"}`` of each change, oldest first of each table.

        Of a row that a source could not read ``source``, ``place`` and ``payload`` in the place of operation and row.
        """
        return quarantine.entries(self._pipeline.project.path, table, None)[0]

    def drop(
        self, *ids: str, table: str | None = None, upto: int | None = None, refused_upto: int | None = None
    ) -> int:
        """These entries, or all of a table, or (with neither) all there are leave the quarantine; how many.

        ``upto``, ``refused_upto``: see ``Chosen``. Raises ``HeadraceError``: quarantine.unknown, source.no_table.
        """
        catalog, wanted = self._pipeline.catalog, Chosen(ids, table, upto, refused_upto)

        def work() -> int:
            dropped = drop(catalog, wanted)
            self._pipeline.maintainer.aside.reread(self._pipeline.maintainer.number + 1)
            self._sweep()
            return dropped

        return self._pipeline.on_engine(work)

    def replay(
        self, *ids: str, table: str | None = None, upto: int | None = None, refused_upto: int | None = None,
        as_: str | None = None, wait_s: float = WAIT_S,
    ) -> dict[str, Any]:  # fmt: skip
        """Send changes again, all in one new transaction: ``{"commit", "changes": how many, "again"}``.

        As ``drop`` chooses them; ``as_``: insert, update, replace or delete in the place of what each was. What still
        does not fit is set aside again, with the new commit: ``again`` has its ids; None when the step over it is not
        published within ``wait_s``. Raises ``HeadraceError``, with nothing sent: quarantine.unknown,
        quarantine.replay, source.row, source.no_table, log.full.
        """

        def made(found: Found) -> Changes:
            if found.aside:
                raise replay.impossible(found.aside[0].id, "its table has taken it as it is", "leave --as out")
            relations, changes = self._relations(), Changes()
            parts: dict[str, list[pa.Table]] = {}
            for name, of in found.changes:
                parts.setdefault(name, []).append(of)
            for name, those in parts.items():
                changes[name] = [replay.changes(_relation(relations, name), those, as_)]
            for entry in found.refused:
                if as_ is not None:
                    raise replay.impossible(entry.id, "its source says what it is", "leave --as out")
                self._reread(entry, entry.row, changes)
            return changes

        return self._send(Chosen(ids, table, upto, refused_upto), made, wait_s, tried=as_ is None)

    def fix(
        self, id: str, values: Mapping[str, Any] | None = None, *, row: Mapping[str, Any] | str | None = None,
        cells: Mapping[str, str] | None = None, as_: str | None = None, wait_s: float = WAIT_S,
    ) -> dict[str, Any]:  # fmt: skip
        """Send one change again with other ``values`` of some columns, or with another ``row``; answers as ``replay``.

        Values are those of JSON, checked as a row that is pushed; in ``cells`` they are text, as in a CSV file.
        ``row`` may be JSON text too.
        """

        def made(found: Found) -> Changes:
            if found.aside:
                why = "a view's SQL throws on it, but its table has taken it"
                raise replay.impossible(id, why, "correct it where it comes from, or edit the view")
            if found.refused:
                return self._corrected(found.refused[0], row, as_, whole=not values and not cells)
            ((name, change),) = found.changes
            relation = _relation(self._relations(), name)
            other = {**(values or {}), **replay.cells(relation, cells or {})}
            whole = replay.read_row(relation, row) if isinstance(row, str) else row
            return {name: [replay.corrected(relation, change, other, whole, as_)]}

        return self._send(Chosen((id,)), made, wait_s)

    def _corrected(
        self, entry: Refused, row: Mapping[str, Any] | str | None, as_: str | None, *, whole: bool
    ) -> Changes:
        if row is None or as_ is not None or not whole:
            why = "what a source could not read is corrected as a whole, and sent as its source would"
            raise replay.impossible(entry.id, why, "give all of it with --row, and nothing else")
        payload = row.encode() if isinstance(row, str) else json.dumps(dict(row), default=str).encode()
        form: Form = "request" if entry.row.form == "request" else "json"
        changes = Changes()
        self._reread(entry, dataclasses.replace(entry.row, payload=payload, form=form), changes)
        return changes

    def _reread(self, entry: Refused, row: RefusedRow, changes: Changes) -> None:
        """Add what ``row`` stands for to ``changes``. Raises ``HeadraceError`` where it still cannot be read."""
        source = self._pipeline.sources.get(entry.source)
        if source is None:
            raise replay.impossible(
                entry.id, f"the source '{entry.source}' is not defined any more", "define it again, or drop the row"
            )
        try:
            found = source.reread(row)
        except HeadraceError as error:
            next = f"`headrace quarantine fix {entry.id} --row JSON` sends it corrected"
            where = f"{entry.id} ({error.where or row.place})"
            raise HeadraceError(error.code, error.what, where=where, why=error.why, next=next) from None
        for name, table in found.items():
            changes.setdefault(name, []).append(table)

    def _relations(self) -> dict[str, Relation]:
        return {name: relation for name, (_, relation) in self._pipeline.catalog.relations().items()}

    def begin(self) -> None:
        """At a start: what a crash has left half done. A replay that the log has is done, any other never was."""
        catalog, folder = self._pipeline.catalog, self._pipeline.folder
        settle(catalog, LogReader(folder / "log"), self._pipeline.log.end)
        for number, after in catalog.open_replays():
            origins = LogReader(folder / "log").origins(after, self._pipeline.log.end)
            commits = [c for c, o in origins if (o.source, o.position) == (SELF, _position(number))]
            with catalog.transaction():
                catalog.end_replay(number, commits[0] if commits else None)
                recount(catalog, {entry.relation for entry in catalog.set_aside()})
        self._sweep()

    def _sweep(self) -> None:
        maintainer = self._pipeline.maintainer
        with maintainer.lock:
            held = {path for pinned in maintainer.pins.values() for path in pinned}
        sweep(self._pipeline.folder / FOLDER, self._pipeline.catalog, held)
        forget(self._pipeline.catalog, LogReader(self._pipeline.folder / "log").base.commit)

    def _send(
        self, wanted: Chosen, made: Callable[[Found], Changes], wait_s: float, *, tried: bool = False
    ) -> dict[str, Any]:
        pipeline = self._pipeline
        catalog = pipeline.catalog

        def work() -> dict[str, Any]:
            found = quarantine.chosen(catalog, wanted)
            if found.aside and tried:
                return self._tried(found)
            if not found.rows:
                raise HeadraceError("quarantine.unknown", "there is nothing in the quarantine to send again")
            changes = {name: replay.joined(parts) for name, parts in made(found).items()}
            commit = send(catalog, pipeline.log, found, changes)
            self._sweep()
            return {"commit": commit, "changes": sum(table.num_rows for table in changes.values())}

        answer = pipeline.on_engine(work)
        if "again" in answer:
            return answer
        end, commit = time.monotonic() + wait_s, answer["commit"]
        while pipeline.maintainer.frontier < commit and time.monotonic() < end and not pipeline.stopping:
            time.sleep(LOOK_S)
        if pipeline.maintainer.frontier < commit:
            return {**answer, "again": None}
        return {**answer, "again": [e["id"] for e in self.entries() if e["commit"] == commit]}

    def _tried(self, found: Found) -> dict[str, Any]:
        """Views are built again with the rows that they go on without; those that still throw are set aside again."""
        if found.changes or found.refused:
            raise replay.impossible(
                found.aside[0].id, "a view goes on without it, and the others are sent again", "replay them apart"
            )
        views, maintainer = {row.view for row in found.aside}, self._pipeline.maintainer
        build_again(maintainer, views)
        again = [row.id for row in self._pipeline.catalog.aside_shown() if row.view in views]
        return {"commit": maintainer.frontier, "changes": found.rows, "again": again}


def send(catalog: Catalog, log: LogWriter, found: Found, changes: Mapping[str, pa.Table]) -> int:
    """One transaction with ``changes``, in the place of those ``found``, which leave the quarantine; its commit.

    First the catalogue has what is meant, then the log the transaction, then the catalogue its commit: a crash in
    between leaves what ``Quarantined.begin`` can tell from the log, so that nothing is lost and nothing sent twice.
    """
    now_us = time.time_ns() // 1000
    those = [change for table, part in found.changes for change in quarantine.named(table, part)]
    number = catalog.begin_replay(those, [entry.number for entry in found.refused], log.end, now_us)
    origin = TransactionOrigin(SELF, _position(number), now_us)
    try:
        commit = log.append(TransactionBatch((origin,), changes))
    except HeadraceError as error:
        if error.code != "log.failed":  # then it shows at the next start whether the log has it
            catalog.end_replay(number, None)
        raise
    with catalog.transaction():
        catalog.end_replay(number, commit)
        recount(catalog, {table for table, _ in found.changes})
    return commit


def _position(number: int) -> str:
    return f"replay {number}"


def _relation(relations: Mapping[str, Relation], table: str) -> Relation:
    if table not in relations:
        raise HeadraceError(
            "source.no_table", f"there is no table '{table}' any more",
            next="define its source and a view that reads it, or `headrace quarantine drop` what is kept of it",
        )  # fmt: skip
    return relations[table]


def drop(catalog: Catalog, wanted: Chosen) -> int:
    """The same for whoever has the project's lock; ``sweep`` is due after it."""
    found, now_us = quarantine.chosen(catalog, wanted), time.time_ns() // 1000
    with catalog.transaction():
        for table, changes in found.changes:
            catalog.settle(quarantine.named(table, changes), now_us)
        catalog.drop_refused((entry.number for entry in found.refused), now_us)
        catalog.drop_aside_rows({row.id for row in found.aside})
        recount(catalog, {table for table, _ in found.changes})
    return found.rows


def recount(catalog: Catalog, tables: Iterable[str]) -> None:
    """Some changes of these tables have left: how many of each file are still there."""
    files = [entry for entry in catalog.set_aside() if entry.relation in tables]
    catalog.put_set_aside(
        SetAside(entry.relation, entry.step, entry.path, changes.num_rows)
        for entry, changes in quarantine.there(catalog, files)
    )


def forget(catalog: Catalog, base: int) -> None:
    """What has left by commits that the log has only in its base, and that no file has, need not be known any more.

    No table that is made again would set it aside again.
    """
    written: dict[str, set[tuple[int, int]]] = {}
    for entry in catalog.set_aside() if base else ():
        rows = quarantine.written(entry)
        places = zip(*(column(rows, name).tolist() for name in quarantine.HEAD[:2]), strict=True)
        written.setdefault(entry.relation, set()).update(places)
    if base:
        catalog.forget_gone(base, written)


def sweep(folder: Path, catalog: Catalog, held: Iterable[str] = ()) -> None:
    """Remove the files of the quarantine that the catalogue does not name, but those that are held."""
    named = {Path(path).name for path in (*held, *(entry.path for entry in catalog.set_aside()))}
    for path in folder.glob("*.arrow"):
        if path.name not in named:
            path.unlink()
