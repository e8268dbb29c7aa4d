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

import sampled
import warm_jvm
from project_folder import ProjectFolder
from usual import selection
from usual.times import SESSION, Ledger, Times

settings.register_profile(
    "default",
    deadline=None,  # a shared machine stalls; time is measured in benchmarks/, not here
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("usual", parent=settings.get_profile("default"), max_examples=30)
settings.register_profile("explore", parent=settings.get_profile("default"), derandomize=False, max_examples=2000)

os.environ.setdefault(
    "HEADRACE_JAVA_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        begin(config)
    settings.load_profile(profile())


def begin(config: pytest.Config) -> None:
    """What a run decides once, for its workers too: which tests it takes, and whether it lends JVMs."""
    selection.decide(config)
    config.pluginmanager.register(Times(usual=selection.usual()))
    if os.environ.get("HEADRACE_OWN_JVMS") != "1":
        lending = warm_jvm.kept()
        os.environ.update(lending.__enter__())
        config.add_cleanup(lambda: lending.__exit__(None, None, None))


def profile() -> str:
    return os.environ.get("HYPOTHESIS_PROFILE") or ("usual" if selection.usual() else "default")


def pytest_report_header() -> list[str]:
    drawn = "new examples at every run" if profile() == "explore" else "the same examples at every run"
    examples = settings.get_profile(profile()).max_examples
    random_tests = f"random tests: profile '{profile()}', {examples} examples, {drawn}"
    return [random_tests, f"HEADRACE_SHARE={sampled.SHARE}", *selection.told()]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection.take(config, items, Ledger().one_in)
    for item in items:
        if SESSION in getattr(item, "fixturenames", ()):
            item.user_properties.append(("session", SESSION))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from usual.turns import Turns

    return Turns(config, log, Ledger())


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """An empty project named ``shop``: a headrace.yaml with the defaults and nothing else."""
    folder = ProjectFolder(tmp_path / "shop")
    folder.settings()
    return folder


# ---- Shared servers: the session-scoped `spark` fixture (marker: spark) has its place here. It imports pyspark inside
# ---- its body, so that tests that do not ask for it start in milliseconds.


@pytest.fixture
def own_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test starts of the product begins a JVM of its own, as it does with a user (tests/warm_jvm.py)."""
    monkeypatch.delenv("SPARK_HOME", raising=False)


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
        patch.delenv("SPARK_HOME", raising=False)
        session = open_session(Settings())
    stop = session.stop
    session.stop = lambda: None  # type: ignore[method-assign]
    yield session
    stop()
