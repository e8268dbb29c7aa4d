"""Goal: the audit log holds what was done, in order, from many writers; and what is changed in it is found and named.

Method: logs of a few entries in files of three each, changed byte by byte and line by line, and judged by what was
changed. Writers are threads and processes, which are killed while they write.
"""

from __future__ import annotations

import hashlib
import json
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_log import NOON_US, damage, files, flipped, sound, text_of, written

from headrace.governance import audit
from headrace.governance.audit import AuditLog, Event, Wanted
from headrace.governance.principal import Principal
from headrace.governance.roles import Action, Role
from headrace.model.errors import HeadraceError


def test_an_entry_says_who_did_what_when_and_where(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, lambda: NOON_US)
    log.append(Event("deploy", "rebuild", "done", "4fd9d7fc", "orders", "10.0.0.7", 1, {"views": "orders", "n": 2}))
    (line,) = text_of(log)
    entry = json.loads(line)
    assert entry.pop("seal") == hashlib.sha256(line[:-76]).hexdigest()
    assert entry == {
        "number": 1, "at": "2026-03-01T12:00:00.000000Z", "who": "deploy", "token": "4fd9d7fc", "action": "rebuild",
        "relation": "orders", "address": "10.0.0.7", "outcome": "done", "of": 1,
        "detail": {"views": "orders", "n": 2}, "before": "0" * 64,
    }  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700


def test_times_of_any_size_have_a_text_and_its_order_is_theirs() -> None:
    times = [-(10**20), -(10**16), -1, 0, NOON_US, 10**20]
    texts = [audit.time_text(us) for us in times]
    assert texts == sorted(texts)
    assert (texts[0], texts[-1]) == ("0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z")


def test_each_byte_that_is_changed_is_found_and_its_entry_named(tmp_path: Path) -> None:
    log = written(tmp_path, 5)
    assert [path.name for path in files(log)] == ["000000000001.log", "000000000004.log"]
    assert sound(log) == 5
    number = 0
    for path in files(log):
        content = path.read_bytes()
        at = 0
        for line in content.splitlines(keepends=True):
            number += 1
            for place in range(at, at + len(line)):
                path.write_bytes(flipped(content, place))
                found = damage(log)
                assert found.number == number, f"byte {place} of {path.name}"
                assert (found.file, found.offset) == (path.name, at)
            at += len(line)
        path.write_bytes(content)
    head = log.folder / "head"
    content = head.read_bytes()
    for place in range(len(content)):
        head.write_bytes(flipped(content, place))
        assert damage(log).number >= 1
    head.write_bytes(content)
    assert sound(log) == 5


def resealed(line: bytes, **values: Any) -> bytes:
    """The entry with other values, sealed as the log seals."""
    entry = {name: value for name, value in {**json.loads(line), **values}.items() if name != "seal"}
    text = json.dumps(entry, separators=(",", ":"))[:-1].encode()
    return text + f',"seal":"{hashlib.sha256(text).hexdigest()}"}}\n'.encode()


@st.composite
def tampered(draw: st.DrawFn) -> tuple[int, str, int, int]:
    """Entries; what is done; to which entry, and which other one."""
    count = draw(st.integers(1, 7))
    what = draw(st.sampled_from(["remove", "swap", "repeat", "cut", "reseal", "renumber"]))
    return count, what, draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))


@given(tampered())
@settings(max_examples=60)
def test_an_entry_that_is_removed_moved_repeated_or_forged_is_found(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[int, str, int, int]
) -> None:
    count, what, one, other = case
    log = written(tmp_path_factory.mktemp("kept"), count, 1 << 20)
    before = text_of(log)
    lines = list(before)
    first = one + 1  # the entry that is to be named
    if what == "remove":
        del lines[one]
    elif what == "swap":
        lines[one], lines[other] = lines[other], lines[one]
        first = min(one, other) + 1
    elif what == "repeat":
        lines.insert(one + 1, lines[one])
        first = one + 2
    elif what == "cut":
        lines = lines[:one]
    elif what == "reseal":  # the entry itself is in order: the next one, or the head, was sealed after another
        lines[one] = resealed(lines[one], who="nobody")
        first = min(one + 2, count)
    else:
        lines[one] = resealed(lines[one], number=other + 100)
    files(log)[0].write_bytes(b"".join(lines))
    if lines == before:
        assert sound(log) == count
    else:
        assert damage(log).number == first


