"""What the commands of consumer groups share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headrace.serve.groups import Groups

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="As `headrace groups ls` shows it.")]
ConsumerOption = Annotated[
    str, typer.Option("--consumer", metavar="NAME", help="What this reader is called among those of the group.")
]
LettersArgument = Annotated[
    list[int] | None, typer.Argument(metavar="N", help="Dead letters, as `headrace groups dead ls` numbers them.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters of the group.")]


@contextmanager
def opened(path: Path) -> Iterator[Groups]:
    """The groups of the project, beside a running `headrace up` or without one."""
    from headrace.serve.groups import Groups

    groups = Groups(path)
    try:
        yield groups
    finally:
        groups.close()


@contextmanager
def changing(path: Path, action: str, group: str, relation: str | None = None, **detail: Any) -> Iterator[Groups]:
    """The same for a change, which the audit log is told of: ``action`` is one of ``governance.roles.Action``."""
    from headrace.control.audited import audited
    from headrace.governance.roles import Action

    with audited(path, Action(action), relation, group=group, **detail), opened(path) as groups:
        yield groups


def chosen(numbers: list[int] | None, everything: bool) -> list[int]:
    """The numbers of dead letters that a command is about; none stands for all."""
    if bool(numbers) == everything:
        raise typer.BadParameter("name dead letters, or give --all")
    return numbers or []
