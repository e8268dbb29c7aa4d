"""headrace token ls"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.access import opened, shown
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace token ls
headrace token ls --all --json | jq '.tokens[] | select(.state == "live") | .name'
"""
FIELDS = ("id", "name", "role", "only", "state", "created", "expires", "last_used")


def run(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over, or were revoked.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """List the tokens, each with what it may do, until when, and when it was last used.

    No token is shown itself: only hashes are kept. The last use is told to the minute.
    """
    with opened(folder(project)) as access:
        entries = [shown(token) for token in access.tokens.all()]
    entries = [entry for entry in entries if everything or entry["state"] == "live"]
    if json:
        display.emit({"tokens": entries})
        return
    if not entries:
        display.say("no tokens; `headrace token create NAME` makes one")
        return
    display.records(FIELDS, [{**entry, "only": ", ".join(entry["only"]) or "all"} for entry in entries])
