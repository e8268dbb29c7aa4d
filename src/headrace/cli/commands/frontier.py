"""headrace frontier"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace frontier
headrace frontier --json | jq .least     # what every live view and every sink has reached
"""
FIELDS = ("name", "state", "commit", "lag", "behind_s")


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Show which commit each view and sink has reached, and the least of them.

    All that was written up to the least is in every live view and in every sink. A view that has failed is stale:
    it is listed, but is not in the least. lag counts the commits of the log that a view or sink lacks; behind is the
    age of the first of them, in seconds.

    Works beside a running `headrace up` and without one.
    """
    from headrace.control import frontier

    answer = frontier.look(folder(project))
    if json:
        display.emit(answer)
    else:
        show(answer)


def show(answer: Mapping[str, Any]) -> None:
    """The frontier as text."""
    display.say(f"{answer['state']}; the log is at commit {answer['commit']:,}")
    least = display.paint(f"{answer['least']:,}", "bold")
    behind = (
        f", {display.counted(answer['lag'], 'commit')} and {answer['behind_s']:g} s behind" if answer["lag"] else ""
    )
    display.say(f"every live view and every sink has reached commit {least}{behind}")
    for kind in ("views", "sinks"):
        if answer[kind]:
            display.say(f"\n{display.paint(kind, 'bold')}")
            display.records(FIELDS, answer[kind])
        for item in answer[kind]:  # in full, which a column of a table has no room for
            name = display.paint(display.plain(item["name"]), "bold red")
            if not item["in_least"]:
                display.say(f"  {name}: stale, not in the least: {display.one_line(item['reason'])}")
            elif item.get("error"):
                display.say(f"  {name}: {display.error_text(item['error'])}")
