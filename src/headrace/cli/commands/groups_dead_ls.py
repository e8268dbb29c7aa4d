"""headrace groups dead ls"""

from __future__ import annotations

from typing import Any

from headrace.cli import display
from headrace.cli.groups import GroupArgument, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups dead ls billing
headrace groups dead ls billing --json | jq -r '.dead[] | [.number, .reason] | @tsv'
"""


def run(group: GroupArgument, *, project: ProjectOption = None, json: JsonOption = False) -> None:
    """List the transactions that a consumer group has given up, oldest first."""
    from headrace.serve.history import time_text

    with opened(folder(project)) as groups:
        letters: list[dict[str, Any]] = [
            {
                "number": letter.number, "commit": letter.commit, "deliveries": letter.attempt,
                "given_up_at": time_text(letter.at_us), "reason": letter.reason,
            }
            for letter in groups.dead(group)
        ]  # fmt: skip
    if json:
        display.emit({"dead": letters})
        return
    if not letters:
        display.say(f"{group} has no dead letters")
        return
    display.records(("number", "commit", "deliveries", "given_up_at", "reason"), letters)
