"""One command, one proof: pgbench on a PostgreSQL, Headrace behind it, killed twice; the second database is exact.

    python -m examples.pgbench.run [--scale 10] [--rate 200] [--seconds 60] [--kills 2] [--json]

Exit status 0: no read of the sink saw part of a transaction, and source and sink agree to the row. Else 1.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from examples.pgbench import project
from examples.pgbench.checker import Checker, Sight
from examples.pgbench.product import Product
from examples.pgbench.proof import Comparison, commit_times, compare, latencies, percentile
from headrace.control import lock
from headrace.testing.postgres import PostgresServer

CLIENTS = 4  # connections of pgbench
FIRST_S = 600.0  # until the first view is in the sink
CATCH_UP_S = 300.0
CAUGHT_UP_LAG_S = 2.0  # the sink has caught up when the newest commit in it was this young as it came into sight
TRANSFER_S = 0.5  # between two transfers that pgbench's history knows nothing of
STEP_ATTEMPTS = 5  # a step may be published between the look and the kill: then it is tried again


@dataclass
class Kill:
    """One SIGKILL: how many processes it ended, in which unpublished step, and how long until the sink was up again."""

    in_a_step: bool
    processes: int = 0
    step: int | None = None
    back_s: float = 0.0
    span: tuple[float, float] = (0.0, 0.0)  # source commits in it are left out of the latency


@dataclass
class Run:
    """The parts at work, and what was seen so far."""

    options: argparse.Namespace
    server: PostgresServer
    product: Product
    checker: Checker
    source: psycopg.Connection[tuple[Any, ...]]
    kills: list[Kill] = field(default_factory=list)
    transfers: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(7))

    def say(self, text: str) -> None:
        stream = sys.stderr if self.options.json else sys.stdout
        stream.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
        stream.flush()

    def transfer(self) -> float:
        """Moves an amount between two accounts in one transaction; the time of its commit.

        The sums stay equal, but both accounts disagree with their history from now on: contents for that view.
        """
        first, second = self._random.sample(range(1, 100_000 * self.options.scale + 1), 2)
        with self.source.transaction():
            row = self.source.execute(
                "UPDATE pgbench_accounts SET abalance = abalance + CASE aid WHEN %s THEN -5 ELSE 5 END"
                " WHERE aid IN (%s, %s) RETURNING pg_current_xact_id()::xid",
                (first, first, second),
            ).fetchone()
        assert row is not None
        self.transfers += 1
        at = self.source.execute(
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(%s::text::xid))::float8", (str(row[0]),)
        ).fetchone()
        assert at is not None
        return float(at[0])

    def work_until(self, end: float) -> None:
        """Let pgbench work until then (monotonic), with a transfer now and then."""
        while time.monotonic() < end:
            self.product.check()
            if self.checker.error is not None:
                raise self.checker.error
            self.transfer()
            time.sleep(min(TRANSFER_S, max(0.0, end - time.monotonic())))

    def caught_up(self, since: float, timeout_s: float) -> Sight:
        """The first sight after ``since`` (epoch) of a commit that was young then."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            for sight in reversed(self.checker.sights):
                if sight.seen <= since:
                    break
                if sight.seen - sight.committed <= CAUGHT_UP_LAG_S:
                    return next(
                        s for s in self.checker.sights
                        if s.seen > since and s.seen - s.committed <= CAUGHT_UP_LAG_S
                    )  # fmt: skip
            self.work_until(time.monotonic() + TRANSFER_S)
        raise RuntimeError(f"the sink has not caught up within {timeout_s:.0f} s; last sight: {self.checker.last}")

    def kill(self, in_a_step: bool) -> Kill:
        """SIGKILL, then `headrace up` again, until the sink has caught up."""
        for _ in range(STEP_ATTEMPTS):
            before = self.checker.last
            assert before is not None
            kill = Kill(in_a_step)
            if in_a_step:
                kill.step, kill.processes = self.product.kill_in_a_step()
            else:
                kill.processes = self.product.kill()
            began = time.time()
            where = f"in the middle of step {kill.step}" if kill.step is not None else "wherever it was"
            self.say(f"SIGKILL to {kill.processes} processes {where}; starting it again")
            self.product.start()
            sight = self.caught_up(began, CATCH_UP_S)
            kill.back_s = sight.seen - began
            kill.span = (before.committed, sight.committed)
            self.kills.append(kill)
            self.say(f"the sink has caught up {kill.back_s:.1f} s after the kill")
            if not in_a_step or kill.step is not None:
                return kill
        return kill


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder: Path = options.path.resolve()
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "project" / "headrace.yaml").is_file():
            sys.stderr.write(f"{folder} holds something else; name another folder with --path\n")
            return 2
        if not lock.wait_free(folder / "project", timeout_s=0.5):
            sys.stderr.write(f"another run works in {folder}; wait for its end, or name another folder with --path\n")
            return 2
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        with ExitStack() as ends:
            summary = _run(options, folder, ends)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, psycopg.Error, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"failed: {error}\n")
        return 1
    if options.json:
        sys.stdout.write(json.dumps(summary) + "\n")
    return 0 if summary["ok"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.pgbench.run", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=10, help="pgbench's scale: 100,000 accounts each (10)")
    parser.add_argument("--rate", type=float, default=200, help="transactions a second (200)")
    parser.add_argument("--seconds", type=float, default=60, help="how long it is watched, restarts not counted (60)")
    parser.add_argument("--kills", type=int, default=2, help="how often it is killed; every other one in a step (2)")
    parser.add_argument("--path", type=Path, default=Path("var/pgbench"), help="working folder, emptied (var/pgbench)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout; progress goes to stderr")
    return parser.parse_args()


def _run(options: argparse.Namespace, folder: Path, ends: ExitStack) -> dict[str, Any]:
    """``ends`` undoes everything started here, in reverse order, whatever happens."""
    password = secrets.token_urlsafe(16)
    settings = {"track_commit_timestamp": "on", "shared_buffers": "256MB"}
    server = ends.enter_context(PostgresServer(folder / "postgres", password=password, settings=settings))
    source_dsn = server.create_database(project.SOURCE_DATABASE)
    sink_dsn = server.create_database(project.SINK_DATABASE)
    server.run("pgbench", "-i", "-q", "-s", str(options.scale), database=project.SOURCE_DATABASE)
    product = Product(project.write(folder / "project", server), {project.PASSWORD_VARIABLE: password})
    source = ends.enter_context(psycopg.connect(source_dsn, autocommit=True))
    run = Run(options, server, product, Checker(sink_dsn, options.scale), source)
    run.say(f"PostgreSQL holds {100_000 * options.scale:,} accounts; pgbench begins at {options.rate:g} a second")
    ends.callback(product.stop)
    pgbench = _start_pgbench(run)
    ends.callback(_end, pgbench)
    run.checker.start()
    ends.callback(run.checker.end)
    began = time.time()
    product.start()
    first = run.caught_up(began, FIRST_S)
    run.say(f"every view is in the second database {first.seen - began:.1f} s after the start")
    watched_from, part_s = time.time(), options.seconds / (options.kills + 1)
    for number in range(options.kills):
        run.work_until(time.monotonic() + part_s)
        run.kill(in_a_step=number % 2 == 1)
    run.work_until(time.monotonic() + part_s)
    watched_to = time.time()
    _end(pgbench)
    last = run.transfer()
    run.say("pgbench has stopped; waiting for its last transaction in the sink")
    reached = run.checker.wait_for(last, CATCH_UP_S)
    run.checker.stop()
    compared = compare(source_dsn, sink_dsn)
    commits = commit_times(source_dsn)
    status = product.stop()
    summary = _summary(run, compared, commits, (watched_from, watched_to))
    summary |= {"first_s": round(first.seen - began, 1), "reached_the_last": reached, "exit_status": status}
    summary["ok"] = bool(summary["ok"] and reached and status == 0)
    _tell(run, summary)
    return summary


def _start_pgbench(run: Run) -> subprocess.Popen[bytes]:
    arguments = ["-n", "-c", str(CLIENTS), "-j", "1", "-R", f"{run.options.rate:g}", "-T", "86400"]
    command = run.server.tool_command("pgbench", *arguments, database=project.SOURCE_DATABASE)
    with (run.product.project / "pgbench.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=run.server.tool_environment(),
            start_new_session=True,
        )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.wait(30)


def _summary(
    run: Run, compared: list[Comparison], commits: list[float], watched: tuple[float, float]
) -> dict[str, Any]:
    checker = run.checker
    inside = [at for at in commits if watched[0] <= at <= watched[1]]
    measured = latencies(inside, checker.sights, [kill.span for kill in run.kills])
    in_a_step = [kill.step for kill in run.kills if kill.step is not None]
    agree = all(view.differences == 0 for view in compared) and all(view.rows for view in compared)
    whole = checker.reads > 0 and checker.torn == 0 and checker.backwards == 0
    wanted = any(kill.in_a_step for kill in run.kills)
    return {
        "ok": agree and whole and bool(measured) and (bool(in_a_step) or not wanted),
        "agree": agree,
        "views": [asdict(view) | {"differences": view.differences} for view in compared],
        "reads": checker.reads,
        "torn": checker.torn,
        "torn_examples": checker.examples,
        "backwards": checker.backwards,
        "steps_seen": len(checker.sights),
        "kills": [asdict(kill) for kill in run.kills],
        "transactions": len(commits) + run.transfers,
        "rate": round(len(inside) / (watched[1] - watched[0]), 1),
        "latency_ms": {
            "p50": _ms(percentile(measured, 50)),
            "p99": _ms(percentile(measured, 99)),
            "max": _ms(measured[-1] if measured else None),
            "measured": len(measured),
            "of": len(inside),
        },
        "state_bytes": run.product.state_bytes(),
        "errors": run.product.errors(),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _tell(run: Run, summary: dict[str, Any]) -> None:
    latency = summary["latency_ms"]
    views = ", ".join(f"{view['view']} {view['rows']:,} rows" for view in summary["views"])
    run.say(f"{summary['transactions']:,} transactions, {summary['rate']:.0f} a second while watched")
    steps = [kill.step for kill in run.kills if kill.step is not None]
    run.say(f"killed {len(run.kills)} times, {len(steps)} of them in the middle of a step {steps}")
    run.say(
        f"source commit to visible in the sink: p50 {latency['p50']} ms, p99 {latency['p99']} ms, over"
        f" {latency['measured']:,} of {latency['of']:,} transactions (those around a kill are left out)"
    )
    for error in summary["errors"]:
        run.say(f"reported meanwhile: {error}")
    for example in summary["torn_examples"]:
        run.say(f"torn: {example}")
    run.say(f"{summary['torn']:,} torn of {summary['reads']:,} reads, which saw {summary['steps_seen']:,} steps")
    for view in summary["views"]:
        if view["differences"]:
            run.say(f"{view['view']}: {view['missing']} rows are missing, {view['surplus']} are too many")
    run.say(f"source and sink {'agree' if summary['agree'] else 'DO NOT agree'}: {views}")
    if not summary["ok"]:
        run.say(f"FAILED; the product's own words are in {run.product.log}")


if __name__ == "__main__":
    sys.exit(main())
