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
    from headrace.catalog.searches import StoredQueries
    from headrace.serve.search.stored import problems

    path = folder(project)
    queries, unread = StoredQueries(path).read()
    wrong = unread | problems(path, queries.values())
    entries = [
        {
            "name": name,
            "view": queries[name].view if name in queries else "",
            "query": queries[name].query if name in queries else "",
            "problem": wrong[name].as_dict() if name in wrong else None,
        }
        for name in sorted(queries | unread)
    ]
    if json:
        display.emit({"queries": entries})
        return
    if not entries:
        display.say("no stored queries; `headrace queries add NAME --view VIEW QUERY` makes one")
        return
    display.records(("name", "view", "query"), entries)
    for name, error in wrong.items():
        display.say(f"  {display.paint(name, 'bold red')}: {display.error_text(error.as_dict())}")
