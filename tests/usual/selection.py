"""Which tests a run takes: all that is named, all there are (`make test-all`), or the usual run, which leaves some out.

The usual run takes of a file that takes long (times.csv) a share each day, another one tomorrow, and leaves what
later.toml names to `make test-all`: there each entry has its reason and what covers the same law in the usual run. A test
that is known to notice a planted fault (tests/planted) is always taken; so are those marked ``together``, which build on
one another.
"""

from __future__ import annotations

import os
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sampled import sampled

LATER = Path(__file__).with_name("later.toml")
PLANTED = Path(__file__).parents[1] / "planted"
WHICH = "HEADRACE_TESTS"
USUAL, EVERY = "usual", "all"


@dataclass(frozen=True)
class Later:
    """Tests, or files of them, that the usual run leaves out; ``covered``: tests of it that hold to the same law."""

    tests: tuple[str, ...]
    why: str
    covered: tuple[str, ...]


def later(path: Path = LATER) -> list[Later]:
    found = tomllib.loads(path.read_text(encoding="utf-8"))["later"]
    return [Later(tuple(each["tests"]), each["why"], tuple(each["covered"])) for each in found]


def noticing() -> set[str]:
    """The tests, or files of them, each of which notices a planted fault."""
    return {fault.get("proof") or f"laws/{fault['law']}" for fault in _faults("faults.toml", "losses.toml")}


def noticing_queries() -> set[str]:
    """The queries of the laws that differ where a fault is planted."""
    return {fault["seen"] for fault in _faults("faults.toml")}


def _faults(*files: str) -> Iterator[dict[str, str]]:
    for file in files:
        yield from tomllib.loads((PLANTED / file).read_text(encoding="utf-8")).values()


def named(test: str, names: Iterable[str]) -> bool:
    """Whether one of the names is that of the test, of its file, or of the test of which it is a case."""
    return any(test == name or test.startswith((f"{name}::", f"{name}[")) for name in names)


def left_out(
    tests: Iterable[str], entries: Iterable[Later], always: Iterable[str], one_in: Callable[[str], int]
) -> set[str]:
    """The tests that the usual run does not take. Tests are named as pytest names them, below tests/.

    ``one_in``: file -> 3 where the run takes a third of its tests each day, 1 where it takes all.
    """
    names = [name for entry in entries for name in entry.tests]
    shared: defaultdict[str, list[str]] = defaultdict(list)
    found = set()
    for test in tests:
        if named(test, names):
            found.add(test)
        elif not named(test, always):
            shared[test.partition("::")[0]].append(test)
    for file, of_file in shared.items():
        found |= set(of_file) - set(sampled(of_file, one_in(file), file))
    return found


def decide(config: pytest.Config) -> None:
    """Once a run, for its workers too: what is named is taken whole."""
    by_name = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    os.environ.setdefault(WHICH, EVERY if by_name else USUAL)


def usual() -> bool:
    return os.environ.get(WHICH) == USUAL


def take(config: pytest.Config, items: list[pytest.Item], one_in: Callable[[str], int]) -> None:
    """Leave out of the items what the usual run leaves out."""
    if not usual():
        return
    tests = {item.nodeid.removeprefix("tests/"): item for item in items}
    together = {test for test, item in tests.items() if item.get_closest_marker("together")}
    gone = left_out(tests, later(), noticing() | together, one_in)
    config.hook.pytest_deselected(items=[tests[test] for test in gone])
    items[:] = [item for test, item in tests.items() if test not in gone]


def told() -> Iterator[str]:
    if usual():
        yield "the usual tests: a share of those that take long, others each day (tests/usual); `make test-all` takes all"
