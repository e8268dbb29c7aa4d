"""headrace groups read"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import display
from headrace.cli.following import until_interrupted
from headrace.cli.groups import ConsumerOption, GroupArgument, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    from headrace.model.group import GroupDelivery

EPILOG = """
headrace groups read billing                      # one transaction, leased; see groups ack
headrace groups read billing --most 10 --wait 20 --json
headrace groups read billing --follow --ack       # each as it comes; printed is done
"""
WAIT_S = 1.0  # a reader that follows looks so often whether it is to end


def run(
    group: GroupArgument,
    *,
    most: Annotated[
        int, typer.Option("--most", "-n", metavar="N", min=1, help="Transactions to take at once. Default: 1.")
    ] = 1,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait while there is none. Default: 0."),
    ] = 0.0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come, until Ctrl-C.")] = False,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge what has been printed.")] = False,
    consumer: ConsumerOption = "",
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Take the next transactions of a consumer group.

    Each is leased to this reader, and comes again when it is not acknowledged in time: `headrace groups ack GROUP ID`.
    What is due again comes first, then what is new, in the order of commits.

    With --json each line is one transaction, whole: {"id", "commit", "attempt", "snapshot", "committed_at", "source",
    "changes"}. Works beside a running `headrace up` and without one.
    """
    found: list[GroupDelivery] = []
    with opened(folder(project)) as groups, until_interrupted() as stop:
        while True:
            found = groups.read(group, consumer, most, WAIT_S if follow else wait, stop.is_set)
            for delivery in found:
                _tell(delivery, json)
            if ack and found:
                groups.ack(group, *(delivery.id for delivery in found))
            if not follow or stop.is_set():
                break
    if not (found or follow or json or stop.is_set()):
        display.say(f"nothing to read in {group}", error=True)


def _tell(delivery: GroupDelivery, json: bool) -> None:
    if json:
        display.emit(delivery.as_dict(), line=True)
        return
    again = f", delivery {delivery.attempt}" if delivery.attempt > 1 else ""
    snapshot = ", the contents as of then" if delivery.snapshot else ""
    when = f"  {delivery.committed_at}" if delivery.committed_at else ""
    display.say(display.paint(f"{delivery.id}  commit {delivery.commit:,}{when}{snapshot}{again}", "bold"))
    for change in delivery.changes:
        what = change["op"] if "op" in change else f"{change['weight']:+d}"
        values = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in change["row"].items())
        display.say(display.cut(f"  {what:<8} {values}".rstrip()))
