"""Goal: what takes long is told in words that are right: how far, how fast, how long still.

Method: the figures of ``Pace`` of a known age, and the texts made of them.
"""

from __future__ import annotations

import ast
import os
import pty
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import headrace
from headrace.cli import display, sentences
from headrace.cli.commands import status, up
from headrace.model.definition import Project
from headrace.model.pace import Copying, Pace


def going(total: int | None, done: int, seconds: float) -> Pace:
    return Pace(total, done, time.monotonic() - seconds)


def test_how_fast_and_how_long_still() -> None:
    shown = going(1_000, 250, 5.0).shown()
    assert (shown["done"], shown["total"]) == (250, 1_000)
    assert shown["per_s"] == pytest.approx(50, rel=0.02) and shown["left_s"] == pytest.approx(15, rel=0.02)


def test_what_is_not_known_is_not_guessed() -> None:
    assert Pace(1_000).shown() == {"done": 0, "total": 1_000, "per_s": None, "left_s": None}
    assert going(None, 250, 5.0).shown()["left_s"] is None


def test_an_estimate_that_was_too_low_is_not_told_any_more() -> None:
    shown = going(200, 250, 5.0).shown()
    assert (shown["total"], shown["left_s"]) == (None, None)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"text": "planning"}, "planning"),
        ({"text": "copying", "done": 5, "total": None}, "copying: 5"),
        (
            {"text": "replaying orders, changes", "done": 1_200, "total": 48_000, "per_s": 2_400.0, "left_s": 19.5},
            "replaying orders, changes: 1,200 of 48,000, 2,400/s, about 20 s left",
        ),
        ({"text": "views", "done": 1, "total": 2, "per_s": 0.2, "left_s": 600}, "views: 1 of 2, 0.2/s, about 10 min left"),
        ({"text": "rows", "done": 1, "total": 2, "per_s": 20, "left_s": 9_000}, "rows: 1 of 2, 20/s, about 2.5 h left"),
        ({"text": "a\x1b[2Jb"}, "a\\u001b[2Jb"),
        ({"text": "view v, over rows", "done": 0, "total": 1_200, "for_s": 0.2}, "view v, over rows: 1,200"),
        ({"text": "view v, over rows", "done": 0, "total": 1_200, "for_s": 3.2}, "view v, over rows: 1,200, for 3 s"),
        ({"text": "view v", "done": 9, "total": 1_200, "for_s": 3.2}, "view v: 9 of 1,200, for 3 s"),
        ({"text": "v", "done": 9, "total": 12, "per_s": 20, "left_s": 4, "for_s": 3.2}, "v: 9 of 12, 20/s, about 4 s left"),
    ],
)  # fmt: skip
def test_in_a_line(event: dict[str, object], text: str) -> None:
    assert display.progress(event) == text


def test_up_and_status_name_the_table_that_is_copied(capsys: pytest.CaptureFixture[str]) -> None:
    copying = Copying("orders", going(40_000, 10_000, 10.0)).shown()
    source = {"name": "shop", "state": "running", "copying": [copying]}
    line = "copying orders, rows: 10,000 of 40,000, 1,000/s, about 30 s left"
    assert display.copying(copying) == line
    status.show({"state": "running", "sources": [source]})
    assert f"  shop: {line}\n" in capsys.readouterr().out


def test_large_files_are_told_in_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    copying = Copying("visits", going(80 << 20, 20 << 20, 10.0), "bytes").shown()
    line = "copying visits: 20.0 MiB of 80.0 MiB, 2.0 MiB/s, about 30 s left"
    assert display.copying(copying) == line
    told = up._Told(Project(Path()), False, threading.Event())
    told.tick({"commit": 3, "frontier": 3, "sources": [{"name": "shop", "copying": [copying]}]})
    assert capsys.readouterr().out == f"{line} · commit 3 · views at 3 · 0 changes/s\n"


