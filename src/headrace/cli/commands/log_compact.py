"""headrace log compact"""

from __future__ import annotations

from headrace.cli import display
from headrace.cli.commands import log_retain
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace log compact
headrace log ls          # what is left
"""


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Keep of each key only its last row, as far as nobody needs the changes in between.

    The whole log up to the last commit that the engine and every sink that is waited for have reached is replaced by
    the tables' rows as of then: one row a key, none for what was deleted. Commits before that one cannot be asked for
    any more. Beside a running `headrace up` or without one.

    Always all tables: a transaction stays whole or goes whole, so that views over several tables stay exact.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("compacting") as progress:
        answer = call(path, "log_compact", {"compact": True}, progress)
    if json:
        display.emit(answer)
    else:
        log_retain.tell(answer)
