"""headrace series"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli import display, filters, moment
from headrace.cli.filters import WhereOption
from headrace.cli.options import JsonOption, ProjectOption, folder, one_of

EPILOG = """
headrace series orders --time placed_at --every 1h
headrace series orders --time placed_at --every 1d --value "sum(amount)" --by region
headrace series orders --time placed_at --every 1d --zone Europe/Berlin --compare 1w
headrace series orders --time placed_at --every 1h --from 2026-03-01 --where region=eq.north
headrace series orders --time placed_at --every 1mo --csv > months.csv
"""
SHOWN = 100  # buckets of a table, unless asked otherwise
ALL = 1 << 31


class Fill(StrEnum):
    """What stands in an empty bucket."""

    NULL = "null"
    ZERO = "zero"
    PREVIOUS = "previous"
    LINEAR = "linear"
    NONE = "none"


FillOption = Annotated[
    Fill,
    typer.Option(
        "--fill",
        parser=one_of(Fill, "filling"),
        help="In an empty bucket: null, zero, previous, linear; none leaves it out.",
    ),
]


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view, or a table that views read.")],
    *,
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column of the time.")],
    every: Annotated[str, typer.Option("--every", metavar="LENGTH", help="A bucket's length: 5m, 1h, 1d, 1w, 1mo.")],
    value: Annotated[
        str, typer.Option("--value", help="count, sum, avg, min, max or median of a column. Default: count(*).")
    ] = "count(*)",
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="COLUMN", help="A series for each value; may be repeated.")
    ] = None,
    fill: FillOption = Fill.NULL,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="LENGTH", help="Also the value of the bucket so much earlier.")
    ] = None,
    zone: Annotated[str, typer.Option("--zone", help="Whose days and hours. Default: UTC.")] = "UTC",
    begin: Annotated[str | None, typer.Option("--from", metavar="TIME", help="In the first bucket.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Before it the last bucket begins.")] = None,
    where: WhereOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=0, help=f"Rows to show. Default: {SHOWN}; all as JSON or CSV."),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="COMMIT|TIME", help=f"As it was after {moment.HINT}.")
    ] = None,
    seconds: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long it may take.")] = 60.0,
    csv: Annotated[bool, typer.Option("--csv", help="Answer in CSV with a header line.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show a view by time: a value for each bucket, empty ones filled.

    Buckets without rows are filled as --fill says; --compare sets each value beside that of the period before. Days and
    more begin at midnight of the zone, weeks on Monday; what is shorter is counted from midnight. Operators of filters
    are eq, neq, gt, gte, lt, lte, like, ilike, in and is. Reads what is
    published: works beside a running `headrace up` and without one, and without Spark.
    """
    if csv and json:
        raise typer.BadParameter("--csv and --json cannot be given together")
    from headrace.cli import contents, published
    from headrace.formats.json_tables import table_json
    from headrace.serve import written
    from headrace.serve.database import Limits
    from headrace.serve.questions import questions_of

    path = folder(project)
    name = published.relation(path, view)
    asked = written.series(time, every, value, by or (), fill.value, compare, zone, begin, end)
    wanted = [written.filter_of(column, text) for column, text in filters.pairs(where)]
    bound = limit if limit is not None else ALL if csv or json else SHOWN
    with questions_of(path) as questions:
        commit = moment.commit(at, "--at", questions.mirror.commit_by)
        found = questions.series(name, asked, wanted, commit, Limits(bound, seconds))
    if csv:
        contents.write_csv(found.table)
    elif json:
        told = {"commit": found.commit, "more": found.more, "stale": dict(found.stale)}
        display.emit({**table_json(found.table), **told})
    else:
        answer = table_json(found.table)
        display.say(f"{name} at commit {found.commit:,}, by {every} in {zone}\n")
        display.table(answer["columns"], answer["rows"])
        if found.more:
            display.say(f"\n{found.table.num_rows:,} rows (--limit shows more)")
        display.behind(found.stale)
