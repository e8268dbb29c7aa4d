"""show: a view as of a commit that nothing published tells of, computed by its query over the log up to there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalog.project import read
from headrace.control import lock
from headrace.control.running import Progress, Running

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.engine.recompute import Recomputed


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"rows", "clock_us"}`` of ``view`` as of ``commit``: see ``engine.recompute``; ``table`` reads the rows."""
    view, commit = str(arguments["view"]), int(arguments["commit"])
    return _spelled(running.pipeline.recompute(view, commit, progress))


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs: Spark is started for it, and no state is read."""
    from headrace.catalog.store import Catalog
    from headrace.engine import recompute
    from headrace.engine.functions import functions_of
    from headrace.engine.session import open_session
    from headrace.serve import history, snapshot

    view, commit = str(arguments["view"]), int(arguments["commit"])
    project = read(path)
    with lock.hold(path, "headrace show"):
        catalog = Catalog(snapshot.catalog_path(path), read_only=True)
        try:
            known = recompute.Definitions.of(catalog)
        finally:
            catalog.close()
        progress({"text": "starting Spark"})
        spark = open_session(project.settings)
        try:
            log = path / snapshot.STATE / history.LOG
            return _spelled(recompute.recompute(spark, functions_of(project), log, known, view, commit, progress))
        finally:
            spark.stop()


def table(answer: Mapping[str, Any]) -> pa.Table:
    """The rows of an answer: a view's columns and ``_w``."""
    import pyarrow as pa

    return pa.ipc.open_stream(base64.b64decode(answer["rows"])).read_all()


def _spelled(found: Recomputed) -> dict[str, Any]:
    """As JSON carries it: the rows as an Arrow stream in base64, so that every value stays what it is."""
    import pyarrow as pa

    stream = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(stream, found.rows.schema, options=options) as writer:
        writer.write_table(found.rows)
    return {"rows": base64.b64encode(stream.getvalue()).decode(), "clock_us": found.clock_us}
