"""The catalogue: what exists, which steps were recorded and published, and where the kept files are. SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.catalog import state_layout
from headrace.catalog.database import LAYOUT
from headrace.catalog.versions import VersionTables, columns_of, dumped
from headrace.model.schema import Relation, ViewSchema

# Names in ``meta``, each followed by what it is about.
HELD = "held "  # a table that no source has any more, though the log holds rows of it
PAUSED = "paused "  # a sink that is given nothing until it is resumed
ANEW = "anew "  # a source that was dropped and begins as if it were new when it is started again


@dataclass(frozen=True, slots=True)
class StepShape:
    """How a step runs: ``wide`` over several tasks, ``each`` transaction an instant of its own."""

    wide: bool = False
    each: bool = False


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step as recorded before it ran: its range of commits and its shape; published when its outputs are.

    ``committed_us``: the newest source commit time inside, microseconds since the epoch.
    """

    number: int
    after: int
    upto: int
    shape: StepShape
    committed_us: int
    published_us: int | None


@dataclass(frozen=True, slots=True)
class Output:
    """A file of a feed: the delta of one step (or, in a base, contents).

    ``sums``: CRC-32 of each of its blocks (``headrace.state.run``), in hex; empty where they were not written down.
    """

    step: int
    feed: str
    path: str
    rows: int
    sums: str


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """A version of a view. ``state``: live, failed, or gone."""

    schema: ViewSchema
    sql: str
    fingerprint: str
    state: str
    reason: str
    created_commit: int

    @property
    def feed(self) -> str:
        return feed_of(self.schema.name, self.schema.version)


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One entry of a failed view's error delta: a row of ``feed`` that the view's SQL throws on, with its weight.

    ``content``: the row as an Arrow IPC stream with columns ``c0 ..``; ``shown``: the same as a JSON object.
    Entries of one ``together`` throw only together. ``held``: the last commit that the view's contents hold.
    An entry without content stands for what could not be named: more rows than are looked for, a failure that
    no row explains, or a failed view that this one reads.
    """

    feed: str
    together: int
    content: bytes
    shown: str
    weight: int
    held: int
    message: str


# In relation.updates, beside 0 and 1. What does not know it takes it for 1: rightly kept, only slower.
_APPEND_ONLY = 2


def feed_of(name: str, version: int) -> str:
    """The name of a view version's feed."""
    return f"{name}@{version}"


