"""headrace status"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace status
headrace status --json | jq -e '.state == "running"'     # a health check
"""
FIELDS = {  # those that are there are shown
    "sources": ("name", "type", "state", "tables", "rows", "position", "endpoint"),
    "views": ("name", "version", "state", "commit", "behind_s", "rows"),
    "sinks": ("name", "type", "state", "frontier", "lag", "behind_s", "rows"),
}

POSITION_SHOWN = 24  # characters of a position in a table; --json has all of it


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Show whether the project runs, and how far it is.

    Each source with its state and position; each view and sink with the commit it has reached and how many
    seconds it is behind: the age of the first commit that it lacks.
    """
    path = folder(project)
    answer = look(path)
    if json:
        display.emit(answer)
    else:
        show(answer)


def look(path: Path) -> dict[str, Any]:
    """The status from the running `up`, or what its files tell when none runs."""
    from headrace.control import socket, verbs

    if socket.running(path):
        return verbs.call(path, "status", {}, lambda event: None)
    from headrace.cli.published import first_commit, sinks, views

    found = {"views": views(path), "sources": [], "sinks": sinks(path)}
    return {"state": "stopped", "first": first_commit(path), **found}


def show(answer: Mapping[str, Any]) -> None:
    """The status as text."""
    by = f" (process {answer['pid']})" if answer.get("pid") else ""
    at = f", commit {answer['commit']:,}, views at {answer['frontier']:,}" if _numbers(answer) else ""
    begins = f"; the log begins with commit {answer['first']:,}" if answer.get("first", 1) > 1 else ""
    display.say(f"{answer['state']}{by}{at}{begins}")
    if answer["state"] == "stopped":
        display.say("`headrace up` runs it; the views below are as it left them.")
    for kind, names in FIELDS.items():
        items: Sequence[Mapping[str, Any]] = answer.get(kind) or []
        if items:
            display.say(f"\n{display.paint(kind, 'bold')}")
            display.records(names, [_readable(item) for item in items])
        for item in items:  # in full, which a column of a table has no room for
            problem = item.get("error") or item.get("reason")
            if problem:
                display.say(
                    f"  {display.paint(display.plain(item['name']), 'bold red')}: {display.error_text(problem)}"
                )
            for one in item.get("copying") or ():
                display.say(f"  {display.plain(item['name'])}: {display.copying(one)}")
            for line in _pressure(item):
                display.say(f"  {display.paint(display.plain(item['name']), 'bold red')}: {line}")
            for warning in item.get("warnings") or ():
                display.say(f"  {display.paint(display.plain(item['name']), 'bold red')}: {display.plain(warning)}")
            for of, rows in (item.get("quarantined") or {}).items():
                name = display.paint(display.plain(item["name"]), "bold red")
                display.say(f"  {name}: {_quarantined(kind, item, display.plain(of), rows)}")


def _pressure(item: Mapping[str, Any]) -> Iterator[str]:
    """What a source did since it was started because more came than was taken."""
    if item.get("waits"):
        behind = display.counted(item["backlog"], "change")
        yield f"waits: {behind} are not taken yet (max_backlog: {item['max_backlog']:,})"
    if item.get("refused"):
        yield f"refused {display.counted(item['refused'], 'request')} since it was started: its queue was full"
    if item.get("dropped"):
        requests = display.counted(item["dropped"], "request")
        yield f"dropped {requests} since it was started, {display.size(item['dropped_bytes'])} (when_full: drop)"


def _quarantined(kind: str, item: Mapping[str, Any], of: str, rows: int) -> str:
    if kind == "sinks":
        told = item["quarantine"]
        return f"{told['what']} {display.counted(rows, 'row')} of {of}; see {told['where']}"
    if kind == "views":
        return f"it goes on without {display.counted(rows, 'row')}; see `headrace quarantine list {of}`"
    return f"{of} could not take {display.counted(rows, 'change')}; see `headrace quarantine list {of}`"


def _numbers(answer: Mapping[str, Any]) -> bool:
    return isinstance(answer.get("commit"), int) and isinstance(answer.get("frontier"), int)


def _position(text: str) -> str:
    """A source's own position, as short as it can be told apart: PostgreSQL's LSN, or the first characters."""
    import json

    try:
        place = json.loads(text)
    except ValueError:
        place = text
    if isinstance(place, dict) and isinstance(place.get("lsn"), str):
        return str(place["lsn"])
    return text if len(text) <= POSITION_SHOWN else text[:POSITION_SHOWN] + "..."


def _readable(item: Mapping[str, Any]) -> dict[str, Any]:
    """Lists in words, positions short."""
    shown = dict(item)
    for name, value in item.items():
        if isinstance(value, list):
            shown[name] = ", ".join(str(part) for part in value)
        elif name == "position" and value:
            shown[name] = _position(value)
    return shown
