"""How long each file of the tests takes: the ledger of what it took (times.csv), what it takes now, and the budgets.

The ledger has a line a file, the longest first: the file below tests/, its tests, their seconds when all of them run
(README.md says on which machine), and the fixture of a session that it needs, if any. Each run tells at its end the time
of each part and its ten dearest files, and keeps such lines in build/test-times.csv; after `make test-all`, `make times`
takes them over into the ledger.
"""

from __future__ import annotations

import csv
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
LEDGER = Path(__file__).with_name("times.csv")
KEPT = TESTS.parent / "build/test-times.csv"
SHARED_S, ONE_IN = 3.0, 3  # of a file that takes longer the usual run takes a third of its tests
FILE_SECONDS_MAX = 35.0  # of what the usual run takes of a file, by the ledger
BUDGETS_S = {
    "sql/test_sql_cases.py": 120.0,  # whole queries in every mode, the heart of the tests
    "sqlgate/test_reach.py": 45.0,  # every function that a query may call
}
MINUTES_MAX = 25  # of the usual run; more fails it, but in continuous integration, which has a limit of its own
DEAREST = 10
SESSION = "spark"
Line = tuple[str, int, float, str]


class Ledger:
    """The committed lines: what the files took."""

    def __init__(self, path: Path = LEDGER) -> None:
        with path.open(newline="") as lines:
            self.lines = {row["file"]: row for row in csv.DictReader(lines)}

    def seconds(self, file: str) -> float:
        """0 of a file that nobody has measured."""
        line = self.lines.get(file.removeprefix("tests/"))
        return float(line["seconds"]) if line else 0.0

    def one_in(self, file: str) -> int:
        """Of how many tests of the file the usual run takes one."""
        return ONE_IN if self.seconds(file) > SHARED_S else 1

    def session(self, file: str) -> bool:
        line = self.lines.get(file.removeprefix("tests/"))
        return bool(line and line["session"])


class Times:
    """Adds up the tests of a run. ``usual``: whether it is the whole usual run, which has a budget."""

    def __init__(self, *, usual: bool) -> None:
        self.usual, self.began = usual, time.monotonic()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests, self.sessions = Counter[str](), set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0].removeprefix("tests/")
        self.seconds[file] += report.duration
        self.tests[file] += report.when == "call"
        if ("session", SESSION) in report.user_properties:
            self.sessions.add(file)

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

    def lines(self) -> list[Line]:
        longest = sorted(self.seconds, key=self.seconds.__getitem__, reverse=True)
        return [(f, self.tests[f], round(self.seconds[f], 2), SESSION if f in self.sessions else "") for f in longest]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.usual and self.minutes > MINUTES_MAX and not os.environ.get("CI"):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = self.lines()
        keep(lines, KEPT)
        for text in told(lines, self.minutes, self.usual):
            terminalreporter.write_line(text)


def keep(lines: list[Line], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("file", "tests", "seconds", "session"), *lines])


def take_over(now: Path = KEPT, ledger: Path = LEDGER) -> None:
    """The lines of the last run into the ledger; files that it had none of keep theirs as long as they are there."""
    lines = {**Ledger(ledger).lines, **Ledger(now).lines}
    there = [(f, int(r["tests"]), float(r["seconds"]), r["session"]) for f, r in lines.items() if (TESTS / f).exists()]
    keep(sorted(there, key=lambda line: line[2], reverse=True), ledger)


def told(lines: list[Line], minutes: float, usual: bool) -> Iterator[str]:
    """The time of each part, and the dearest files."""
    parts, tests = defaultdict[str, float](float), Counter[str]()
    for file, number, seconds, _ in lines:
        part = file.partition("/")[0]
        parts[part] += seconds
        tests[part] += number
    yield "seconds of each part, all workers together (its tests):"
    for part in sorted(parts, key=parts.__getitem__, reverse=True):
        yield f"  {parts[part]:8.1f}  {part} ({tests[part]})"
    yield f"the {DEAREST} dearest files:"
    for file, number, seconds, _ in lines[:DEAREST]:
        yield f"  {seconds:8.1f}  {file} ({number})"
    yield f"{minutes:.1f} minutes, kept in {KEPT.relative_to(TESTS.parent)}"
    if usual and minutes > MINUTES_MAX:
        yield f"the usual run is to take {MINUTES_MAX} minutes at the most: see tests/usual/README.md"


if __name__ == "__main__":
    take_over()
