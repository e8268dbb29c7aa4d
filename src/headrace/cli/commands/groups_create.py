"""headrace groups create"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import changing
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups create billing orders              # what the log has of a table, then what comes
headrace groups create alerts late_orders --from now --ordered
headrace groups create parcels late_parcels       # what a stored query of that name matches
headrace groups create audit orders --from 1042 --max-deliveries 20 --lease 300
"""


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the group is to be called.")],
    relation: Annotated[str, typer.Argument(metavar="FEED", help="What it follows: a view, table or stored query.")],
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="START",
            help="beginning (of a view or query: its contents first), now, or the commit after which it begins."
            " Default: beginning.",
        ),
    ] = "beginning",
    lease: Annotated[
        float, typer.Option("--lease", metavar="SECONDS", help="How long a reader has for a delivery. Default: 30.")
    ] = 30.0,
    max_deliveries: Annotated[
        int,
        typer.Option(
            "--max-deliveries",
            metavar="N",
            help="A transaction that was delivered so often without an acknowledgement is a dead letter. Default: 5.",
        ),
    ] = 5,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="One delivery at a time: the next comes when the one before is settled.")
    ] = False,
    in_flight: Annotated[
        int,
        typer.Option("--in-flight", metavar="N", help="How many may be unsettled at a time. Default: 1000."),
    ] = 1_000,
    hold: Annotated[
        bool,
        typer.Option("--hold/--no-hold", help="Whether what it still needs is kept for it. Default: yes."),
    ] = True,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Make a consumer group over the feed of a table or a view, or over what a stored query matches.

    Several readers of one group share its transactions; readers that are each to have all of them have a group each.
    """
    begin: str | int = int(start) if start.isascii() and start.isdigit() else start
    with changing(folder(project), "group_create", name, relation) as groups:
        entry = groups.create(
            name, relation, start=begin, lease_s=lease, max_deliveries=max_deliveries, ordered=ordered,
            in_flight=in_flight, hold=hold,
        )  # fmt: skip
    if json:
        display.emit(entry)
        return
    display.say(f"{name} follows the {entry['kind']} {display.plain(entry['relation'])} after commit {entry['read']:,}")
