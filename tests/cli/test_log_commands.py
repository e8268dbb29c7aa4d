"""`headrace log ls | cat | tail | verify`: the installed command over logs that the test has written.

Method: a random log whose history the test keeps as plain Python values; what the commands print is compared with it
exactly. The tables' contents, rebuilt from the printed changes with a dict, equal those that the history gives.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import warm_command
from headrace.catalog.store import Catalog
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve import history as history_of
from random_log import BEGIN, RELATIONS, SOURCE, Contents, RandomLog, history

COMMAND = Path(sys.executable).with_name("headrace")


class Logged:
    """A project with a random log, and the catalogue's tables."""

    def __init__(self, folder: Path, transactions: int, **options: Any) -> None:
        self.folder, self.log = folder, folder / ".headrace/log"
        (folder / "headrace.yaml").write_text("")
        (folder / ".headrace").mkdir()
        catalog = Catalog(folder / ".headrace/catalog.db")
        for name, relation in RELATIONS.items():
            catalog.put_relation(SOURCE[name], relation)
        catalog.close()
        self.random = RandomLog(7)
        self.random.grow(self.log, transactions, **options)

    def expected(self, begin: int = 1, end: int | None = None, tables: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """What `log cat --json` has to say of these commits."""
        found = []
        for commit, (origin, changes) in enumerate(self.random.made, start=1):
            shown = [made.spelled() for made in changes if not tables or made.table in tables]
            if begin <= commit <= (end or commit) and (shown or not tables):
                at = BEGIN.replace(year=1970, month=1, day=1, hour=0) + timedelta(microseconds=origin.committed_us)
                head = {"commit": commit, "source": origin.source, "position": origin.position}
                found.append({**head, "committed_at": at.isoformat().replace("+00:00", "Z"), "changes": shown})
        return found


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    return Logged(tmp_path_factory.mktemp("logged"), 300)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, "log", *arguments)


