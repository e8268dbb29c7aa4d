"""Goal: no benchmark names a part of the product that has moved. Method: every module of ``benchmarks`` is imported."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks


def test_every_benchmark_is_imported() -> None:
    found = [m.name for m in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
    ours = [name for name in found if ".peers" not in name and not name.endswith("__main__")]
    assert len(ours) > 20
    for name in ours:
        importlib.import_module(name)
