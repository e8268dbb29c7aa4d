"""What every test may use: Hypothesis profiles and a project folder to fill.

Random tests draw the same examples at every run, so a red test is red for everyone; a failure prints the line that
repeats it. ``HYPOTHESIS_PROFILE=explore`` draws new ones (``--hypothesis-seed=N`` repeats them).

Whatever a test starts of the product has a JVM without the optimizing compiler: it ends before that has paid for its
making. HEADRACE_JAVA_OPTIONS in the environment takes its place; tests/scenarios/test_pgbench.py runs with the
product's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from project_folder import ProjectFolder

settings.register_profile(
    "default",
    deadline=None,  # a shared machine stalls; time is measured in benchmarks/, not here
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", parent=settings.get_profile("default"), max_examples=30)
settings.register_profile("explore", parent=settings.get_profile("default"), derandomize=False, max_examples=2000)

os.environ.setdefault(
    "HEADRACE_JAVA_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
)
HERE = Path(__file__).parent
LONGEST_FIRST = ("sql", "scenarios", "planted", "laws", "engine", "sinks", "generator", "circuit", "sqlgate", "cli")
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
settings.load_profile(PROFILE)


def pytest_report_header() -> str:
    drawn = "new examples at every run" if PROFILE == "explore" else "the same examples at every run"
    return f"random tests: profile '{PROFILE}', {settings.get_profile(PROFILE).max_examples} examples, {drawn}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders whose files take minutes come first: a run's end is many short files, and no worker is left alone with a
    long one. The Makefile says that files are dealt out in this order.
    """
    place = {folder: number for number, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.relative_to(HERE).parts[0], len(place)))


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """An empty project named ``shop``: a headrace.yaml with the defaults and nothing else."""
    folder = ProjectFolder(tmp_path / "shop")
    folder.settings()
    return folder


# ---- Shared servers: the session-scoped `spark` fixture (marker: spark) has its place here. It imports pyspark inside
# ---- its body, so that tests that do not ask for it start in milliseconds.


@pytest.fixture(scope="session")
def spark_local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it exchanges."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_local: Path) -> Iterator[Any]:
    """The one session of a test run, as the product opens it; about 5 s on first use.

    What a test runs of the product in this process is given the same one, and stops it when it ends: it stays.
    """
    from headrace.engine.session import open_session
    from headrace.model.definition import Settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(spark_local))
        session = open_session(Settings())
    stop = session.stop
    session.stop = lambda: None  # type: ignore[method-assign]
    yield session
    stop()
