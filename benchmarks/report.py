"""Run the benchmarks, keep what they print, and write docs/reference/benchmarks.md from what was kept.

python -m benchmarks.report [--only latency many] [--rounds N] [--quick] [--page] [--results benchmarks/results.jsonl]

A line of the results is a run: its command, commit, date and the JSON lines of its rounds; of each workload the run
that counts is kept. ``--rounds`` is how often each program runs, in place of what its workload says.
``--quick`` runs small sizes in a few minutes, tells how many seconds they took, and leaves page and results alone;
``--page`` writes the page from what there is and runs nothing. A program that lacks what it measures with, such as a
browser, is left out and told. The exit status is 1 when one ended with another than 0, which is named in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.page import Run, command, draw, newest, page
from benchmarks.workload import UNAVAILABLE, Workload
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/benchmarks.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[w.name for w in WORKLOADS], metavar="NAME")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results.jsonl")
    chosen = parser.parse_args()
    wanted = [w for w in WORKLOADS if w.name in (chosen.only or [w.name]) and not chosen.page]
    if chosen.quick:
        wanted = [w for w in wanted if w.small is not None]
    runs, began = kept(chosen.results), time.monotonic()
    failed, left_out = list[str](), list[str]()
    for workload in wanted:
        small = workload.small if chosen.quick else None
        run = measured(workload, small, chosen.rounds or (1 if chosen.quick else workload.rounds))
        if run.exit == UNAVAILABLE:
            left_out.append(workload.name)
            continue
        if run.exit != 0:
            failed.append(workload.name)
        if not chosen.quick:
            runs = list(newest([*runs, run]).values())
            chosen.results.write_text("".join(json.dumps(asdict(each)) + "\n" for each in runs), encoding="utf-8")
    if left_out:
        sys.stdout.write(f"left out, as what they need is not here: {', '.join(left_out)}\n")
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}\n")
    if chosen.quick:
        sys.stdout.write(f"bench-quick: {time.monotonic() - began:.0f} s\n")
    else:
        PAGE.write_text(page(runs, draw(runs, PAGE.with_suffix(""))), encoding="utf-8")
    return 1 if failed else 0


def measured(workload: Workload, arguments: Sequence[str] | None, rounds: int = 1) -> Run:
    """Run it so often, its lines shown as they come; where there is more than one round, each line says of which."""
    began, text = datetime.now(UTC).isoformat(timespec="seconds"), command(workload, arguments)
    lines: list[dict[str, Any]] = []
    status = 0
    for number in range(1, rounds + 1):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        of_round = {"round": number} if rounds > 1 else {}
        with subprocess.Popen([sys.executable, *text.split()[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True) as made:
            assert made.stdout is not None
            for line in made.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                if line.startswith("{"):
                    lines.append(json.loads(line) | of_round)
        status = status or made.returncode
    return Run(workload.name, text, commit(), began, os.cpu_count() or 1, status, lines)


def commit() -> str:
    """The commit that was measured, with a + when files differ from it."""
    told = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(told, cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip() or "unknown"


def kept(results: Path) -> list[Run]:
    """The runs in the results, in order."""
    if not results.exists():
        return []
    return [Run(**json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
