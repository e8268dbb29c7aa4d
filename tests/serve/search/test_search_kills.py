"""A process that is killed while it writes an index leaves index and frontier together: the next search is right.

Method: another process brings an index forward and kills itself before the n-th call that writes, for each n; or does so
without a pause while steps are published here, and is killed at random moments. After each kill a search is compared with
the contents.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.published import PublishedView

from headrace.serve.search import found, index
from headrace.serve.search.found import search

KILLS = 3
READER = """
import sys
from pathlib import Path
from headrace.serve.search import found, index
from headrace.serve.search.found import search
index.FRESH_S = 0.0
print("begins", flush=True)
while True:
    search(Path(sys.argv[1]), "orders", "w3")
"""

# Loads once what each process needs that is killed: for each number that it reads one begins as a copy of it.
WRITER = """
import os, signal, sys
from pathlib import Path
from headrace.serve.search import found, index, kept_rows

calls = last = 0

def one():
    global calls
    calls += 1
    if calls == last:
        os.kill(os.getpid(), signal.SIGKILL)

class Counted:
    def __init__(self, of):
        self.of = of
    def __getattr__(self, name):
        called = getattr(self.of, name)
        def counted(*arguments):
            one()
            return called(*arguments)
        return counted if name != "schema" else called

class Index(Counted):
    def writer(self, *arguments):
        one()
        return Counted(self.of.writer(*arguments))

opened, added = index.RelationIndex._index, kept_rows.KeptRows._write
index.RelationIndex._index = lambda self: Index(opened(self))
kept_rows.KeptRows._write = lambda *arguments: (one(), added(*arguments), one())
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        last = int(line)
        print(found.search(Path(sys.argv[1]), "orders", "late").total, "after", calls, "calls", flush=True)
        os._exit(0)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.parametrize("made", [False, True])
def test_a_kill_before_any_call_that_writes_loses_and_doubles_nothing(
    made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``made``: whether there is an index that is brought forward, or it is made."""
    monkeypatch.setattr(found, "_opened", found._opened.__wrapped__)
    view = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "text": "string"})
    view.publish([((0, "late"), 1), ((1, "late and early"), 1)])
    command, killed = [sys.executable, "-c", WRITER, view.folder], f"ended {-signal.SIGKILL}\n"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        for number in range(1, 100):
            if made:
                search(view.folder, "orders", "late")
            else:
                shutil.rmtree(view.folder / ".headrace/search", ignore_errors=True)
            view.publish([((number, "late and early"), -1), ((number + 1, "late and early"), 1)])
            writer.stdin.write(f"{number}\n")
            writer.stdin.flush()
            told = writer.stdout.readline()
            after = search(view.folder, "orders", "late")
            assert sorted(after.rows["id"].to_pylist()) == [0, number + 1], f"killed before call {number}"
            assert (after.total, after.commit) == (2, view.commit)
            if told != killed:
                break
        assert number > 8 and told == f"2 after {number - 1} calls\n"
        writer.stdin.close()
        assert writer.stdout.read() == "ended 0\n"


def test_a_kill_amid_a_commit_loses_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("HEADRACE_SEED", "1"))
    print(f"HEADRACE_SEED={seed}")
    monkeypatch.setattr(index, "FRESH_S", 0.0)
    draw = random.Random(seed)
    view = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "text": "string"})
    held: dict[int, str] = {}
    for _ in range(KILLS):
        reader = subprocess.Popen([sys.executable, "-c", READER, view.folder], stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        assert reader.stdout.readline() == "begins\n"
        until = time.monotonic() + 0.05 + draw.random() * 0.5
        while time.monotonic() < until:
            picked = draw.sample(range(2_000), 300)
            delta = [((key, held[key]), -1) for key in picked if key in held]
            held |= {key: f"w{draw.randrange(10)} w{draw.randrange(10)}" for key in picked}
            view.publish([*delta, *(((key, held[key]), 1) for key in picked)])
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        reader.stdout.close()
        for word in ("w1", "w3", "w7"):
            after = search(view.folder, "orders", word, 10_000)
            rows = zip(after.rows["id"].to_pylist(), after.rows["text"].to_pylist(), strict=True)
            assert sorted(rows) == sorted((key, text) for key, text in held.items() if word in text.split())
            assert after.commit == view.commit
        assert search(view.folder, "orders", "*").total == len(held)
