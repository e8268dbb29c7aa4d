"""headrace alerts ls"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace alerts ls
headrace alerts ls hook --limit 5
headrace alerts ls hook --json | jq -r '.dead[] | [.number, .reason] | @tsv'
"""
SHOWN = 100  # dead letters in text, unless asked otherwise


def run(
    sink: Annotated[str | None, typer.Argument(metavar="[SINK]", help="One sink alone.")] = None,
    *,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=1, help=f"Dead letters to show. Default: {SHOWN}; all as JSON."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """List what sinks of type webhook, mail and page could not tell, oldest first, and how much waits in them."""
    from headrace.sinks.alerts.dead import DeadLetters

    letters = DeadLetters(folder(project))
    sinks = letters.sinks() if sink is None else [sink]
    waiting = {name: letters.waiting(name) for name in sinks}
    found, more = letters.first(sinks, limit if limit is not None or json else SHOWN)
    counts = {name: letters.count(name) for name in sinks}
    dead = [letter.as_dict() for letter in found]
    if json:
        display.emit({"waiting": waiting, "letters": counts, "dead": dead})
        return
    for name, count in waiting.items():
        told = f"{display.counted(count, 'message')} to be sent, {display.counted(counts[name], 'dead letter')}"
        display.say(f"{name}: {told}")
    if not dead:
        display.say("there are no dead letters")
        return
    display.records(("sink", "number", "view", "commit", "rows", "given_up_at", "reason"), dead)
    if more:
        display.say(f"\n{display.counted(len(dead), 'dead letter')} (--limit shows more)")