def test_a_file_that_is_gone_is_found_also_after_more_was_written(tmp_path: Path) -> None:
    for gone, first in ((0, 1), (1, 4), (2, 7)):
        log = written(tmp_path / str(gone), 8)
        assert len(files(log)) == 3
        files(log)[gone].unlink()
        assert damage(log).number == first
        log.append(Event("owner", "stop", "done"))
        assert damage(log).number == first, "what follows hides nothing"


def test_a_file_that_was_renamed_or_put_in_between_is_found(tmp_path: Path) -> None:
    log = written(tmp_path, 8)
    middle = files(log)[1]
    for name, number in (("000000000005.log", 4), ("000000000009.log", 4)):
        renamed = middle.rename(log.folder / name)
        assert damage(log).number == number
        renamed.rename(middle)
    (log.folder / "000000000003.log").write_bytes(middle.read_bytes())
    assert damage(log).number == 4
    (log.folder / "000000000003.log").unlink()
    (log.folder / "notes.txt").write_text("not of the log")
    assert sound(log) == 8


def test_what_was_cut_off_stays_missed_when_the_log_goes_on(tmp_path: Path) -> None:
    log = written(tmp_path, 5, 1 << 20)
    (path,) = files(log)
    lines = text_of(log)
    for kept in (b"".join(lines[:3]), b"".join(lines[:3]) + lines[3][:50]):
        path.write_bytes(kept)
        assert damage(log).number == 4
        log.append(Event("owner", "stop", "done"))
        found = damage(log)
        assert found.number == 4
    path.write_bytes(b"".join(lines[:3]) + text_of(log)[-1])
    assert "entries 4 to" in damage(log).why


def test_a_log_that_was_written_anew_is_told_by_a_head_noted_before(tmp_path: Path) -> None:
    """Whoever may write the folder can make a log that is sound in itself."""
    log = written(tmp_path / "true", 4)
    noted = log.verify().head
    log.append(Event("owner", "stop", "done"))
    assert log.verify(noted).damage is None, "it has gone on since"
    forged = written(tmp_path / "forged", 3)
    forged.append(Event("nobody", "apply", "done"))
    forged.append(Event("nobody", "stop", "done"))
    assert sound(forged) == 5
    assert damage(forged, noted).number == 4
    assert "is not one of this log" in damage(forged, noted).why
    assert "is not one of this log" in damage(log, "rubbish").why


def test_wherever_a_writer_ends_the_log_is_sound_and_goes_on(tmp_path: Path) -> None:
    """The piece of an entry that was being written was never acknowledged; a whole one is taken over."""
    log = written(tmp_path, 2, 1 << 20)
    (path,) = files(log)
    head = (log.folder / "head").read_bytes()
    log.append(Event("owner", "stop", "done"))
    content, last = path.read_bytes(), len(text_of(log)[-1])
    for piece in range(0, last + 1, 7):
        path.write_bytes(content[: len(content) - last + piece])
        (log.folder / "head").write_bytes(head)
        there = 3 if piece == last else 2
        assert sound(log) == there
        assert log.recent(Wanted(), 10)[1] == 0
        assert log.append(Event("owner", "drop", "done")) == there + 1
        assert sound(log) == there + 1
    path.write_bytes(content)
    (log.folder / "head").write_bytes(head)
    assert log.append(Event("owner", "drop", "done")) == 4
    assert [entry["action"] for entry in log.recent(Wanted(), 10)[0]] == ["apply", "apply", "stop", "drop"]


