"""Ctrl-C ends what follows at whatever place it comes."""

from __future__ import annotations

import contextlib
import random
import signal

import pytest

from headrace.cli.following import until_interrupted

ROUNDS = 3_000


def test_an_interrupt_at_any_instant_of_waiting_ends_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """An ordinary event breaks within some hundred rounds: its lock is released twice, or never."""
    generator = random.Random(1)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    try:
        signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
        for _ in range(ROUNDS):
            with until_interrupted() as stop:
                signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.0002, 0.001))
                while not stop.is_set():
                    stop.wait(0.00005)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])
    assert capsys.readouterr().err == "\n" * ROUNDS


def test_an_interrupt_that_python_drops_ends_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with until_interrupted() as stop:
            with contextlib.suppress(KeyboardInterrupt):  # as a finalizer does
                signal.raise_signal(signal.SIGINT)
            assert stop.is_set() and stop.wait(0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ""
