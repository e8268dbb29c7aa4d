"""Goal: memory that Python and Arrow have freed does not stay with the process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import psutil
from headrace.engine.memory import give_back

used = psutil.Process().memory_info
before = used().rss
blocks = [bytes(8000) for _ in range(25_000)]
kept = blocks[::200]  # no stretch at the end is free, where an allocator lets go by itself
del blocks
scattered = used().rss
give_back()
print((scattered - before) >> 20, (used().rss - before) >> 20)
"""


def test_freed_memory_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    scattered, left = map(int, done.stdout.split())
    assert scattered > 100
    assert left < 30
