"""The command line: which command is which file, and what an error does. Wiring only."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import typer

from headrace import __version__
from headrace.cli import display
from headrace.cli.commands import (
    apply,
    backup,
    demo,
    doctor,
    drop,
    explain,
    frontier,
    groups_ack,
    groups_create,
    groups_dead_drop,
    groups_dead_ls,
    groups_dead_replay,
    groups_dead_show,
    groups_drop,
    groups_extend,
    groups_ls,
    groups_nack,
    groups_read,
    init,
    log_cat,
    log_compact,
    log_ls,
    log_retain,
    log_tail,
    log_verify,
    migrate,
    plan,
    profile,
    quarantine_drop,
    quarantine_fix,
    quarantine_list,
    quarantine_replay,
    quarantine_show,
    rebuild,
    repair,
    restore,
    show,
    sql,
    status,
    stop,
    test,
    up,
    verify,
    version,
    views,
    wait,
    watch,
)
from headrace.cli.help import SectionHelp, VerbHelp
from headrace.model.errors import HeadraceError

EPILOG = """
headrace demo                    # all of it at work on a small shop; no service needed
headrace init shop && cd shop    # a project that works as it is
headrace plan                    # what will be made, and how each view is kept up to date
headrace up                      # run it; the commands below work beside it, in another terminal
headrace show VIEW               # the view now
headrace watch VIEW              # its changes as they come
"""
# In the order in which they are used; the help shows them so.
SECTIONS: tuple[tuple[str, tuple[ModuleType, ...]], ...] = (
    ("Begin", (demo, init)),
    ("Run a project", (doctor, plan, up, apply, status, stop)),
    ("Read views", (views, show, watch, sql, wait, frontier)),
    ("Look closer", (explain, profile, verify, repair, test)),
    ("Keep safe", (backup, restore, rebuild, migrate)),
    ("Remove", (drop,)),
    ("Other", (version,)),
)

app = typer.Typer(
    name="headrace",
    cls=SectionHelp,
    epilog=EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        display.say(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def headrace(
    show_version: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Show the version."),
) -> None:
    """SQL views kept up to date, incrementally and transactionally, on Apache Spark.

    A project is a folder: headrace.yaml, sources/NAME.yaml, views/NAME.sql (one SELECT each), sinks/NAME.yaml,
    tests/NAME.yaml.
    Exit status: 0 done, 1 failed or different, 2 wrong usage, 130 interrupted.
    """


for _heading, _modules in SECTIONS:
    for _module in _modules:
        _name = _module.__name__.rpartition(".")[2]
        app.command(_name, cls=VerbHelp, epilog=_module.EPILOG, rich_help_panel=_heading)(_module.run)


_log = typer.Typer(
    cls=SectionHelp,
    help="Look at the log: what came in, transaction by transaction; let its beginning go.",
    no_args_is_help=True,
)
for _name, _module in (
    ("ls", log_ls), ("cat", log_cat), ("tail", log_tail), ("verify", log_verify), ("retain", log_retain),
    ("compact", log_compact),
):  # fmt: skip
    _log.command(_name, cls=VerbHelp, epilog=_module.EPILOG)(_module.run)
app.add_typer(_log, name="log", rich_help_panel="Look closer")

_quarantine = typer.Typer(
    cls=SectionHelp,
    help="Look at what was not taken in, correct it, send it again, drop it.",
    no_args_is_help=True,
)
for _name, _module in (
    ("list", quarantine_list), ("show", quarantine_show), ("fix", quarantine_fix), ("replay", quarantine_replay),
    ("drop", quarantine_drop),
):  # fmt: skip
    _quarantine.command(_name, cls=VerbHelp, epilog=_module.EPILOG)(_module.run)
app.add_typer(_quarantine, name="quarantine", rich_help_panel="Look closer")

_groups = typer.Typer(
    cls=SectionHelp,
    help="Read a table's or view's changes in groups, acknowledge them.",
    no_args_is_help=True,
)
for _name, _module in (
    ("ls", groups_ls), ("create", groups_create), ("drop", groups_drop), ("read", groups_read), ("ack", groups_ack),
    ("nack", groups_nack), ("extend", groups_extend),
):  # fmt: skip
    _groups.command(_name, cls=VerbHelp, epilog=_module.EPILOG)(_module.run)
_dead = typer.Typer(
    cls=SectionHelp, help="Look at what a group has given up, deliver it again, drop it.", no_args_is_help=True
)
for _name, _module in (
    ("ls", groups_dead_ls), ("show", groups_dead_show), ("replay", groups_dead_replay), ("drop", groups_dead_drop),
):  # fmt: skip
    _dead.command(_name, cls=VerbHelp, epilog=_module.EPILOG)(_module.run)
_groups.add_typer(_dead, name="dead")
app.add_typer(_groups, name="groups", rich_help_panel="Read views")


def main() -> None:
    """The entry point of the ``headrace`` command."""
    try:
        app()
    except HeadraceError as failure:
        display.error(failure)
        sys.exit(1)
    except Exception as failure:
        if os.environ.get("HEADRACE_DEBUG"):
            raise
        fault = HeadraceError(
            "internal",
            f"{type(failure).__name__}: {failure}",
            why="this is a fault in Headrace, not in your project",
            next="run it again with HEADRACE_DEBUG=1 for the details, and report them",
        )
        display.error(fault)
        sys.exit(1)
