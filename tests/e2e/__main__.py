"""``python -m tests.e2e``: live the stories of the page; the last line tells how many passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


class Passed:
    """Counts the stories that passed, and tells each as it ends."""

    def __init__(self) -> None:
        self.stories = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and "browser" in report.keywords:
            self.stories += 1


def main() -> int:
    passed = Passed()
    options = ["-q", "-m", "browser", "-o", "cache_dir=.pytest_cache", *sys.argv[1:]]
    code = int(pytest.main([str(Path(__file__).parent), *options], plugins=[passed]))
    print(f"{passed.stories} stories passed")
    return code or int(passed.stories == 0)


if __name__ == "__main__":
    raise SystemExit(main())
