"""repair: the rows that differ in a sink's store are written again, and no others, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.catalog import place
from headrace.catalog.project import read
from headrace.control import lock
from headrace.control.running import Progress, Running
from headrace.control.sink_rows import asked, catalogue, spelled


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """What was wrong, as ``verify`` with ``sink`` tells it, and now is not any more.

    It is carried out between two deliveries. With ``dry_run`` it only looks.
    """
    if arguments.get("dry_run"):
        return spelled(running.pipeline.verify_sink(*asked(arguments), progress))
    return spelled(running.pipeline.repair(*asked(arguments), progress))


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs: no Spark is started; the sink is taken over as at a start of `up`.

    Raises ``project.copied`` where the sink is another folder's.
    """
    from headrace.engine import check_sink

    project = read(path)
    if not arguments.get("dry_run"):
        place.check(path)
    work = check_sink.verify if arguments.get("dry_run") else check_sink.repair
    with lock.hold(path, "headrace repair"), catalogue(path) as catalog:
        return spelled(work(project, catalog, *asked(arguments), progress))
