"""A project whose sources are files, run until all that they hold is in its views."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import OFTEN_S, Memory, percentiles, processor_times, size_of
from headrace.catalog import project
from headrace.engine.pipeline import Pipeline
from headrace.serve import snapshot

LOOK_S = 0.002


def write(folder: Path, settings: Mapping[str, Any], tables: Mapping[str, Path], views: Mapping[str, str]) -> None:
    """The project: ``tables`` are folders of files, ``views`` texts, each by name."""
    (folder / "headrace.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    for kind in ("sources", "views"):
        (folder / kind).mkdir()
    for name, path in tables.items():
        (folder / "sources" / f"{name}.yaml").write_text(f"type: files\npath: {json.dumps(str(path.resolve()))}\n")
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(sql)


def to_the_end(folder: Path, events: int) -> dict[str, Any]:
    """Figures of one run. Time begins when the sources start to read and ends with the last step's publication:
    what Spark compiles meanwhile, and the looks that tell that a file rests, are in it."""
    told: list[tuple[float, dict[str, Any]]] = []
    took: list[float] = []
    with Memory(OFTEN_S) as memory:
        began, before = time.monotonic(), processor_times()
        pipeline = Pipeline(project.read(folder), on_event=lambda event: told.append((time.monotonic(), event)))
        pipeline.start()
        while not pipeline.caught_up():
            if pipeline.error is not None:
                raise pipeline.error
            note(took, pipeline)
            time.sleep(LOOK_S)
        ended, after = time.monotonic(), processor_times()
        pipeline.stop()
        note(took, pipeline)
    started = min(at for at, event in told if event["event"] == "source.started")
    return {
        "events": events, "steps": len(took), **percentiles(took, "step_"),
        "startup_s": round(started - began, 2), "seconds": round(ended - started, 3),
        "per_second": round(events / (ended - started)),
        "processor_seconds": round(sum(after) - sum(before), 2), "system_seconds": round(after[1] - before[1], 2),
        "peak_mib": round(memory.peak), "state_bytes": size_of(folder / snapshot.STATE / "state"),
    }  # fmt: skip


def note(took: list[float], pipeline: Pipeline) -> None:
    """The seconds of the last step, when it is a new one."""
    if pipeline.latest["steps"] > len(took):
        took.append(pipeline.latest["step_seconds"])
