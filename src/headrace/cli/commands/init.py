"""headrace init"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, one_of
from headrace.control import init

EPILOG = """
headrace init --list                      # the templates, and what each is for
headrace init shop                        # a project that takes changes over HTTP
headrace init shop --template postgres    # one that replicates a PostgreSQL database
headrace init ads --template ctr          # click-through rates: clicks joined to the ads shown
headrace init . --template files          # one that follows a folder of files
"""


def run(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder, made when missing. Default: this one.")
    ] = Path(),
    template: Annotated[
        init.Template,
        typer.Option(
            "--template",
            "-t",
            metavar="NAME",
            help="http (the default), postgres, ctr or files.",
            parser=one_of(init.Template, "template", "; `headrace init --list` tells what each is for"),
        ),
    ] = init.Template.http,
    listed: Annotated[bool, typer.Option("--list", help="Show the templates, and make nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Start a project from a template.

    It gets a headrace.yaml, a source, a view, a sink and a test, each with comments, and a README.md with the commands
    to begin with. The project works as it is; change it from there. Nothing that exists is overwritten.
    """
    if listed:
        _list(json)
        return
    made = init.run(directory, template)
    if json:
        display.emit({"project": str(directory.resolve()), "files": made})
        return
    for name in made:
        display.say(f"  + {name}")
    enter = "" if directory.resolve() == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    display.say(f"\nNext: {enter}headrace plan")
    if "README.md" in made:
        display.say("Then: the commands of its README.md")


def _list(json: bool) -> None:
    templates = [{"name": template.value, "about": template.about} for template in init.Template]
    if json:
        display.emit({"templates": templates})
    else:
        display.records(("name", "about"), templates)