def test_a_first_entry_whose_writer_ended_is_taken_over(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.folder.mkdir()
    assert sound(log) == 0
    (log.folder / "head").touch()
    assert sound(log) == 0
    log.append(Event("owner", "apply", "done"))
    (log.folder / "head").write_bytes(audit.Head().packed())
    assert sound(log) == 1
    assert log.append(Event("owner", "apply", "done")) == 2
    assert sound(log) == 2


PROGRAM = """
import sys
from pathlib import Path
from headrace.governance.audit import AuditLog, Event
log = AuditLog(Path(sys.argv[1]), file_bytes=5_000)
for n in range(int(sys.argv[3])):
    print(log.append(Event(sys.argv[2], "apply", "done", detail={"n": n})), flush=True)
"""


def writer(folder: Path, who: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, folder, who, str(count)], stdout=subprocess.PIPE, text=True)


def test_threads_and_processes_append_at_once(tmp_path: Path) -> None:
    processes = [writer(tmp_path, f"process_{n}", 40) for n in range(2)]
    log = AuditLog(tmp_path, file_bytes=5_000)
    told: dict[str, list[int]] = {}

    def append(who: str) -> None:
        told[who] = [log.append(Event(who, "apply", "done", detail={"n": n})) for n in range(20)]

    threads = [threading.Thread(target=append, args=(f"thread_{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, process in enumerate(processes):
        told[f"process_{n}"] = [int(line) for line in process.communicate(timeout=60)[0].split()]
        assert process.returncode == 0
    assert sound(log) == 160
    entries, unreadable = log.recent(Wanted(), 1_000)
    assert unreadable == 0
    assert len(files(log)) > 5
    for who, numbers in told.items():
        of = [(entry["number"], entry["detail"]["n"]) for entry in entries if entry["who"] == who]
        assert of == list(zip(numbers, range(len(numbers)), strict=True))


def test_no_entry_that_was_acknowledged_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    for kill in range(6):
        process = writer(tmp_path, f"writer_{kill}", 100_000)
        assert process.stdout is not None
        acknowledged += [int(process.stdout.readline()) for _ in range(5 + kill)]
        time.sleep(0.003 * kill)
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout.read().splitlines()]
        process.wait()
        process.stdout.close()
        log = AuditLog(tmp_path)
        assert sound(log) >= len(acknowledged)
    assert acknowledged == sorted(set(acknowledged))
    there = {entry["number"]: entry["who"] for entry in log.recent(Wanted(), 1_000_000)[0]}
    assert set(acknowledged) <= set(there)


def test_a_disk_that_takes_no_more_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = written(tmp_path, 2, 1 << 20)
    content = files(log)[0].read_bytes()
    program = (
        "import resource, sys; from pathlib import Path; from headrace.governance.audit import AuditLog, Event;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(content) + 100},) * 2)\n"
        "try: AuditLog(Path(sys.argv[1])).append(Event('owner', 'apply', 'done'))\n"
        "except Exception as error: print(error.code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("audit.failed\n", "")
    assert files(log)[0].read_bytes() == content
    assert sound(log) == 2


def test_a_writer_that_holds_the_log_for_ever_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path, 1)
    monkeypatch.setattr(audit, "LOCK_S", 0.05)
    with log._locked(), pytest.raises(HeadraceError, match=r"another process has it for more than 0\.05 s"):
        log.append(Event("owner", "apply", "done"))
    assert log.append(Event("owner", "apply", "done")) == 2


@pytest.mark.parametrize("text", ["a\nb", 'a","seal":"' + "0" * 64, "\udcff\x00\u2028", "x" * 100_000, "{}"])
def test_hostile_text_stays_within_its_entry(tmp_path: Path, text: str) -> None:
    log = AuditLog(tmp_path)
    log.append(
        Event(text, "read", "refused", "4fd9d7fc", text, text, detail={"code": text, **{str(n): 1 for n in range(99)}})
    )
    log.append(Event("owner", "stop", "done"))
    assert sound(log) == 2
    first = log.recent(Wanted(), 10)[0][0]
    assert {first[name] for name in ("who", "relation", "address")} == {text[:200]}
    assert len(first["detail"]) == 20


@pytest.fixture
def days(tmp_path: Path) -> Iterator[AuditLog]:
    times = iter(NOON_US + day * 86_400_000_000 for day in range(9))
    log = AuditLog(tmp_path, lambda: next(times))
    for who, action, relation, outcome in (
        ("ann", "apply", None, "begun"), ("ann", "apply", None, "done"), ("bob", "read", "salaries", "refused"),
        ("bob", "rebuild", "orders", "done"), ("ann", "rebuild", "orders", "failed"),
    ):  # fmt: skip
        log.append(Event(who, action, outcome, relation=relation))
    yield log


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Wanted(), [1, 2, 3, 4, 5]), (Wanted(who="bob"), [3, 4]), (Wanted(action="rebuild"), [4, 5]),
        (Wanted(relation="orders", who="ann"), [5]), (Wanted(outcome="refused"), [3]), (Wanted(who="eve"), []),
        (Wanted(since_us=NOON_US + 3 * 86_400_000_000), [4, 5]), (Wanted(since_us=NOON_US + 3 * 86_400_000_000 + 1), [5]),
    ],
)  # fmt: skip
def test_entries_are_chosen_by_who_what_and_when(days: AuditLog, wanted: Wanted, numbers: list[int]) -> None:
    assert [entry["number"] for entry in days.recent(wanted, 50)[0]] == numbers
    assert [entry["number"] for entry in days.recent(wanted, 1)[0]] == numbers[-1:]