class Catalog(VersionTables):
    """The catalogue of a project. Every change is one durable SQLite transaction; readers never wait for it."""

    # -- relations and views --------------------------------------------------------------------------------

    def relations(self) -> dict[str, tuple[str, Relation]]:
        """Tables known so far: name -> (source, relation)."""
        found = {}
        for name, source, columns, key, updates in self._rows("select * from relation order by name"):
            appended = updates == _APPEND_ONLY
            known = Relation(
                name, columns_of(columns), tuple(orjson.loads(key)), bool(updates) and not appended, appended
            )
            found[name] = (source, known)
        return found

    def put_relation(self, source: str, relation: Relation) -> None:
        values = (
            relation.name,
            source,
            dumped(relation.columns),
            orjson.dumps(relation.key).decode(),
            _APPEND_ONLY if relation.append_only else int(relation.updates),
        )
        with self.transaction():
            self._db.execute("insert or replace into relation values (?, ?, ?, ?, ?)", values)

    def drop_relation(self, name: str) -> None:
        with self.transaction():
            self._db.execute("delete from relation where name = ?", (name,))

    def views(self) -> dict[str, ViewRecord]:
        """The current version of each view that is not gone."""
        return {record.schema.name: record for record in self.versions() if record.state != "gone"}

    def versions(self) -> list[ViewRecord]:
        """Every version whose name and number no later one has, in order; ``history`` has all."""
        rows = self._rows(
            "select name, version, sql, fingerprint, columns, key, ordering, state, reason, created_commit"
            " from view order by name, version"
        )
        return [
            ViewRecord(
                ViewSchema(name, version, columns_of(columns), tuple(orjson.loads(key)), tuple(orjson.loads(ordering))),
                sql, fingerprint, state, reason, created,
            )
            for name, version, sql, fingerprint, columns, key, ordering, state, reason, created in rows
        ]  # fmt: skip

    def put_view(self, record: ViewRecord, at_us: int | None = None) -> None:
        """A new version; the versions before it are gone. ``at_us``: when, where that is known."""
        schema = record.schema
        values = (
            schema.name, schema.version, record.sql, record.fingerprint, dumped(schema.columns),
            orjson.dumps(schema.key).decode(), orjson.dumps(schema.order).decode(), record.state, record.reason,
            record.created_commit,
        )  # fmt: skip
        with self.transaction():
            self._forget_view(schema.name)
            self.remember(schema, record.sql, record.created_commit, at_us)
            self._db.execute("insert or replace into view values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def drop_view(self, name: str, commit: int, at_us: int | None = None) -> None:
        with self.transaction():
            self._forget_view(name)
            self.end_version(name, commit, at_us)

    def _forget_view(self, name: str) -> None:
        self._db.execute("update view set state = 'gone' where name = ?", (name,))
        self._db.execute("delete from error_row where view = ?", (name,))

    def set_view_state(self, name: str, version: int, state: str, reason: str = "") -> None:
        with self.transaction():
            self._db.execute(
                "update view set state = ?, reason = ? where name = ? and version = ?", (state, reason, name, version)
            )

    def error_rows(self, name: str, version: int) -> list[ErrorRow]:
        """The error delta of a view version, in order; empty as long as the view is live."""
        rows = self._rows(
            "select feed, together, content, shown, weight, held, message from error_row"
            " where view = ? and version = ? order by place",
            name,
            version,
        )
        return [ErrorRow(*row) for row in rows]

    def put_error_rows(self, name: str, version: int, rows: Iterable[ErrorRow]) -> None:
        """These in place of the entries there are."""
        with self.transaction():
            self._db.execute("delete from error_row where view = ?", (name,))
            self._db.executemany(
                "insert into error_row values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (name, version, i, r.feed, r.together, r.content, r.shown, r.weight, r.held, r.message)
                    for i, r in enumerate(rows)
                ],
            )

    # -- steps ----------------------------------------------------------------------------------------------

    def record_step(self, number: int, after: int, upto: int, shape: StepShape, committed_us: int) -> None:
        """Before it runs: whoever runs it again after a crash takes the same range in the same shape."""
        with self.transaction():
            values = (number, after, upto, int(shape.wide), committed_us, int(shape.each))
            # The same number again: it could not be taken before, and nothing of it was published.
            self._db.execute("insert or replace into step values (?, ?, ?, ?, ?, null, ?)", values)

    def publish(self, number: int, outputs: Iterable[Output], published_us: int) -> None:
        """All views of a step move at once."""
        with self.transaction():
            self._db.execute("update step set published_us = ? where number = ?", (published_us, number))
            self.put_outputs(outputs)

    def put_outputs(self, outputs: Iterable[Output]) -> None:
        with self.transaction():
            self._db.executemany(
                "insert or replace into output values (?, ?, ?, ?, ?)",
                [(o.step, o.feed, self.stored(o.path), o.rows, o.sums) for o in outputs],
            )

    def steps(self, after: int = -1) -> list[StepRecord]:
        """Steps with a number above ``after``, in order."""
        return [_step(row) for row in self._rows("select * from step where number > ? order by number", after)]

    def published(self, beyond: int, most: int | None = None) -> list[StepRecord]:
        """The first ``most`` published steps that reach beyond a commit, in order."""
        sql = "select * from step where upto > ? and published_us is not null order by number limit ?"
        return [_step(row) for row in self._rows(sql, beyond, -1 if most is None else most)]

    def last_published(self) -> StepRecord | None:
        rows = self._rows("select * from step where published_us is not null order by number desc limit 1")
        return _step(rows[0]) if rows else None

    def outputs(self, after: int, upto: int, feed: str | None = None) -> list[Output]:
        """Output files of published steps in (after, upto], in order of step."""
        sql = "select step, feed, path, rows, sums from output where step > ? and step <= ?"
        rows = self._rows(sql + " order by step, feed, path", after, upto) if feed is None else self._rows(
            sql + " and feed = ? order by step, path", after, upto, feed
        )  # fmt: skip
        return [Output(step, of, self.found(path), count, sums) for step, of, path, count, sums in rows]

    def next_output(self, feed: str, number: int) -> Output | None:
        """The first of a feed's output files of step ``number`` or a later one."""
        sql = "select step, feed, path, rows, sums from output where feed = ? and step >= ? order by step, path limit 1"
        for step, of, path, count, sums in self._rows(sql, feed, number):
            return Output(step, of, self.found(path), count, sums)
        return None

    def base(self, feed: str) -> tuple[int, int, list[str], int] | None:
        """(step, commit, files, rows) of a feed's base: its contents as of that step."""
        rows = self._rows("select step, upto, paths, rows from base where feed = ?", feed)
        if not rows:
            return None
        step, upto, paths, count = rows[0]
        return step, upto, [self.found(path) for path in orjson.loads(paths)], count

    def put_base(self, feed: str, step: int, upto: int, paths: list[str], rows: int, sums: Sequence[str] = ()) -> None:
        """``sums``: of each file, as far as they are known."""
        stored = orjson.dumps([self.stored(path) for path in paths]).decode()
        values = (feed, step, upto, stored, rows, orjson.dumps(list(sums)).decode())
        with self.transaction():
            self._db.execute("insert or replace into base values (?, ?, ?, ?, ?, ?)", values)

    def base_files(self, feed: str) -> list[tuple[str, str]]:
        """Each file of a feed's base with its checksums, empty where an earlier version wrote none down."""
        rows = self._rows("select paths, sums from base where feed = ?", feed)
        paths, sums = map(orjson.loads, rows[0]) if rows else ((), ())
        return [(self.found(path), sums[place] if place < len(sums) else "") for place, path in enumerate(paths)]

    def first_step(self) -> int:
        """The number of the first step that is kept; a large one where there is none."""
        ((number,),) = self._rows("select min(number) from step")
        return 1 << 62 if number is None else int(number)

    def forget_outputs(self, feed: str, upto_step: int) -> None:
        """Deltas that a base now holds."""
        with self.transaction():
            self._db.execute("delete from output where feed = ? and step <= ?", (feed, upto_step))

    def forget_feed(self, feed: str) -> None:
        with self.transaction():
            self._db.execute("delete from output where feed = ?", (feed,))
            self._db.execute("delete from base where feed = ?", (feed,))

    def put_checkpoint(self, step: int, runs: dict[str, Any]) -> None:
        """The runs that are live after ``step``; recovery starts from the newest checkpoint."""
        kept = {name: [[self.stored(path), *rest] for path, *rest in of] for name, of in runs.items()}
        with self.transaction():
            self._db.execute("insert or replace into checkpoint values (?, ?)", (step, orjson.dumps(kept).decode()))
            self._db.execute("delete from checkpoint where step < ?", (step,))

    def forget_steps(self, before: int) -> None:
        """Steps that neither recovery nor a sink needs any more."""
        with self.transaction():
            self._db.execute("delete from step where number < ?", (before,))

    def checkpoint(self) -> tuple[int, dict[str, Any]] | None:
        rows = self._rows("select step, runs from checkpoint order by step desc limit 1")
        if not rows:
            return None
        runs = orjson.loads(rows[0][1])
        return rows[0][0], {name: [[self.found(path), *rest] for path, *rest in of] for name, of in runs.items()}

    def files(self) -> list[str]:
        """Every file that is named here: deltas, bases, the runs of the checkpoint, what was set aside."""
        found = [self.found(path) for (path,) in self._rows("select path from output union select path from set_aside")]
        for (paths,) in self._rows("select paths from base"):
            found += [self.found(path) for path in orjson.loads(paths)]
        checkpoint = self.checkpoint()
        runs = checkpoint[1].values() if checkpoint else ()
        return sorted({*found, *(path for of in runs for path, *_ in of)})

    # -- made anew ------------------------------------------------------------------------------------------

    def build_again(self, names: Iterable[str]) -> None:
        """The next start, or ``apply``, builds the next version of these views from all that they read."""
        with self.transaction():
            self._db.executemany("update view set fingerprint = '' where name = ?", ((name,) for name in names))

    def forget_state(self) -> None:
        """The next start makes all that is kept anew from the log, also where that has lost the steps before."""
        with self.transaction():
            self._db.execute("delete from checkpoint")
            if (last := self.last_published()) is not None:
                self.put_checkpoint(last.number, {})
            self.build_again(self.views())

    def take_over(self, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        """Rows of another catalogue in this layout, into this new one."""
        with self.transaction():
            for table, rows in ((table, rows) for table, rows in tables.items() if rows):
                places = ", ".join("?" for _ in rows[0])
                self._db.executemany(f"insert or replace into {table} values ({places})", rows)  # noqa: S608
            self.set_meta("layout", str(LAYOUT))
            self.set_meta(state_layout.NAME, state_layout.written())
            self.forget_state()

    # -- sinks ----------------------------------------------------------------------------------------------

    def sinks(self) -> dict[str, tuple[int, str, int]]:
        """Sink -> (frontier, last error or '', when in microseconds)."""
        return {name: (f, e, u) for name, f, e, u in self._rows("select name, frontier, error, updated_us from sink")}

    def put_sink(self, name: str, frontier: int, error: str, updated_us: int) -> None:
        with self.transaction():
            self._db.execute("insert or replace into sink values (?, ?, ?, ?)", (name, frontier, error, updated_us))

    def drop_sink(self, name: str) -> None:
        with self.transaction():
            self._db.execute("delete from sink where name = ?", (name,))


def _step(row: tuple[int, int, int, int, int, int | None, int]) -> StepRecord:
    number, after, upto, wide, committed_us, published_us, each = row
    return StepRecord(number, after, upto, StepShape(bool(wide), bool(each)), committed_us, published_us)
