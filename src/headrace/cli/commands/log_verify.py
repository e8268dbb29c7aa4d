"""headrace log verify"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace log verify
headrace log verify --json | jq .damage
"""
SHOWN = 20  # damaged places in text; --json has all


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Read the whole log and check that every byte is as it was written.

    Checked are all bytes in use: headers, checksums of every group and its rows, the chain of hashes within and
    between segments, commit numbers, the mark that says how far the log is durable. Not looked at is the space behind
    the last acknowledged group. Where there is damage: file and offset, which commits cannot be read, which can; exit
    status 1. Changes nothing; works beside a running `headrace up` and without one.
    """
    from headrace.serve.log import verified

    path = folder(project)
    with display.working("reading the log") as progress:
        answer = verified(path, progress)
    if json:
        display.emit(answer)
    else:
        _show(answer)
    if answer["damage"]:
        raise typer.Exit(1)


def _show(answer: Mapping[str, Any]) -> None:
    damage = answer["damage"]
    held = f"{display.counted(answer['segments'], 'segment')}, {display.counted(answer['commits'], 'commit')}"
    size = f"{display.counted(answer['rows'], 'row')}, {display.size(answer['bytes'])}"
    display.say(f"read {held}, {size} in {answer['seconds']:.1f} s")
    if not damage:
        display.say(display.paint("sound: every byte in use is as it was written", "green"))
        return
    for place in damage[:SHOWN]:
        where = f"{place['segment']}, offset {place['offset']:,}"
        display.say(f"  {display.paint('damaged', 'bold red')} {where}: {display.plain(place['why'])}{_lost(place)}")
    if len(damage) > SHOWN:
        display.say(f"  and {len(damage) - SHOWN:,} more (--json has all)")
    ranges = ", ".join(_range(r["first"], r["last"]) for r in answer["readable"]) or "none"
    verdict = f"{display.counted(len(damage), 'damaged place')}; commits that can be read in whole: {ranges}"
    display.say("\n" + display.paint(verdict, "bold red"))
    display.say(_next(answer))


def _lost(place: Mapping[str, Any]) -> str:
    if place["last"] < place["first"]:
        return ""
    of = f"rows of {display.plain(place['table'])} in " if place["table"] else ""
    commits = "commits" if place["first"] < place["last"] else "commit"
    return f"; cannot be read: {of}{commits} {_range(place['first'], place['last'])}"


def _range(first: int, last: int) -> str:
    return f"{first:,} to {last:,}" if first < last else f"{first:,}"


def _next(answer: Mapping[str, Any]) -> str:
    files = list(dict.fromkeys(place["segment"] for place in answer["damage"]))
    if files == ["durable"]:
        return "next: `headrace up` makes the mark anew; until then nothing of the log can be read"
    if all(place["last"] < place["first"] for place in answer["damage"]):
        return "next: no commit is lost; copy the log to a disk that keeps what is written to it"
    named = ", ".join(files[:3]) + (" and others" if len(files) > 3 else "")
    return (
        f"next: restore {named} in .headrace/log from a copy. Without one: views and sinks keep what they have taken; "
        "to begin anew from the sources, `headrace drop --all`, then `headrace up`"
    )