def test_every_sentence_is_of_an_event_that_is_told_with_what_it_needs() -> None:
    """The events stand in the code as they are told: their names and keys are read from there."""
    told: dict[str, set[str]] = {}
    for path in (Path(headrace.__file__).parent / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict) and any(
                isinstance(k, ast.Constant) and k.value == "event" for k in node.keys
            ):
                pairs = dict(
                    zip((k.value for k in node.keys if isinstance(k, ast.Constant)), node.values, strict=False)
                )
                if isinstance(pairs["event"], ast.Constant):
                    told[pairs["event"].value] = set(pairs)
    for event, text in sentences.SENTENCES.items():
        assert set(re.findall(r"\{(\w+)", text)) <= told[event], event


def test_an_event_as_a_sentence() -> None:
    built = {"event": "view.built", "view": "revenue", "version": 2, "rows": 1_200, "seconds": 0.26}
    assert sentences.sentence(built) == "view revenue is built, version 2, rows: 1,200, in 0.3 s"
    assert sentences.sentence({"event": "x.y", "a": [1, 2], "error": {}}) == "x.y: a=1, 2"
    assert sentences.sentence({"event": "x.y", "text": "one\ntwo"}) == "one\\ntwo"


def on_a_terminal(work: str, columns: int = 120) -> bytes:
    """What a program shows on a terminal of its own."""
    terminal, ours = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", work], stderr=ours, env=environment) as process:
        os.close(ours)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while piece := os.read(terminal, 4096):
                shown += piece
        os.close(terminal)
    assert process.returncode == 0
    return shown


def test_a_bar_on_a_terminal_says_how_fast_and_how_long_still() -> None:
    """What is done takes longer than the second after which a bar appears."""
    shown = on_a_terminal(
        "import time; from headrace.cli import display\n"
        "with display.working('copying') as progress:\n"
        "    for done in range(0, 1500, 100):\n"
        "        progress({'text': 'copying orders', 'done': done, 'total': 3000}); time.sleep(0.1)\n"
    )
    (fast, left), *_ = reversed(re.findall(rb"copying orders.*?/3000.*? ([\d,]+)/s, about (\d+) s left", shown))
    assert 300 < int(fast.replace(b",", b"")) < 1_100 and 1 <= int(left) <= 6


def test_the_seconds_left_pass_between_two_events() -> None:
    shown = on_a_terminal(
        "import time; from headrace.cli import display\n"
        "with display.working('verifying') as progress:\n"
        "    progress({'text': 'views', 'done': 0, 'total': 100}); time.sleep(1.2)\n"
        "    progress({'text': 'views', 'done': 20, 'total': 100}); time.sleep(1.5)\n"
    )
    left = [int(each) for each in re.findall(rb"about (\d+) s left", shown)]
    assert left[0] > left[-1] >= left[0] - 3


def test_a_bar_of_which_no_part_has_ended_says_for_how_long_it_goes_on() -> None:
    shown = on_a_terminal(
        "import time; from headrace.cli import display\n"
        "with display.working('views') as progress:\n"
        "    for s in range(3):\n"
        "        progress({'text': 'views', 'done': 0, 'total': 900, 'per_s': None, 'left_s': None, 'for_s': s + 5.0})\n"
        "        time.sleep(0.7)\n"
        "    progress({'text': 'views', 'done': 450, 'total': 900, 'per_s': None, 'left_s': None, 'for_s': 9.0})\n"
        "    time.sleep(0.5)\n"
    )
    before, after = shown.split(b"450/900", 1)
    assert b"for 7 s" in before and b"/900" not in before and b"left" not in shown and b"for 9 s" in after


def test_a_bar_takes_one_line_of_a_narrow_terminal() -> None:
    shown = on_a_terminal(
        "import time; from headrace.cli import display\n"
        "with display.working('verifying') as progress:\n"
        "    for done in range(0, 1500000, 100000):\n"
        "        progress({'text': 'verifying visits_per_page, 2 of 2, over rows', 'done': done, 'total': 1500004})\n"
        "        time.sleep(0.1)\n",
        columns=80,
    )
    assert re.search(rb"over rows \S+ [\d,]+/s, about \d+ s left", re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown))
    assert shown.count(b"\n") == 1  # where it ends
