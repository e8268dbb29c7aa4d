"""headrace queries rm"""

from __future__ import annotations

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder
from headrace.cli.queries import NameArgument

EPILOG = """
headrace queries rm late
"""


def run(name: NameArgument, project: ProjectOption = None, json: JsonOption = False) -> None:
    """Remove a stored query, its file searches/NAME.yaml.

    For those who watch it all that it matches goes.
    """
    from headrace.catalog import searches
    from headrace.control.audited import audited
    from headrace.governance.roles import Action

    path = folder(project)
    with audited(path, Action.QUERY_REMOVE, query=name):
        file = searches.remove(path, name).relative_to(path).as_posix()
    if json:
        display.emit({"removed": name, "file": file})
        return
    display.say(f"removed {file}")
