"""headrace log ls"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace log ls
headrace log ls --feeds             # rows of each table in the log; where each source stands
headrace log ls --json | jq .total
"""
SEGMENTS = ("segment", "first", "last", "commits", "rows", "size", "oldest", "newest", "state")
TABLES = ("table", "source", "rows", "size")
POSITION_SHOWN = 40  # characters of a position on a terminal; a pipe and --json have all of it
SOURCES = ("source", "commits", "last", "committed_at", "position")


def run(
    *,
    feeds: Annotated[bool, typer.Option("--feeds", help="Tables and sources in place of segments.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """List what the log holds: its segments, or its tables and sources.

    Of each segment its first and last commit, rows, bytes in use, and the oldest and newest time at which a source
    committed; with --feeds the rows of each table, and the last position of each source. --json has all of it.
    Where retention has removed the first commits: with which one the log begins, and the tables' rows that are kept of
    those before. No row is read. Works beside a running `headrace up` and without one.
    """
    from headrace.serve.log import overview

    path = folder(project)
    with display.working("reading the log's contents") as progress:
        answer = overview(path, progress)
    if json:
        display.emit(answer)
        return
    total = answer["total"]
    base = answer["base"]
    if not total["commits"] and not base:
        display.say("the log is empty: no transaction has come in yet")
        return
    if feeds:
        display.records(TABLES, _sized(answer["tables"]))
        display.say()
        sources = [{**s, "position": display.cut(s["position"], POSITION_SHOWN)} for s in answer["sources"]]
        display.records(SOURCES, sources)
    else:
        segments = [{**s, "state": "active" if s["active"] else "sealed"} for s in answer["segments"]]
        display.records(SEGMENTS, _sized(segments))
    display.say(f"\n{_summary(total)}")
    if base:
        rows, size = display.counted(base["rows"], "row"), display.size(base["bytes"])
        display.say(
            f"begins with commit {total['first']:,}; of those before the tables as of commit {base['commit']:,} "
            f"are kept, {rows}, {size}"
        )


def _sized(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**item, "size": display.size(item["bytes"])} for item in items]


def _summary(total: Mapping[str, Any]) -> str:
    held = f"{display.counted(total['segments'], 'segment')}, {display.counted(total['commits'], 'commit')}"
    return f"{held}, {display.counted(total['rows'], 'row')}, {display.size(total['bytes'])}"
