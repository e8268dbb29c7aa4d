"""headrace log retain"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import display, moment
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace log retain                         # as `retention:` of headrace.yaml says, now
headrace log retain --before 2026-03-01     # what sources committed before that day
headrace log retain --before 1042 --dry-run
"""


def run(
    *,
    before: Annotated[
        str | None, typer.Option("--before", metavar="COMMIT|TIME", help=f"Begin there: {moment.HINT}.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go; remove nothing.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the log's beginning, whole segments at a time.

    First every table's rows as of then are written down and synced: new views, `verify` and `show TABLE --at` go on
    from them. What the engine, a sink that is waited for or the quarantine still needs stays; who holds it back is
    told. `headrace up` does it by itself where headrace.yaml has `retention:`. Beside a running `up` or without one.
    """
    from headrace.catalog.project import read
    from headrace.control.verbs import call

    path = folder(project)
    retention = read(path).settings.retention
    if before is None and retention.keep_s is None and retention.keep_bytes is None:
        raise typer.BadParameter("give --before, or write `retention:` into headrace.yaml (keep: 7 days)")
    arguments = {"before": _commit(path, before) if before else None, "dry_run": dry_run}
    with display.working("removing") as progress:
        answer = call(path, "log_retain", arguments, progress)
    if json:
        display.emit(answer)
    else:
        tell(answer, dry_run=dry_run)


def tell(answer: Mapping[str, Any], *, dry_run: bool = False) -> None:
    """What went, in words."""
    gone = f"{display.counted(answer['segments'], 'segment')}, {display.size(answer['bytes'])}"
    if not answer["segments"]:
        display.say(f"nothing to remove; the log begins with commit {answer['first']:,}")
    elif dry_run:
        display.say(f"would remove {gone}; the log would begin with commit {answer['first']:,}")
    elif answer["removed"]:
        display.say(f"removed {gone}; the log begins with commit {answer['first']:,}")
    else:
        display.say("nothing was removed: somebody reads the log from its beginning; try again later")
    if answer["held"]:
        display.say(f"the rest is needed behind commit {answer['held']['commit']:,}: {answer['held']['by']}")


def _commit(path: Path, before: str) -> int:
    commit, time_us = moment.parse(before, "--before")
    if time_us is None:
        assert commit is not None
        return commit
    from headrace.serve import history

    return history.first_since(history.reader_of(path), time_us)
