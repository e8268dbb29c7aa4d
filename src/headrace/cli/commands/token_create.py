"""headrace token create"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.access import lifetime, opened, shown
from headrace.cli.options import JsonOption, ProjectOption, folder, one_of
from headrace.governance.roles import Role

EPILOG = """
headrace token create dashboard --only 'sales_*' --only orders --expires 30d
headrace token create ann --grant 'editor:sales_*'    # reads all, changes what is stored of these
headrace token create deploy --role editor --json | jq -r .token
"""


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is for; the audit log tells it.")],
    *,
    role: Annotated[
        Role,
        typer.Option(
            "--role",
            metavar="ROLE",
            parser=one_of(Role, "role"),
            help="viewer reads; editor also changes definitions and settles the quarantine; operator also pauses,"
            " rebuilds, keeps safe, stops; admin also makes tokens and reads the audit log. Default: viewer.",
        ),
    ] = Role.VIEWER,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PATTERN",
            help="The views and tables that it reaches, by name; * stands for any letters, ? for one. May be given"
            " several times. Default: all.",
        ),
    ] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="ROLE:PATTERN",
            help="Views and tables that it reaches too, with a role of their own. May be given several times.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="When it ends: 12h, 30d. Default: when it is revoked."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token for the API and for psql, and show it this once.

    Only a hash of it is kept. What a limited token does not reach is for it as if it were not there.

    Works beside a running `headrace up`, from the next request on, and without one.
    """
    from headrace.governance import tokens
    from headrace.governance.principal import local

    lifetime_s, raised = lifetime(expires), [tokens.grant(text) for text in grant or ()]
    with opened(folder(project)) as access:
        made, token = access.create_token(local(), name, role, only or (), lifetime_s, raised, address="local")
    entry = shown(made)
    if json:
        display.emit({**entry, "token": token})
        return
    display.say(token)
    reach = f", limited to {', '.join(made.grants)}" if made.grants else ""
    reach += "".join(f", {raised_to} of {pattern}" for raised_to, pattern in made.raised)
    until = f" until {entry['expires']}" if entry["expires"] else ""
    display.say(f"{made.id}: {name}, {role}{reach}{until}. It is not shown again.", error=True)