def test_what_is_done_is_written_down_before_and_after(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    deploy = Principal("deploy", Role.OPERATOR, (), "4fd9d7fc")
    with log.doing(deploy, Action.REBUILD, "orders", address="10.0.0.7", detail={"views": "orders"}):
        assert [entry["outcome"] for entry in log.recent(Wanted(), 9)[0]] == ["begun"]
    with pytest.raises(HeadraceError), log.doing(deploy, Action.REBUILD, "ordrs"):
        raise HeadraceError("view.unknown", "there is no view 'ordrs'")
    with pytest.raises(KeyboardInterrupt), log.doing(deploy, Action.BACKUP):
        raise KeyboardInterrupt
    with log.doing(deploy, Action.READ, "orders"):
        pass
    entries, _ = log.recent(Wanted(), 9)
    assert [(e["number"], e["action"], e["relation"], e["outcome"], e["of"], e["detail"]) for e in entries] == [
        (1, "rebuild", "orders", "begun", None, {"views": "orders"}),
        (2, "rebuild", "orders", "done", 1, {"views": "orders"}),
        (3, "rebuild", "ordrs", "begun", None, {}),
        (4, "rebuild", "ordrs", "failed", 3, {"code": "view.unknown"}),
        (5, "backup", None, "begun", None, {}),
        (6, "backup", None, "failed", 5, {"code": "KeyboardInterrupt"}),
    ]
    assert {(e["who"], e["token"]) for e in entries} == {("deploy", "4fd9d7fc")}


def test_nothing_is_done_that_cannot_be_written_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit").write_text("a file where the folder should be")
    log, done = AuditLog(tmp_path), []
    with pytest.raises(HeadraceError, match=r"^\[audit\.failed\]"), log.doing(Principal("a", Role.ADMIN), Action.STOP):
        done.append("remote")
    with log.doing(Principal("a", Role.ADMIN), Action.STOP, must=False):
        done.append("local")
    assert done == ["local"]
    assert "not in the audit log: begun of stop by 'a'" in caplog.text
