"""Goal: a JVM that is lent is as a new one for whom has it, whatever the last one left. Method: real sessions in
processes of their own; one is killed in the midst of a job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import warm_jvm
from waiting import until

SESSION = """
import sys
from headrace.engine.session import open_session
from headrace.model.definition import Settings
spark = open_session(Settings(name="lent", time_zone=sys.argv[1]))
jvm = spark._jvm
print(jvm.java.lang.ProcessHandle.current().pid(), spark.conf.get("spark.sql.session.timeZone"), spark.range(7).count(),
      spark.catalog.tableExists("left"), flush=True)
spark.range(1).createOrReplaceTempView("left")
sys.stdin.read()
spark.stop()
"""


@pytest.fixture(scope="module")
def lending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with warm_jvm.kept() as environment:
        yield {**os.environ, **environment, "TMPDIR": str(tmp_path_factory.mktemp("t"))}


def begin(environment: dict[str, str], zone: str = "UTC") -> tuple[subprocess.Popen[str], list[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SESSION, zone], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def test_one_after_the_other_has_the_same_jvm_and_a_session_of_its_own(lending: dict[str, str]) -> None:
    first, told = begin(lending)
    beside, other = begin(lending)
    assert told[1:] == other[1:] == ["UTC", "7", "False"]
    assert told[0] != other[0]
    first.communicate(timeout=60)
    again, found = begin(lending, "Europe/Berlin")
    assert found == [told[0], "Europe/Berlin", "7", "False"]
    again.send_signal(signal.SIGKILL)
    again.communicate(timeout=60)
    beside.communicate(timeout=60)
    assert (first.returncode, beside.returncode, again.returncode) == (0, 0, -9)
    last, still = begin(lending)
    assert still[0] in (told[0], other[0])
    assert still[1:] == ["UTC", "7", "False"]
    last.communicate(timeout=60)


def test_the_end_of_the_jvm_is_the_end_of_what_stands_for_it(lending: dict[str, str]) -> None:
    process, told = begin(lending)
    lease = next(each for each in psutil.Process(process.pid).children() if "lease.py" in " ".join(each.cmdline()))
    os.kill(int(told[0]), signal.SIGKILL)
    until(lambda: lease.status() == psutil.STATUS_ZOMBIE)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def test_what_it_puts_in_the_place_of_sparks_own_is_a_program() -> None:
    assert os.access(Path(warm_jvm.HOME, "bin/spark-submit"), os.X_OK)
