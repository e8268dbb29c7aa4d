"""A class archive for the JVM: Spark's classes parsed and verified once, mapped at every later start.

A cold JVM spends most of its first half minute loading classes; with the archive a session and its first step
take about a quarter of the processor time. ``make setup`` makes it; without it everything works, starting slower.
The JVM checks for itself that an archive fits its version and class path, and does without one that does not.

python -m headrace.engine.archive
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS_MAX = 300


def place() -> Path:
    """Where the archive of this environment lies, whether it is there or not."""
    import pyspark

    return Path(sys.prefix) / "share" / "headrace" / f"spark-{pyspark.__version__}.jsa"


def make() -> Path:
    """Run a small workload in a process of its own whose JVM writes the archive as it ends."""
    target = place()
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_suffix(f".{os.getpid()}")
    environment = {**os.environ, "HEADRACE_JAVA_ARCHIVE": str(made)}
    command = [sys.executable, "-P", "-m", "headrace.engine.archive", "workload"]
    subprocess.run(command, env=environment, check=True, timeout=SECONDS_MAX, stdout=subprocess.DEVNULL)
    made.replace(target)
    return target


def workload() -> None:
    """What a project does first: compile views with each family of operators, and step them."""
    import numpy as np
    import pyarrow as pa

    from headrace.engine.compile import Compiler
    from headrace.engine.kept import Kept
    from headrace.engine.program import assemble
    from headrace.engine.session import open_session
    from headrace.engine.step import Stepper
    from headrace.log.append import LogWriter
    from headrace.model.definition import Settings, ViewDefinition
    from headrace.model.schema import Column, Relation
    from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin

    tables = {
        "a": Relation("a", (Column("id", "bigint", False), Column("k", "bigint"), Column("t", "timestamp")), ("id",)),
        "b": Relation("b", (Column("id", "bigint", False), Column("s", "string")), ("id",)),
    }
    views = {
        "joined": "select s, count(*) n, sum(a.id) t from a join b on a.k = b.id group by s",
        "alone": "select * from b where not exists (select 1 from a where a.k = b.id)",
        "ranked": "select * from (select *, row_number() over (partition by k order by t desc) r from a) where r <= 2",
        "windowed": "select window(t, '1 minute').start m, count(*) n from a group by 1",
    }
    spark = open_session(Settings())
    compilation = Compiler(spark).compile(tables, [ViewDefinition(n, q) for n, q in views.items()], {})
    program = assemble(tables, {v.feed: v.root for v in compilation.views.values()})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, kept = LogWriter(folder / "log"), Kept(folder / "state")
        stepper = Stepper(spark, program, folder / "log", kept, folder / "state", 2)
        rows = 10
        head = [pa.array(np.zeros(rows), pa.int32()), pa.array(np.zeros(rows), pa.int8()), pa.array(np.arange(rows))]
        times = pa.array(np.arange(rows), pa.timestamp("us", tz="UTC"))
        changes = {
            "a": pa.table([*head, pa.array(np.arange(rows)), times], names=[ORDINAL, OPERATION, "id", "k", "t"]),
            "b": pa.table([*head, pa.array(["x"] * rows)], names=[ORDINAL, OPERATION, "id", "s"]),
        }
        for number, wide in enumerate((False, False, True), start=1):
            log.append(TransactionBatch((TransactionOrigin("a", "", 0),), changes))
            kept.add(stepper.run(number, number - 1, number, wide=wide).runs)
        log.close()
    machine = spark.sparkContext._gateway
    spark.stop()
    machine.shutdown()
    machine.proc.stdin.close()  # the JVM ends with its standard input, and writes the archive as it does
    machine.proc.wait(SECONDS_MAX)


if __name__ == "__main__":
    if sys.argv[1:] == ["workload"]:
        workload()
    else:
        sys.stdout.write(f"{make()}\n")
