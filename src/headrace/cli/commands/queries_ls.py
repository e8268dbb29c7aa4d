"""headrace queries ls"""

from __future__ import annotations

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace queries ls
headrace queries ls --json | jq '.queries[] | select(.problem) | .name'
"""


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """List the stored queries, and what is wrong with which of them.

    One with a problem matches nothing until it is corrected; the others are not concerned.
    """
    from headrace.serve.search.stored import listed

    entries = listed(folder(project))
    if json:
        display.emit({"queries": entries})
        return
    if not entries:
        display.say("no stored queries; `headrace queries add NAME --view VIEW QUERY` makes one")
        return
    display.records(("name", "view", "query"), entries)
    for entry in entries:
        if entry["problem"] is not None:
            display.say(f"  {display.paint(entry['name'], 'bold red')}: {display.error_text(entry['problem'])}")
