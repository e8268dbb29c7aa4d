"""headrace groups ls"""

from __future__ import annotations

from headrace.cli import display
from headrace.cli.groups import opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups ls
headrace groups ls --json | jq '.groups[] | select(.dead > 0) | .name'
"""
FIELDS = ("name", "relation", "frontier", "lag", "in_flight", "waiting", "dead", "ordered", "hold")


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """List the consumer groups.

    Each with the table, view or stored query that it follows; its frontier, the commit up to which all is acknowledged
    or given up; lag, the commits between it and the end of the feed; how many transactions are with readers (in
    flight), given back or not acknowledged in time (waiting), and given up (dead). hold: what it needs is not forgotten
    meanwhile.

    Works beside a running `headrace up` and without one.
    """
    with opened(folder(project)) as groups:
        entries = groups.entries()
    if json:
        display.emit({"groups": entries})
        return
    if not entries:
        display.say("no groups; `headrace groups create NAME FEED` makes one")
        return
    display.records(
        FIELDS, [{**e, **{name: "yes" if e[name] else "no" for name in ("ordered", "hold")}} for e in entries]
    )
    for entry in entries:
        if entry["problem"]:
            display.say(f"  {display.paint(entry['name'], 'bold red')}: {display.plain(entry['problem'])}")
