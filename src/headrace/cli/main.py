"""The command line: which command is which file, and what an error does. Wiring only."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import typer

from headrace import __version__
from headrace.cli import display
from headrace.cli.help import SectionHelp, VerbHelp
from headrace.model.errors import HeadraceError

T = TypeVar("T")
EPILOG = """
headrace demo                    # all of it at work on a small shop; no service needed
headrace init shop && cd shop    # a project that works as it is
headrace plan                    # what will be made, and how each view is kept up to date
headrace up                      # run it; the commands below work beside it, in another terminal
headrace show VIEW               # the view now
headrace watch VIEW              # its changes as they come
"""
STDOUT = "stdout"
# In the order in which they are used; the help shows them so. Each is a file of headrace.cli.commands.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Begin": ("demo", "init"),
    "Run a project": ("doctor", "plan", "up", "apply", "status", "pause", "resume", "stop"),
    "Read views": ("views", "show", "watch", "search", "queries", "sql", "series", "wait", "frontier", "groups"),
    "Look closer": ("explain", "lineage", "profile", "top", "verify", "repair", "test", "log", "quarantine", "alerts"),
    "Keep safe": ("backup", "restore", "rebuild", "migrate"),
    "Give access": ("token", "audit"),
    "Remove": ("drop",),
    "Other": ("help", "version"),
}
# Commands of commands: what each is for, and its verbs; `headrace groups dead ls` is the file groups_dead_ls.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "log": (
        "Look at the log: what came in, transaction by transaction; let its beginning go.",
        ("ls", "cat", "tail", "verify", "retain", "compact"),
    ),
    "quarantine": (
        "Look at what was not taken in, correct it, send it again, drop it.",
        ("list", "show", "fix", "replay", "drop"),
    ),
    "alerts": (
        "Look at what a webhook or a mail could not tell, send it again, drop it.",
        ("ls", "show", "replay", "drop"),
    ),
    "groups": (
        "Read a table's or view's changes in groups, acknowledge them.",
        ("ls", "create", "drop", "read", "ack", "nack", "extend", "dead"),
    ),
    "queries": (
        "Store queries, and follow what they match in the changes of views.",
        ("ls", "add", "change", "rm", "show", "watch"),
    ),
    "token": ("Make, list and revoke the tokens of the API and of psql.", ("create", "ls", "revoke")),
    "groups dead": ("Look at what a group has given up, deliver it again, drop it.", ("ls", "show", "replay", "drop")),
}


def app(arguments: Sequence[str] = ()) -> typer.Typer:
    """All commands; only the first of ``arguments`` when it is one: to make all of them takes 0.1 s."""
    made = typer.Typer(
        name="headrace",
        cls=SectionHelp,
        epilog=EPILOG,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(headrace)
    named = {name for names in SECTIONS.values() for name in names}.intersection(arguments[:1])
    for heading, names in SECTIONS.items():
        for name in names:
            if name in (named or names):
                _add(made, name, heading)
    return made


def _add(parent: typer.Typer, words: str, heading: str | None = None) -> None:
    """The command, or the commands, of ``words`` ("groups dead ls") under its last word."""
    name = words.rpartition(" ")[2]
    if words in GROUPS:
        text, verbs = GROUPS[words]
        group = typer.Typer(cls=SectionHelp, help=text, no_args_is_help=True)
        for verb in verbs:
            _add(group, f"{words} {verb}")
        parent.add_typer(group, name=name, rich_help_panel=heading)
    else:
        module = import_module(f"headrace.cli.commands.{words.replace(' ', '_')}")
        parent.command(name, cls=VerbHelp, epilog=module.EPILOG, rich_help_panel=heading)(module.run)


def _version(wanted: bool) -> None:
    if wanted:
        display.say(f"headrace {__version__}")
        raise typer.Exit


def headrace(
    show_version: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Show the version."),
) -> None:
    """SQL views kept up to date, incrementally and transactionally, on Apache Spark.

    A project is a folder: headrace.yaml, sources/NAME.yaml, views/NAME.sql (one SELECT each), sinks/NAME.yaml,
    tests/NAME.yaml.
    Exit status: 0 done, 1 failed or different, 2 wrong usage, 130 interrupted.
    """


def main() -> None:
    """The entry point of the ``headrace`` command."""
    _name_stdout()
    try:
        app(sys.argv[1:])()
    except HeadraceError as failure:
        display.error(failure)
        sys.exit(1)
    except Exception as failure:
        if os.environ.get("HEADRACE_DEBUG"):
            raise
        if getattr(failure, "filename", None) is STDOUT:  # itself, and no file of that name
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left for it would fail at the end
        display.error(_of_the_disk(failure) or _fault(failure))
        sys.exit(1)


def _named(write: Callable[..., T]) -> Callable[..., T]:
    """The same, whose errors name the standard output: it need not be on the disk of the project."""

    def named(*given: Any) -> T:
        try:
            return write(*given)
        except OSError as refused:
            refused.filename = STDOUT
            raise

    return named


class _Buffered(io.BufferedWriter):
    # Not the file below it: Ctrl-C amid Python code there keeps the buffer from hearing what it has written, which is
    # written again at the end.
    write, flush = _named(io.BufferedWriter.write), _named(io.BufferedWriter.flush)


class _Unbuffered(io.FileIO):
    write = _named(io.FileIO.write)


def _name_stdout() -> None:
    plain = sys.stdout
    if not isinstance(plain, io.TextIOWrapper):
        return
    with suppress(OSError, ValueError):  # it is closed, or no file
        through, file = plain.write_through, plain.fileno()
        named = _Unbuffered(file, "wb", closefd=False) if through else _Buffered(io.FileIO(file, "wb", closefd=False))
        sys.stdout = io.TextIOWrapper(
            cast("BinaryIO", named), plain.encoding, plain.errors,
            line_buffering=plain.line_buffering, write_through=through,
        )  # fmt: skip


def _of_the_disk(failure: Exception) -> HeadraceError | None:
    """A disk that is full or refuses, whichever part of whichever command met it."""
    from headrace.catalog.project import STATE
    from headrace.engine.disk import refusal

    kept = (display.OUTPUT.project or Path.cwd()) / STATE
    return refusal(failure, kept, "then run the command again: nothing acknowledged is lost")


def _fault(failure: Exception) -> HeadraceError:
    return HeadraceError(
        "internal",
        f"{type(failure).__name__}: {failure}",
        why="this is a fault in Headrace, not in your project",
        next="run it again with HEADRACE_DEBUG=1 for the details, and report them",
    )
