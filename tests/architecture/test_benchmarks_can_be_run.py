"""Goal: no benchmark names a part of the product that has moved, and who runs them is told which failed.

Method: every module of ``benchmarks`` is imported; the report runs programs that end with a given status.
"""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks
import pytest
from benchmarks import report
from benchmarks.page import Run
from benchmarks.workload import UNAVAILABLE


def test_every_benchmark_is_imported() -> None:
    found = [m.name for m in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
    ours = [name for name in found if ".peers" not in name and not name.endswith("__main__")]
    assert len(ours) > 20
    for name in ours:
        importlib.import_module(name)


@pytest.mark.parametrize(
    ("ends", "status", "told"),
    [
        ({}, 0, []),
        ({"console": UNAVAILABLE}, 0, ["left out, as what they need is not here: console"]),
        ({"console": UNAVAILABLE, "bulk": 2}, 1, ["left out, as what they need is not here: console", "failed: bulk"]),
    ],
)
def test_the_report_names_what_failed(
    ends: dict[str, int], status: int, told: list[str],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(report, "measured", lambda w, *rest: Run(w.name, "", "", "", 2, ends.get(w.name, 0), []))
    monkeypatch.setattr("sys.argv", ["report", "--quick"])
    assert report.main() == status
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("bench-quick: ")] == told