def cat(logged: Logged, *arguments: str) -> list[dict[str, Any]]:
    done = run(logged.folder, "cat", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_cat_prints_every_transaction_as_it_was_appended(logged: Logged) -> None:
    assert len(list(logged.log.glob("*.segment"))) > 3
    found = cat(logged)
    assert found == logged.expected()
    assert {change["op"] for transaction in found for change in transaction["changes"]} == {
        "insert", "upsert", "update", "delete", "truncate",
    }  # fmt: skip
    rebuilt = Contents()
    for transaction in found:
        for change in transaction["changes"]:
            rebuilt.take(change)
    kept = history(logged.random)
    assert rebuilt.rows("orders") == kept.rows("orders") != []
    assert rebuilt.rows("clicks") == kept.rows("clicks") != []


def test_cat_of_commits_tables_and_at_most_so_many(logged: Logged) -> None:
    assert cat(logged, "--from", "41", "--to", "60") == logged.expected(41, 60)
    assert cat(logged, "Orders", "--to", "120") == logged.expected(1, 120, ("orders",))
    assert cat(logged, "clicks", "orders", "--from", "250") == logged.expected(250, None, ("clicks", "orders"))
    assert cat(logged, "clicks", "-n", "3", "--from", "20") == logged.expected(20, None, ("clicks",))[:3]
    assert cat(logged, "--from", "301") == cat(logged, "--limit", "0") == cat(logged, "--to", "0") == []
    assert len(cat(logged, "--to", "900")) == 300


def test_cat_of_times_takes_what_the_sources_committed_then(logged: Logged) -> None:
    begin, end = "2026-03-01T09:00:50+01:00", "2026-03-01 08:01:30"
    found = cat(logged, "--from", begin, "--to", end)
    wanted = [t for t in logged.expected() if "2026-03-01T08:00:50" <= t["committed_at"] <= "2026-03-01T08:01:30"]
    assert found == wanted
    assert 30 < len(found) < 50
    later = [t for t in logged.expected(60) if t["committed_at"] <= "2026-03-01T08:01:30"]
    assert cat(logged, "--from", "60", "--to", end) == later
    done = run(logged.folder, "cat", "--from", "yesterday")
    assert done.returncode == 2
    assert "'yesterday' is neither a commit number nor a time" in " ".join(done.stderr.split())


def test_cat_as_text_is_a_block_a_transaction_and_is_not_cut_in_a_pipe(tmp_path: Path) -> None:
    project = Logged(tmp_path, 0)
    row = {"id": [1], "text": ["x" * 500 + "\x1b[2J"]}
    with LogWriter(project.log) as writer:
        table = pa.table({"_t": pa.array([0], pa.int32()), "_op": pa.array([4], pa.int8()), **row})
        origins = tuple(TransactionOrigin("shop", p, 1_772_352_000_000_000) for p in ("0/1", "0/2"))
        writer.append(TransactionBatch(origins, {"orders": table}))
    done = run(tmp_path, "cat")
    assert done.stdout.splitlines() == [
        "commit 1  2026-03-01T08:00:00Z  shop  0/1",
        "  insert   orders  id=1  text=" + "x" * 500 + "\\u001b[2J",
        "commit 2  2026-03-01T08:00:00Z  shop  0/2",
    ]


def test_a_table_that_the_log_never_held_is_named(logged: Logged) -> None:
    error = json.loads(run(logged.folder, "cat", "ordrs", "--json").stderr)["error"]
    assert (error["code"], error["next"]) == ("source.no_table", "did you mean 'orders'?")


def test_a_table_that_the_catalogue_has_forgotten_is_still_in_the_log(tmp_path: Path) -> None:
    project = Logged(tmp_path, 40)
    (tmp_path / ".headrace/catalog.db").unlink()
    assert cat(project, "orders") == project.expected(tables=("orders",))


def test_ls_counts_what_was_appended(logged: Logged) -> None:
    answer = json.loads(run(logged.folder, "ls", "--json").stdout)
    made = logged.random.made
    files = sorted(logged.log.glob("*.segment"))
    begins = [int(file.stem) for file in files]
    for segment, file, begin, end in zip(
        answer["segments"], files, begins, [*(b - 1 for b in begins[1:]), 300], strict=True
    ):
        inside = logged.expected(begin, end)
        times = [transaction["committed_at"] for transaction in inside]
        assert segment == {
            "segment": file.name,
            "first": begin,
            "last": end,
            "commits": len(inside),
            "rows": sum(len(transaction["changes"]) for transaction in inside),
            "bytes": file.stat().st_size,
            "active": file == files[-1],
            "oldest": min(times),
            "newest": max(times),
        }
    assert answer["total"]["rows"] == sum(len(changes) for _, changes in made)
    assert (answer["total"]["commits"], answer["total"]["segments"]) == (300, len(files))
    assert answer["total"]["bytes"] == LogReader(logged.log).verify().bytes
    rows = {name: sum(change.table == name for _, changes in made for change in changes) for name in RELATIONS}
    found = {table["table"]: (table["source"], table["rows"]) for table in answer["tables"]}
    assert found == {name: (SOURCE[name], rows[name]) for name in RELATIONS}
    for source in answer["sources"]:
        mine = [t for t in logged.expected() if t["source"] == source["source"]]
        last = mine[-1]
        assert source == {
            "source": last["source"],
            "commits": len(mine),
            "last": last["commit"],
            "committed_at": last["committed_at"],
            "position": last["position"],
        }


def test_ls_as_text(logged: Logged) -> None:
    lines = run(logged.folder, "ls").stdout.splitlines()
    assert lines[0].split() == ["segment", "first", "last", "commits", "rows", "size", "oldest", "newest", "state"]
    assert lines[2].split()[:2] == ["00000000000000000001.segment", "1"]
    assert [line.split()[-1] for line in lines[2:-2]] == ["sealed"] * (len(lines) - 5) + ["active"]
    assert lines[-1].startswith(f"{len(lines) - 4} segments, 300 commits, ")
    lines = run(logged.folder, "ls", "--feeds").stdout.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["clicks", "web"], ["orders", "shop"]]
    assert lines[-3].split()[0] == "web" and lines[-3].split()[-1].startswith('{"n":')


