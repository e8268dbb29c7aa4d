"""headrace wait"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace wait --token 1042 --view revenue    # a push over HTTP answered {"commit": 1042}
headrace wait --token shop:0/16B3748         # pg_current_wal_lsn(), after a COMMIT at source shop
headrace wait --token 1042 --sink local --timeout 5
"""


def run(
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="A commit number, or SOURCE:LSN of a PostgreSQL source; LSN alone where it is the only source.",
        ),
    ],
    *,
    view: Annotated[str | None, typer.Option("--view", metavar="VIEW", help="Wait for this view alone.")] = None,
    sink: Annotated[str | None, typer.Option("--sink", metavar="SINK", help="Wait for this sink alone.")] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait. Default: 60.")
    ] = 60.0,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Wait until a write can be read in the views and the sinks.

    In every live view and every sink, or with --view or --sink in that one. Prints the commit that was reached. Exit
    status 1 when it is not reached in time; the error says which view or sink is how far, and why. A view that has
    failed is not waited for, and is refused at once when asked for.

    Needs a running `headrace up`, unless it was reached before.
    """
    if view is not None and sink is not None:
        raise typer.BadParameter("--view and --sink cannot be given together")
    from headrace.control import wait

    path = folder(project)
    with display.working(f"waiting for {token}") as progress:
        answer = wait.ask(path, {"token": token, "view": view, "sink": sink, "timeout": timeout}, progress)
    if json:
        display.emit(answer)
        return
    stands = "" if answer["token"] == str(answer["commit"]) else f"{answer['token']} is commit {answer['commit']:,}; "
    display.say(display.plain(f"{stands}{answer['of']} has reached commit {answer['reached']:,}"))
