"""Many transactions at batch speed: rows staged by COPY, then one block on the server that commits one after the other.

Each is a transaction of its own: the rows of its commit in every view, the views' status rows, and the progress row,
moved under its generation. All but the last commit without waiting for the server's log to be flushed; the last one
waits, for itself and for all before it. ``docs/decisions/0012-transactions-each.md`` says what that means for readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from headrace.model.delivery import WEIGHT, Succession
from headrace.sinks.connectors.postgres import encode
from headrace.sinks.connectors.postgres.progress import Progress
from headrace.sinks.connectors.postgres.statements import Statements, free, pg_type
from headrace.sinks.target import Target, rows_of

FENCED, DIVERGED = "HR001", "HR002"  # SQLSTATEs that the block raises
_HEAD = sql.Identifier("pg_temp", "headrace_each")
_HEAD_COLUMNS = ("commit", "committed_at", "source", "position", "views")
_FREE = "headrace_commit"


class Each:
    """The staging tables of one connection, made once a view and version; and the block over them."""

    def __init__(self, connection: psycopg.Connection, progress: Progress) -> None:
        self._connection, self._progress = connection, progress
        self._staged: dict[int, sql.Identifier] = {}  # number of a view's statements -> its staging table
        self._headed = False

    def stage(self, succession: Succession, views: Mapping[Target, Statements]) -> None:
        """Loads the rows, each with its commit, and a row for each transaction. Inside a transaction."""
        if not self._headed:
            self._run(
                "CREATE TEMP TABLE {} (commit bigint PRIMARY KEY, committed_at timestamptz, source text,"
                " position text, views text[])",
                _HEAD,
            )
            self._headed = True
        self._run("TRUNCATE {}", _HEAD)
        self._load(_HEAD, _HEAD_COLUMNS, _heads(succession))
        for target, statements in views.items():
            stage = self._stage_of(statements)
            rows = rows_of(target, succession.deltas[target.view])
            commits = succession.of_row[target.view]
            table = pa.Table.from_arrays([*rows.columns, commits], names=[*rows.column_names, _FREE])
            self._run("TRUNCATE {}", stage)
            self._load(stage, (*target.names, WEIGHT, _commit_name(target)), table)
        self._run("ANALYZE {}", _HEAD)

    def commit(self, views: Mapping[Target, Statements], nulls: Mapping[str, Sequence[tuple[str, ...]]], *,
               generation: int, flush: bool) -> None:  # fmt: skip
        """Walks the staged transactions. Outside a transaction: the block commits by itself.

        ``nulls``: view -> which columns of its key are NULL together in rows that go. ``flush``: wait for every one.
        """
        block = sql.SQL("DO {}").format(sql.Literal(self._block(views, nulls, generation, flush)))
        self._connection.execute("SET plan_cache_mode = force_generic_plan")  # each statement is planned once a block
        self._connection.execute(block)
        self._connection.execute("SET plan_cache_mode = force_custom_plan")

    def _block(
        self, views: Mapping[Target, Statements], nulls: Mapping[str, Sequence[tuple[str, ...]]], generation: int,
        flush: bool,
    ) -> str:  # fmt: skip
        moves = [self._move(target, statements, nulls[target.view]) for target, statements in views.items()]
        return (
            sql.SQL(
                "#variable_conflict use_column\n"
                "DECLARE headrace_each record; headrace_last bigint; headrace_asked bigint; headrace_gone bigint;\n"
                "BEGIN SELECT max(x.commit) INTO headrace_last FROM {head} x;\n"
                "FOR headrace_each IN SELECT x.* FROM {head} x ORDER BY x.commit LOOP\n"
                "{lazy}{advance};\n"
                "IF NOT FOUND THEN RAISE EXCEPTION 'fenced' USING ERRCODE = {fenced}; END IF;\n"
                "{moves}{changed};\n"
                "COMMIT; END LOOP; END"
            )
            .format(
                head=_HEAD,
                lazy=sql.SQL(
                    ""
                    if flush
                    else "IF headrace_each.commit < headrace_last THEN"
                    " PERFORM set_config('synchronous_commit', 'off', true); END IF;\n"
                ),
                advance=self._progress.advance_to("headrace_each", generation),
                fenced=sql.Literal(FENCED),
                moves=sql.SQL("").join(moves),
                changed=self._progress.changed_to("headrace_each"),
            )
            .as_string(self._connection)
        )

    def _move(self, target: Target, statements: Statements, nulls: Iterable[tuple[str, ...]]) -> sql.Composed:
        """The rows of one commit into one view, and that what went was there."""
        source = sql.SQL("(SELECT y.* FROM {} y WHERE y.{} = headrace_each.commit)").format(
            self._stage_of(statements), sql.Identifier(_commit_name(target))
        )
        if statements.hidden:
            work = sql.SQL("{} INTO headrace_asked, headrace_gone;\n{};\n").format(
                statements.delete_copies(source), statements.insert_copies(source)
            )
        else:
            counted = sql.SQL("GET DIAGNOSTICS headrace_asked = ROW_COUNT; headrace_gone := headrace_gone +"
                              " headrace_asked;\n")  # fmt: skip
            deletes = [
                sql.SQL("{};\n{}").format(statements.delete_by_key(source, pattern), counted) for pattern in nulls
            ]
            work = sql.SQL(
                "headrace_gone := 0;\n{}SELECT count(*) INTO headrace_asked FROM {} s WHERE s.{} < 0;\n{};\n"
            ).format(sql.SQL("").join(deletes), source, sql.Identifier(WEIGHT), statements.insert(source))
        return sql.SQL(
            "IF {view} = ANY (headrace_each.views) THEN\n{work}"
            "IF headrace_gone <> headrace_asked THEN RAISE EXCEPTION '% of % rows to delete are not there',"
            " headrace_asked - headrace_gone, headrace_asked USING ERRCODE = {diverged}, TABLE = {view}; END IF;\n"
            "END IF;\n"
        ).format(view=sql.Literal(target.view), work=work, diverged=sql.Literal(DIVERGED))

    def _stage_of(self, statements: Statements) -> sql.Identifier:
        if statements.number not in self._staged:
            stage = sql.Identifier("pg_temp", f"headrace_each_{statements.number}")
            target, commit = statements.target, sql.Identifier(_commit_name(statements.target))
            columns = [sql.SQL("{} {}").format(sql.Identifier(c.name), pg_type(c.type)) for c in target.columns]
            parts = [*columns, *(sql.SQL("{} bigint").format(n) for n in (sql.Identifier(WEIGHT), commit))]
            self._run("CREATE TEMP TABLE {} ({})", stage, sql.SQL(", ").join(parts))
            self._run("CREATE INDEX ON {} ({})", stage, commit)
            self._staged[statements.number] = stage
        return self._staged[statements.number]

    def _load(self, table: sql.Identifier, names: Iterable[str], rows: pa.Table) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        command = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, columns)
        with self._connection.cursor().copy(command) as copy:
            for chunk in encode.csv_chunks(rows):
                copy.write(chunk)

    def _run(self, statement: str, *parts: sql.Composable) -> None:
        self._connection.execute(sql.SQL(statement).format(*parts))


def _commit_name(target: Target) -> str:
    return free(_FREE, target.names)


def _heads(succession: Succession) -> pa.Table:
    """One row a transaction: commit, time, source, position, and the views that it changes, or that come back."""
    commits = np.array(succession.commits, np.int64)
    told = {view: [commit] if (commit := succession.back.get(view)) else [] for view in succession.of_row}
    changed = [
        np.searchsorted(commits, np.unique(np.concatenate([of_row.to_numpy(), np.array(told[view], np.int64)])))
        for view, of_row in succession.of_row.items()
    ]
    place = np.concatenate([np.empty(0, np.int64), *changed])
    which = np.repeat(np.arange(len(changed)), [len(places) for places in changed])[np.argsort(place, kind="stable")]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(commits)))]).astype(np.int32)
    views = pa.array(list(succession.of_row), pa.string()).take(pa.array(which))
    times = pa.array([origin.committed_us or None for origin in succession.origins], pa.int64())
    texts = [
        pa.array([value.replace("\0", "\\0") or None for value in values], pa.string())
        for values in ((o.source for o in succession.origins), (o.position for o in succession.origins))
    ]
    columns = [pa.array(commits), times.cast(pa.timestamp("us", "UTC")), *texts]
    return pa.table([*columns, pa.ListArray.from_arrays(pa.array(offsets), views)], names=list(_HEAD_COLUMNS))
