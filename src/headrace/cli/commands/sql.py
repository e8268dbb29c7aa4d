"""headrace sql"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import display, moment
from headrace.cli.options import JsonOption, ProjectOption, folder, one_of
from headrace.model.errors import HeadraceError

EPILOG = """
headrace sql "SELECT count(*) FROM orders"
headrace sql "SELECT * FROM revenue ORDER BY total DESC" --limit 5
headrace sql --engine duckdb "SELECT region, total FROM revenue" --at 4711
headrace sql --json - < question.sql
headrace sql "CREATE VIEW big AS SELECT * FROM orders WHERE amount > 100"
headrace sql - < definitions.sql
"""
SHOWN = 100  # rows on a terminal or as a table, unless asked otherwise
ALL = 1 << 31  # rows


class Engine(StrEnum):
    """Whose dialect it is."""

    SPARK = "spark"
    DUCKDB = "duckdb"


def run(
    query: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT in Spark SQL, or definitions; '-' reads from stdin.")
    ],
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=0, help=f"Rows to show. Default: {SHOWN}; all with --json."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            "--engine",
            "-e",
            parser=one_of(Engine, "engine"),
            help="Whose SQL it is. DuckDB's is answered without Spark.",
        ),
    ] = Engine.SPARK,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="COMMIT|TIME", help="As of a commit or a time that is past; DuckDB alone."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="How long it may take. Default: `query_seconds`."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Run one query over tables and views, all at one frontier.

    In Spark's SQL it is answered by a running `headrace up`; without one Spark is started, which takes seconds.

    CREATE and DROP of a SOURCE, VIEW or SINK write the files that define a project, and have them taken by the
    running `headrace up`, all or none of those of one text; SHOW and EXPLAIN tell of them.
    """
    text = sys.stdin.read() if query == "-" else query
    path = folder(project)
    from headrace.sql import definitions

    if definitions.begins(text):
        from headrace.cli.defining import run as define

        define(path, text, json=json)
        return
    bound = limit if limit is not None or json else SHOWN
    with display.working("asking") as progress:
        answer = (
            _by_duckdb(path, text, bound, at, seconds)
            if engine is Engine.DUCKDB
            else _by_spark(path, text, bound, at, seconds, progress)
        )
    if json:
        display.emit(answer)
        return
    display.table(answer["columns"], answer["rows"])
    counted = display.counted(len(answer["rows"]), "row")
    display.say(f"\n{counted}{' (--limit shows more)' if answer['more'] else ''}")
    display.behind(answer["stale"])


def _by_spark(
    path: Path,
    text: str,
    limit: int | None,
    at: str | None,
    seconds: float | None,
    progress: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    from headrace.control.verbs import call

    if at is not None:
        raise HeadraceError(
            "sql.refused", "a query in Spark's SQL is asked at the frontier alone",
            next="--engine duckdb, which can be asked as of a commit; of one view `headrace show VIEW --at COMMIT`",
        )  # fmt: skip
    return call(path, "sql", {"sql": text, "limit": limit, "seconds": seconds}, progress)


def _by_duckdb(path: Path, text: str, limit: int | None, at: str | None, seconds: float | None) -> dict[str, Any]:
    """The same from what is published."""
    from headrace.catalog.project import survey
    from headrace.formats.json_tables import table_json
    from headrace.model.bounds import within
    from headrace.serve.database import Limits
    from headrace.serve.questions import questions_of

    settings = survey(path)[0].settings
    allowed = within(seconds, settings.query_seconds, "--timeout")
    with questions_of(path, settings.api.memory) as questions:
        commit = moment.commit(at, "--at", questions.mirror.commit_by)
        answer = questions.ask(text, (), Limits(ALL if limit is None else limit, allowed), commit)
    return {**table_json(answer.table), "commit": answer.commit, "more": answer.more, "stale": dict(answer.stale)}
