"""Goal: the usual run stays short, and what it leaves out is written down, with what covers it. Method: the ledgers are
held against the tests that there are, and the parts of the run are tried on small ledgers.
"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import sampled
from usual.reached import reached
from usual.selection import Later, later, left_out, named, noticing
from usual.times import (
    BUDGETS_S,
    FILE_SECONDS_MAX,
    ONE_IN,
    SESSION,
    SHARED_S,
    TESTS,
    Ledger,
    Times,
    keep,
    take_over,
    told,
)

FILES = {str(path.relative_to(TESTS)): path for path in TESTS.rglob("test_*.py")}
BROWSER = "e2e/"  # its stories run by `make e2e` alone


def functions_in(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            found.add(node.name)
    return found


def there(name: str) -> bool:
    """Whether there is such a file, test, or test of which this is a case."""
    file, _, test = name.partition("::")
    return file in FILES and (not test or test.partition("[")[0] in functions_in(FILES[file]))


@pytest.mark.parametrize("entry", later(), ids=lambda entry: entry.tests[0])
def test_what_is_left_out_is_there_with_its_reason_and_what_covers_it(entry: Later) -> None:
    assert all(map(there, entry.tests))
    assert len(entry.why.split()) >= 4
    assert entry.covered and all(map(there, entry.covered))
    out = [name for each in later() for name in each.tests]
    assert not [test for test in entry.covered if named(test, out)], "it is said to be covered by what is left out too"


def test_what_notices_a_planted_fault_is_not_left_out() -> None:
    out = [name for each in later() for name in each.tests]
    assert not [test for test in noticing() if named(test, out)]


def test_the_ledger_of_times_has_each_file_once_the_longest_first() -> None:
    lines = Ledger().lines
    assert {file for file in FILES if not file.startswith(BROWSER)} - lines.keys() == set(), "`make test-all times`"
    assert lines.keys() - FILES.keys() == set(), "run `make times`"
    seconds = [float(line["seconds"]) for line in lines.values()]
    assert seconds == sorted(seconds, reverse=True)


def test_of_no_file_the_usual_run_takes_more_than_its_budget() -> None:
    ledger, out = Ledger(), {name for each in later() for name in each.tests}
    took = {file: ledger.seconds(file) / ledger.one_in(file) for file in ledger.lines if file not in out}
    dear = {file: seconds for file, seconds in took.items() if seconds > BUDGETS_S.get(file, FILE_SECONDS_MAX)}
    assert dear == {}, "make them shorter, or leave a part of them to `make test-all`"


CASES = [f"a/test_a.py::test_many[{n}]" for n in range(8)]
OTHERS = ["a/test_a.py::test_one", "a/test_b.py::test_one", "ab/test_a.py::test_many[1]"]


def all_of(file: str) -> int:
    return 1


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("a/test_a.py::test_many", CASES),
        ("a/test_a.py::test_many[3]", ["a/test_a.py::test_many[3]"]),
        ("a/test_a.py", [*CASES, "a/test_a.py::test_one"]),
        ("a/test_a.py::test_man", []),
    ],
)
def test_an_entry_leaves_out_what_it_names(name: str, gone: list[str]) -> None:
    assert left_out([*CASES, *OTHERS], [Later((name,), "why", ())], (), all_of) == set(gone)


def test_of_a_file_that_takes_long_a_share_is_taken_each_day_and_all_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, tests = [], [*CASES, *OTHERS]
    for share in range(3):
        monkeypatch.setattr(sampled, "SHARE", share)
        taken.append(set(tests) - left_out(tests, (), (CASES[4],), lambda file: 3 if file == "a/test_a.py" else 1))
    assert all({CASES[4], *OTHERS[1:]} <= each for each in taken)
    assert sorted(len(each) for each in taken) == [5, 6, 6]
    assert set.union(*taken) == set(tests)


def test_times_are_told_by_part_and_kept(tmp_path: Path) -> None:
    lines = [("b/test_c.py", 2, 30.0, SESSION), ("a/test_a.py", 3, 2.5, ""), ("a/test_b.py", 1, 2.0, "")]
    keep(lines, tmp_path / "now.csv")
    ledger = Ledger(tmp_path / "now.csv")
    assert [(ledger.seconds(f), ledger.session(f)) for f, *_ in lines] == [(30.0, True), (2.5, False), (2.0, False)]
    assert (ledger.seconds("tests/a/test_a.py"), ledger.seconds("a/test_new.py")) == (2.5, 0.0)
    assert [ledger.one_in(f) for f, *_ in lines] == [ONE_IN, 1, 1]
    assert 2.5 < SHARED_S < 30
    shown = list(told(lines, 26.0, True))
    assert [line.split() for line in shown[1:3]] == [["30.0", "b", "(2)"], ["4.5", "a", "(4)"]]
    assert "25 minutes at the most" in shown[-1]
    assert "at the most" not in list(told(lines, 26.0, False))[-1]


def test_what_a_run_took_takes_the_place_of_what_it_took_before(tmp_path: Path) -> None:
    ledger, now = tmp_path / "times.csv", tmp_path / "now.csv"
    gone, other = "b/test_gone.py", "sql/test_sql_cases.py"
    this = "usual/test_usual_run.py"
    keep([(gone, 1, 90.0, ""), (other, 5, 3.0, SESSION), (this, 2, 2.0, "")], ledger)
    keep([(this, 4, 9.0, "")], now)
    take_over(now, ledger)
    assert ledger.read_text().splitlines()[1:] == [f"{this},4,9.0,", f"{other},5,3.0,{SESSION}"]


def test_what_looks_at_what_was_changed_is_known(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        named = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *named, *arguments], cwd=tmp_path, check=True, capture_output=True)

    texts = {
        "src/a/b.py": "", "src/a/c.py": "", "tests/test_b.py": "from a.b import x", "tests/test_c.py": "import a.c",
        "tests/test_d.py": "",
    }  # fmt: skip
    for file, text in texts.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    tests = [file for file in texts if file.startswith("tests")]
    assert reached(tests, tmp_path) == set()  # no repository
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    assert reached(tests, tmp_path) == set()
    (tmp_path / "src/a/b.py").write_text("x = 1")
    (tmp_path / "tests/test_d.py").write_text("y = 1")
    assert reached(tests, tmp_path) == {"tests/test_b.py", "tests/test_d.py"}


@pytest.mark.parametrize(("minutes", "usual", "ci", "fails"), [
    (26, True, "", True), (24, True, "", False), (26, False, "", False), (26, True, "true", False),
])  # fmt: skip
def test_a_usual_run_that_takes_too_long_fails(
    minutes: int, usual: bool, ci: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    times, session = Times(usual=usual), SimpleNamespace(exitstatus=0)
    times.began -= minutes * 60
    times.pytest_sessionfinish(session)
    assert bool(session.exitstatus) == fails
