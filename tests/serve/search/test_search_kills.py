"""A process that is killed while it writes an index leaves index and frontier together: the next search is right.

Method: another process brings the index forward without a pause while steps are published here; it is killed at random
moments, and after each kill a search is compared with the contents.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.published import PublishedView

from headrace.serve.search import index
from headrace.serve.search.found import search

KILLS = 6
READER = """
import sys
from pathlib import Path
from headrace.serve.search import index
from headrace.serve.search.found import search
index.FRESH_S = 0.0
print("begins", flush=True)
while True:
    search(Path(sys.argv[1]), "orders", "w3")
"""


@pytest.mark.parametrize("seed", [int(time.time())])
def test_a_kill_amid_a_commit_loses_and_doubles_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
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
            found = search(view.folder, "orders", word, 10_000)
            rows = zip(found.rows["id"].to_pylist(), found.rows["text"].to_pylist(), strict=True)
            assert sorted(rows) == sorted((key, text) for key, text in held.items() if word in text.split())
            assert found.commit == view.commit
        assert search(view.folder, "orders", "*").total == len(held)
