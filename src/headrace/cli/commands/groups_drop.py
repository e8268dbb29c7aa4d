"""headrace groups drop"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import GroupArgument, changing, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups drop billing
headrace groups drop billing --yes
"""


def run(
    group: GroupArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Drop a consumer group, with its place in the feed and its dead letters.

    The feed itself stays as it is.
    """
    path = folder(project)
    with opened(path) as groups:
        dead = len(groups.dead(group))
    question = f"Drop the group {group} and its {display.counted(dead, 'dead letter')}?"
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"{question} This is not a terminal to ask at: say --yes")
        typer.confirm(question, abort=True, err=True)
    with changing(path, "group_drop", group) as groups:
        groups.drop(group)
    if json:
        display.emit({"dropped": group, "dead": dead})
        return
    display.say(f"dropped the group {group}")
