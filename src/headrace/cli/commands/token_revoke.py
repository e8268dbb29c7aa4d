"""headrace token revoke"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.access import opened, shown
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace token revoke dashboard
headrace token revoke 4fd9d7fc
"""


def run(
    token: Annotated[str, typer.Argument(metavar="ID-OR-NAME", help="As `headrace token ls` shows it.")],
    *,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Revoke a token: it opens nothing from the next request on.

    In the place of the owner's, a new one is made in .headrace/tokens/api.
    """
    from headrace.governance.principal import local

    with opened(folder(project)) as access:
        revoked = access.revoke_token(local(), token, address="local")
    if json:
        display.emit(shown(revoked))
        return
    display.say(f"revoked {revoked.id}: {revoked.name}")