def test_a_table_has_one_source_although_groups_mix_them(tmp_path: Path) -> None:
    """Frames with transactions of both sources tell nothing; others, or the catalogue, do."""
    project = Logged(tmp_path, 0)
    one = pa.table({"_t": pa.array([0], pa.int32()), "_op": pa.array([0], pa.int8()), "id": [1]})
    both = {"orders": one, "clicks": one, "gone": one}
    origins = (TransactionOrigin("shop", "1", 0), TransactionOrigin("web", "1", 0))
    with LogWriter(project.log) as writer:
        writer.append(TransactionBatch(origins, both))
        writer.append(TransactionBatch(origins[1:], {"gone": one}))
    answer = json.loads(run(tmp_path, "ls", "--json").stdout)
    found = {table["table"]: (table["source"], table["rows"]) for table in answer["tables"]}
    assert found == {"orders": ("shop", 1), "clicks": ("web", 1), "gone": ("web", 2)}


@contextlib.contextmanager
def tailing(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`headrace log tail` at work; killed when the test has not ended it."""
    command = [COMMAND, "log", "tail", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_tail_begins_with_the_last_ones_and_follows_what_is_appended(tmp_path: Path) -> None:
    project = Logged(tmp_path, 60)
    with tailing(tmp_path, "--json") as all_of_it, tailing(tmp_path, "clicks", "--json", "-n", "3") as clicks:
        assert lines(all_of_it, 10) == project.expected(51)
        before = project.expected(tables=("clicks",))[-3:]
        assert lines(clicks, 3) == before
        for _ in range(3):  # other writers, over ends of segments
            project.random.grow(project.log, 20, segment_bytes=20_000)
        assert lines(all_of_it, 60) == project.expected(61)
        came = project.expected(61, tables=("clicks",))
        assert lines(clicks, len(came)) == came
        assert len(list(project.log.glob("*.segment"))) > 2
        for process in (all_of_it, clicks):
            for pause in (0, 0.002, 0.02):  # `timeout` signals a process and then its group
                time.sleep(pause)
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            assert (process.returncode, out, err.strip()) == (0, "", "")


def test_tail_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("")
    with tailing(tmp_path) as process:
        assert process.stderr is not None and process.stdout is not None
        assert process.stderr.readline() == "the log is at commit 0; Ctrl-C ends\n"
        made = RandomLog(3)
        (tmp_path / ".headrace").mkdir()
        made.grow(tmp_path / ".headrace/log", 1)
        assert process.stdout.readline().startswith("commit 1  2026-03-01T0")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_the_last_transactions_of_a_table_are_found_far_back(tmp_path: Path) -> None:
    """More commits behind them than are looked at first."""
    path = tmp_path / ".headrace/log"
    one = pa.table({"_t": pa.array([0, 3], pa.int32()), "_op": pa.array([0, 0], pa.int8()), "id": [1, 2]})
    origins = tuple(TransactionOrigin("shop", str(n), 0) for n in range(40_000))
    with LogWriter(path) as writer:
        writer.append(TransactionBatch(origins[:4], {"orders": one}))
        writer.append(TransactionBatch(origins))
    reader = history_of.reader_of(tmp_path)
    assert [history_of.last(reader, n, ["orders"]) for n in (0, 1, 2, 3)] == [40_004, 3, 0, 0]
    assert [history_of.last(reader, n) for n in (0, 10, 50_000)] == [40_004, 39_994, 0]


def test_verify_counts_a_sound_log(logged: Logged) -> None:
    done = run(logged.folder, "verify", "--json")
    answer = json.loads(done.stdout)
    files = list(logged.log.glob("*.segment"))
    assert (done.returncode, answer["damage"], answer["readable"]) == (0, [], [{"first": 1, "last": 300}])
    assert (answer["segments"], answer["commits"]) == (len(files), 300)
    assert answer["rows"] == sum(len(changes) for _, changes in logged.random.made)
    assert answer["bytes"] == sum(file.stat().st_size for file in files)
    assert run(logged.folder, "verify").stdout.endswith("sound: every byte in use is as it was written\n")


def test_verify_names_what_is_damaged_what_is_lost_and_what_stands(tmp_path: Path) -> None:
    project = Logged(tmp_path, 100)
    refs = LogReader(project.log).refs(0, 100)
    ref = next(ref for ref in refs if ref.first > 40 and "orders" in ref.rows)
    file = project.log / ref.segment
    whole = file.read_bytes()
    at = whole.index(b"amount", ref.offset)
    file.write_bytes(whole[:at] + b"amouMt" + whole[at + 6 :])
    done = run(tmp_path, "verify", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["damage"] == [
        {
            "segment": ref.segment,
            "offset": ref.offset,
            "first": ref.first,
            "last": ref.last,
            "table": "orders",
            "why": "the checksum of the rows of orders differs",
        }
    ]
    assert answer["readable"] == [{"first": 1, "last": ref.first - 1}, {"first": ref.last + 1, "last": 100}]
    assert cat(project, "--to", str(ref.first - 1)) == project.expected(1, ref.first - 1)
    assert cat(project, "--from", str(ref.last + 1)) == project.expected(ref.last + 1)
    failed = run(tmp_path, "cat")
    assert (failed.returncode, "log.corrupt" in failed.stderr) == (1, True)
    done = run(tmp_path, "verify")
    commits = f"commit {ref.first}" if ref.first == ref.last else f"commits {ref.first} to {ref.last}"
    assert (
        f"{ref.segment}, offset {ref.offset:,}: the checksum of the rows of orders differs; cannot be read: rows of orders in {commits}\n"
        in done.stdout
    )
    assert (
        f"1 damaged place; commits that can be read in whole: 1 to {ref.first - 1}, {ref.last + 1} to 100"
        in done.stdout
    )
    assert f"next: restore {ref.segment} in .headrace/log from a copy" in done.stdout
    file.write_bytes(whole)
    (project.log / "durable").write_bytes(b"x" * 32)
    done = run(tmp_path, "verify")
    assert (done.returncode, "`headrace up` makes the mark anew" in done.stdout) == (1, True)


@pytest.mark.parametrize("verb", ["ls", "cat", "verify"])
def test_an_empty_log_says_so(tmp_path: Path, verb: str) -> None:
    (tmp_path / "headrace.yaml").write_text("")
    done = run(tmp_path, verb)
    assert done.returncode == 0
    assert ("0 commits" if verb == "verify" else "no transaction has come in yet") in done.stdout + done.stderr
    assert not (tmp_path / ".headrace").exists()


def test_a_large_transaction_is_printed_in_little_memory(tmp_path: Path) -> None:
    project = Logged(tmp_path, 0)
    count = 1_000_000
    columns = {"_t": pa.array([0] * count, pa.int32()), "_op": pa.array([0] * count, pa.int8())}
    columns["id"] = pa.array(range(count), pa.int64())
    with LogWriter(project.log) as writer:
        writer.append(TransactionBatch((TransactionOrigin("shop", "1", 0),), {"orders": pa.table(columns)}))
    with subprocess.Popen([COMMAND, "log", "cat", "--json"], stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        most = size = total = 0
        while piece := process.stdout.read(1 << 16):
            status = Path(f"/proc/{process.pid}/status").read_text().split()
            most = max(most, int(status[status.index("RssAnon:") + 1]) if "RssAnon:" in status else 0)
            size += len(piece)
            total += piece.count(b'"op":"insert"')
    assert size > 50 * count
    assert total > count * 0.99  # but for those that a piece's end has cut
    assert 0 < most < 120_000, f"{most} kB"
