"""Goal: what is kept for a time, or as far as there is room, goes as headrace.yaml says, and the rest is as verifiable.

Method: logs of a few entries in files of three each, with a clock that the test puts forward; killed, changed and read
while their beginning goes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from written_log import FILE_BYTES, HOUR_US, NOON_US, damage, files, flipped, sound, text_of, written

from headrace.governance import audit, chain
from headrace.governance.audit import AuditLog, Event, Wanted


def kept(folder: Path, clock: list[int]) -> AuditLog:
    return AuditLog(folder, lambda: clock[0], FILE_BYTES)


def test_what_is_older_than_is_kept_goes_and_the_rest_is_as_verifiable(tmp_path: Path) -> None:
    clock = [NOON_US]
    log = kept(tmp_path, clock)
    assert log.retain(3600, None) == 0
    for number in range(1, 9):  # files of 1-3, 4-6, 7-8; an entry each minute
        log.append(Event("owner", "apply", "done", relation=f"view_{number}", detail={"rows": number}))
        clock[0] += 60_000_000
    early, noted = log.verify().head, text_of(log)
    clock[0] = NOON_US + HOUR_US + 4 * 60_000_000  # entries 1 to 4 are older than an hour: of the second file not all
    assert log.retain(3600, None) == 3
    assert [path.name for path in files(log)] == ["000000000004.log", "000000000007.log", "000000000009.log"]
    assert text_of(log)[:5] == noted[3:]
    found, unreadable = log.recent(Wanted(action="audit_retain"), 10)
    seal = json.loads(noted[2])["seal"]
    assert (found[0]["who"], found[0]["detail"], unreadable) == (
        "headrace", {"upto": 3, "seal": seal, "entries": 3}, 0
    )  # fmt: skip
    verdict = log.verify(early)  # a head that was noted before, and is still there
    assert (verdict.damage, verdict.entries, verdict.removed) == (None, 6, 3)
    assert log.verify(f"3:{seal}").damage is None  # the last that went
    gone = log.verify(f"2:{json.loads(noted[1])['seal']}").damage
    assert gone is not None and "those up to 3 were removed" in gone.why
    assert log.retain(3600, None) == 0
    clock[0] += 100 * HOUR_US
    assert log.retain(3600, None) == 6  # also what was still being written: it began a file anew
    assert (log.verify().damage, log.verify().removed, log.verify().entries) == (None, 9, 1)
    assert log.append(Event("owner", "apply", "done")) == 11 and log.verify().damage is None


def test_a_file_that_was_begun_anew_for_its_age_is_sound_also_where_none_goes(tmp_path: Path) -> None:
    clock = [NOON_US]
    log = kept(tmp_path, clock)
    for _ in range(2):
        log.append(Event("owner", "apply", "done"))
    noted = log.verify().head
    clock[0] += HOUR_US // 2  # older than an eighth of an hour: the next entry begins a file
    assert log.retain(3600, None) == 0
    assert sound(log) == 2 and log.verify(noted).damage is None
    (log.folder / "head").write_bytes(audit.Head(2, noted[2:], 7, 0).packed())
    assert damage(log).why == "the file head says that another entry 2 is the last one"


def test_of_too_many_bytes_the_oldest_files_go(tmp_path: Path) -> None:
    log = written(tmp_path, 10)  # files of 1-3, 4-6, 7-9, 10
    assert log.retain(None, sum(path.stat().st_size for path in files(log))) == 0
    assert log.retain(None, 2 * FILE_BYTES) == 6
    assert files(log)[0].name == "000000000007.log" and log.verify().damage is None
    assert log.retain(None, 1) == 3  # never the file that is being written
    assert log.verify().damage is None


def test_no_entry_of_a_week_goes_for_the_sake_of_room(tmp_path: Path) -> None:
    clock = [NOON_US]
    log = kept(tmp_path, clock)
    for _ in range(7):  # files of 1-3, 4-6, 7
        log.append(Event("owner", "apply", "done"))
        clock[0] += 24 * HOUR_US
    assert log.retain(None, 1) == 0
    clock[0] += 4 * 24 * HOUR_US
    assert log.retain(None, 1) == 3 and sound(log) == 5


def test_a_call_removes_few_files_and_reads_but_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path, 2 * 3 * audit.GOING_MAX)
    assert log.retain(None, 1) == 3 * audit.GOING_MAX
    (first, second, *_) = files(log)
    content = first.read_bytes()
    first.write_bytes(b"{" + content[1:])  # of a file only its end is looked at: ``verify`` tells of the rest
    with monkeypatch.context() as patch:
        patch.setattr(audit, "lines_of", lambda *_: pytest.fail("a whole file was read"))
        patch.setattr(AuditLog, "_caught_up", lambda self, head: head)
        assert log._last_to_go(audit.Head(file=int(second.stem)), 1.0, None) is not None
    first.write_bytes(content)
    assert log.retain(None, 1) > 0 and log.verify().damage is None


def test_a_beginning_that_goes_while_it_is_read_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, between in enumerate((chain.files, chain.read_anchor)):
        log = written(tmp_path / str(number), 10)

        def meanwhile(folder: Path, real: Any = between, log: AuditLog = log) -> Any:
            monkeypatch.undo()
            found = real(folder)
            assert log.retain(None, 2 * FILE_BYTES) == 6
            return found

        monkeypatch.setattr(chain, between.__name__, meanwhile)
        verdict = log.verify()
        assert (verdict.damage, verdict.removed, verdict.entries) == (None, 6, 5)
        assert log.append(Event("owner", "apply", "done")) == 12
    log = written(tmp_path / "recent", 10)
    monkeypatch.setattr(
        chain, "files", lambda folder: (monkeypatch.undo(), chain.files(folder), log.retain(None, 1))[1]
    )
    assert [entry["number"] for entry in log.recent(Wanted(), 20)[0]] == [10, 11]


def test_a_beginning_that_nobody_removed_by_rule_is_damage(tmp_path: Path) -> None:
    log = written(tmp_path, 8)
    lines = text_of(log)
    first, second = files(log)[:2]
    content = first.read_bytes()
    first.unlink()
    assert damage(log).why == "entries 1 to 3 are not there"
    anchor = log.folder / "anchor"
    anchor.write_text(f"{3:012d} {json.loads(lines[2])['seal']}\n")  # forged: it is the seal, and nothing tells of it
    verdict = log.verify()
    assert verdict.damage is not None and verdict.damage.why == "no entry says that those up to 3 were removed"
    anchor.unlink()
    first.write_bytes(content)
    assert log.retain(None, 2 * FILE_BYTES) == 3
    whole = anchor.read_bytes()
    for place in range(len(whole)):
        anchor.write_bytes(flipped(whole, place))
        assert log.verify().damage is not None, place
    anchor.unlink()
    assert log.verify().damage is not None
    anchor.write_bytes(whole)
    second.unlink()
    assert log.verify().damage is not None


@pytest.mark.parametrize("at", ["the entry", "the anchor", "the first file"])
def test_a_removal_that_ends_in_the_middle_leaves_it_sound_and_the_next_goes_on(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path, 10)
    with monkeypatch.context() as patch:

        def killed(*arguments: object) -> None:
            raise KeyboardInterrupt

        if at == "the entry":
            patch.setattr(audit, "anchor_text", killed)
        elif at == "the anchor":
            patch.setattr(audit, "_sync_folder", killed)
        else:
            unlink = Path.unlink
            patch.setattr(Path, "unlink", lambda path: killed() if path.stem.endswith("4") else unlink(path))
        with pytest.raises(KeyboardInterrupt):
            log.retain(None, 2 * FILE_BYTES)
    assert log.verify().damage is None
    if at == "the entry":
        assert log.verify().removed == 0 and log.retain(None, 2 * FILE_BYTES) == 6
    else:
        assert log.verify().removed == 6 and log.recent(Wanted(), 20)[0][0]["number"] == 7
        assert log.retain(None, 10 * FILE_BYTES) == 0
    assert files(log)[0].name == "000000000007.log" and log.verify().damage is None
