"""Goal: a disk that is full, or takes nothing, is told as such by every command, with the folder and what to do; what
is published can be read still; once there is room all goes on, and nothing is lost or comes twice.

Method: a project on a file system of its own that is filled to the last byte before the first start, filled while
`up` is at work, and mounted read-only; the installed command. New files come to a folder on another disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import warm_command

COMMAND = str(Path(sys.executable).with_name("headrace"))
EMPTY_MB, ROOM_MB = 3, 100  # the log takes 64 MiB at a time
VISIT = "at,page,seconds\n2026-03-02T08:00:00Z,{page},5\n"


def mounted(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The template of files on a disk of its own; the files come to ``tmp_path / "incoming"``."""
    place = tmp_path / "pages"
    place.mkdir()
    if not mounted(place, f"size={EMPTY_MB}m"):
        pytest.skip("no file system may be mounted here")
    try:
        assert headrace(place, "init", ".", "--template", "files").returncode == 0
        (tmp_path / "incoming").mkdir()
        source = place / "sources/visits.yaml"
        told = yaml.safe_load(source.read_text())
        source.write_text(yaml.safe_dump({**told, "path": str(tmp_path / "incoming")}))
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def filled(folder: Path) -> Path:
    file = folder / "rest"
    with pytest.raises(OSError, match="No space left"), file.open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(1 << 16))
    return file


def error(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 1, done.stdout + done.stderr
    return dict(json.loads(done.stderr.splitlines()[-1])["error"])


def told(folder: Path, *arguments: str) -> tuple[str, str]:
    """(code, where) of a command that the disk refuses, once it is sure that it says what to do."""
    found = error(headrace(folder, *arguments, "--json"))
    assert "nothing acknowledged is lost" in found["next"], found
    assert found["next"].startswith(("free some space", "make the disk writable"))
    return found["code"], found["where"]


def visits(folder: Path) -> list[Any]:
    answer = json.loads(headrace(folder, "show", "visits_per_page", "--json").stdout)
    return sorted([row[:2] for row in answer["rows"]])


@pytest.mark.spark
def test_a_full_disk_and_one_that_is_only_read_are_told_and_all_goes_on_later(folder: Path, tmp_path: Path) -> None:
    kept, incoming = str(folder / ".headrace"), tmp_path / "incoming"
    (incoming / "visits-1.csv").write_text(VISIT.format(page="/"))
    rest = filled(folder)
    for arguments in (["up", "--once"], ["plan"], ["verify"], ["token", "create", "ada", "--role", "viewer"]):
        assert told(folder, *arguments) == ("state.full", kept)
    assert error(headrace(folder, "show", "visits_per_page", "--json"))["code"] == "view.unknown"
    made = error(headrace(folder, "init", "other", "--json"))
    assert (made["code"], made["why"]) == ("project.not_found", "No space left on device")
    assert "has space" in made["next"] and not [path for path in (folder / "other").rglob("*") if path.is_file()]

    rest.unlink()
    assert mounted(folder, f"remount,size={ROOM_MB}m")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=folder, **pipes) as up:
        assert up.stdout is not None and up.stderr is not None
        for line in up.stdout:
            if json.loads(line)["event"] == "ready":
                break
        while visits(folder) != [["/", 1]]:
            time.sleep(0.1)
        rest = filled(folder)
        (incoming / "visits-2.csv").write_text(VISIT.format(page="/prices"))
        drained = threading.Thread(target=up.stdout.read)
        drained.start()
        said = up.stderr.read()
        drained.join()
    assert up.returncode == 1
    failed = json.loads(said.splitlines()[-1])["error"]
    assert failed["code"] == "state.full" and failed["where"].startswith(kept), failed
    assert "nothing acknowledged is lost" in failed["next"]
    assert visits(folder) == [["/", 1]]  # as it was published

    rest.unlink()
    done = headrace(folder, "up", "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert visits(folder) == [["/", 1], ["/prices", 1]]

    rest = filled(folder)
    assert visits(folder) == [["/", 1], ["/prices", 1]]
    assert [view["state"] for view in json.loads(headrace(folder, "views", "--json").stdout)["views"]] == ["live"]
    examined = json.loads(headrace(folder, "doctor", "--quick", "--json").stdout)["examined"]
    assert any("free some space" in finding["next"] for one in examined for finding in one["findings"]), examined
    assert error(headrace(folder, "backup", str(folder / "copy"), "--json"))["code"] == "state.full"
    rest.unlink()

    assert mounted(folder, "remount,ro")
    assert told(folder, "up", "--once") == ("state.failed", f"{kept}/lock")
    assert told(folder, "sql", "SELECT 1") == ("state.failed", f"{kept}/lock")
    assert visits(folder) == [["/", 1], ["/prices", 1]]
