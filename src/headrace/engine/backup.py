"""A project copied while it runs, consistent at one commit, and put back elsewhere. Needs no Spark.

The catalogue says which files make up the state of one step; none of them ever changes, so they may be copied after
the cut, as long as they are held. The log grows meanwhile: it is copied as far as it is durable at the cut, after the
catalogue, so that it is never behind the state. ``backup.json`` comes last: without it a copy is not whole.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zlib_ng import zlib_ng

from headrace.catalog.groups import FILE as GROUPS
from headrace.catalog.groups import GroupStore
from headrace.catalog.place import PLACE
from headrace.catalog.project import HISTORY, STATE, read
from headrace.catalog.store import ANEW, Catalog
from headrace.catalog.synced import synced
from headrace.engine.connectors import make_source
from headrace.governance.chain import FOLDER as AUDIT
from headrace.governance.chain import HEAD
from headrace.governance.tokens import FILE as ACCESS
from headrace.governance.tokens import Tokens
from headrace.log.base import BEGIN_NAME, retained
from headrace.log.layout import MARK_NAME, Mark, segment_name
from headrace.log.segment import Segment, read_mark
from headrace.model.errors import HeadraceError
from headrace.serve.quarantine import FOLDER as QUARANTINE
from headrace.serve.search.index import FOLDER as INDEXES
from headrace.serve.snapshot import catalog_path
from headrace.sinks.alerts import FOLDER as OUTBOX
from headrace.sinks.alerts import outbox

LAYOUT = 1
TOLD = "backup.json"
AGAIN = "remove what is there, and do it again: what it was copied from is as it was"
PROJECT, KEPT = "project", "kept"  # the definitions, and what is in .headrace
DEFINITIONS = (
    "headrace.yaml", "sources", "views", "sinks", "functions", "searches", "tests", "contracts", ".gitignore",
)  # fmt: skip
_LOG, _STATE = "log", "state"
_COPIED = (GROUPS, ACCESS, f"{AUDIT}/{HEAD}")  # at the cut, beside the catalogue
_PIECE = 1 << 20
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Cut:
    """The state of one step: its commit, and the files that the copied catalogue names, from .headrace on.

    ``mark``: how far the log was durable then.
    """

    commit: int
    files: tuple[str, ...]
    mark: Mark


def cut(catalog: Catalog, project: Path, target: Path) -> Cut:
    """Copies the catalogue as it is now. The files that it names must stay until they are copied too.

    What enters the log together with the catalogue (the quarantine) must not do so meanwhile.
    """
    place = target / KEPT / catalog_path(Path()).name
    place.parent.mkdir(parents=True)
    if (project / STATE / GROUPS).exists():  # before the rest, so that no group stands beyond its feed
        with closing(GroupStore(project / STATE / GROUPS)) as groups:
            groups.copy_to(place.with_name(GROUPS))
    for name in _outboxes(project / STATE):  # before it too: what a sink has not taken yet comes to it again
        (target / KEPT / name).parent.mkdir(mode=0o700, exist_ok=True)
        outbox.copy(project / STATE / name, target / KEPT / name)
    if (project / STATE / ACCESS).exists():
        with closing(Tokens(project / STATE)) as tokens:
            tokens.copy_to(place.with_name(ACCESS))
    if (project / STATE / AUDIT / HEAD).exists():  # before the entries, so that it names none that is not copied
        (place.parent / AUDIT).mkdir(mode=0o700)
        shutil.copy2(project / STATE / AUDIT / HEAD, place.parent / AUDIT / HEAD)
    catalog.copy_to(place)
    mark = read_mark(project / STATE / _LOG) or Mark(0, 0, 0)
    copied = Catalog(place, read_only=True)
    try:
        last = copied.last_published()
        return Cut(last.upto if last else 0, tuple(copied.stored(path) for path in copied.files()), mark)
    finally:
        copied.close()


def begin(target: Path) -> Path:
    """The absolute folder that a backup goes to; ``project.exists`` when something is there."""
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise HeadraceError(
            "project.exists", f"{target} is there already", why="a backup is made in a folder of its own",
            next="name a folder that is empty or not there",
        )  # fmt: skip
    target.mkdir(parents=True, exist_ok=True)
    target.chmod(0o700)  # it holds the tokens of sources
    return target


def copy(project: Path, made: Cut, target: Path, on_progress: Progress) -> dict[str, Any]:
    """The rest of a backup: state, log, definitions. ``{"folder", "commit", "log_end", "files", "bytes"}``."""
    mark = made.mark
    jobs = list(_jobs(project, made, mark))
    total, done = sum(size for _, _, size in jobs), 0
    files: dict[str, list[int]] = {}
    for source, place, size in jobs:
        on_progress({"text": "copying", "done": done, "total": total})
        files[place] = [size, _copied(source, target / place, size)]
        done += size
    if mark.end:
        (target / KEPT / _LOG).mkdir(parents=True, exist_ok=True)
        (target / KEPT / _LOG / MARK_NAME).write_bytes(mark.pack())
    copied = (catalog_path(Path()).name, *_COPIED, f"{_LOG}/{MARK_NAME}", *_outboxes(target / KEPT))
    there = [f"{KEPT}/{name}" for name in copied]
    for place in [place for place in there if (target / place).exists()]:
        files[place] = [(target / place).stat().st_size, _checksum(target / place)]
    told = {"layout": LAYOUT, "commit": made.commit, "log_end": mark.end, "at": int(time.time()), "files": files}
    partial = target / f".{TOLD}"
    partial.write_text(json.dumps(told, indent=1))
    synced(partial)
    partial.rename(target / TOLD)
    synced(target)
    sizes = sum(size for size, _ in files.values())
    return {"folder": str(target), "commit": made.commit, "log_end": mark.end, "files": len(files), "bytes": sizes}


def restore(backup: Path, target: Path, on_progress: Progress) -> dict[str, Any]:
    """A backup as a project in ``target``, every byte checked; nothing is written elsewhere, and no link followed.

    ``{"folder", "commit", "log_end", "copied_anew", "functions", "code"}``: the last two are the files of functions/,
    and whether the settings let them run.

    Its log goes on by another history than the one that was backed up: sinks that stand beyond it come anew, and
    sources that can copy their tables do (``copied_anew``), since they may have forgotten what came after.

    Raises ``backup.damaged``, ``project.exists``, ``state.layout``.
    """
    told, backup = _told(backup), backup.resolve()
    # Every place is looked at before a file is copied.
    files = {place: (_put(place), size, crc) for place, (size, crc) in told["files"].items()}
    target = begin(target)
    total, done = sum(size for _, size, _ in files.values()), 0
    (target / STATE).mkdir(mode=0o700)
    for place, (put, size, crc) in files.items():
        on_progress({"text": "copying", "done": done, "total": total})
        if (backup / place).resolve() != backup / place:
            raise _damaged(backup / place, "it is a link: a backup has the files themselves")
        if not (backup / place).is_file() or _copied(backup / place, target / put, size) != crc:
            raise _damaged(backup / place, "it is missing, shorter, or has other bytes than were written")
        (target / put).chmod(0o600 if place.startswith(f"{KEPT}/") else 0o644)  # whatever the backup's are
        done += size
    for name in (HISTORY, PLACE):
        (target / STATE / name).unlink(missing_ok=True)
    project = read(target)
    anew = [d.name for d in project.sources if make_source(d, project).copies]
    catalog = Catalog(catalog_path(target), any_state=True)
    for name in anew:
        catalog.set_meta(ANEW + name, "yes")
    catalog.close()
    return {
        "folder": str(target), "commit": told["commit"], "log_end": told["log_end"], "copied_anew": anew,
        "functions": [file.name for file in project.functions], "code": project.settings.code,
    }  # fmt: skip


def _put(place: str) -> str:
    """Where a file of a backup goes, below the target. Raises ``backup.damaged`` for what no backup names."""
    part, *names = place.split("/")
    known = part == KEPT or (part == PROJECT and bool(names) and names[0] in DEFINITIONS)
    if not known or not names or any(name in ("", ".", "..") or "\0" in name for name in names):
        raise _damaged(Path(TOLD), f"it names {place!r}, which no backup has")
    return "/".join(names if part == PROJECT else [STATE, *names])


def _outboxes(home: Path) -> list[str]:
    """Those of sinks that tell of changes: files that are written while they are copied."""
    return sorted(path.relative_to(home).as_posix() for path in (home / OUTBOX).glob("*.db"))


def _jobs(project: Path, made: Cut, mark: Mark) -> Iterator[tuple[Path, str, int]]:
    """(file, its place in the backup, bytes of it) of all but the catalogue and the log's mark."""
    home = project / STATE
    for name in made.files:
        yield home / name, f"{KEPT}/{name}", (home / name).stat().st_size
    last = segment_name(mark.segment)
    base, there = retained(home / _LOG)
    names = [name for name in there if mark.end and name <= last]
    for part in sorted({BEGIN_NAME, *base.names()} if base.commit else ()):
        yield home / _LOG / part, f"{KEPT}/{_LOG}/{part}", (home / _LOG / part).stat().st_size
    for name, after in zip(names, [*names[1:], None], strict=True):
        used = Segment(home / _LOG / after).header.previous_length if after else mark.offset
        yield home / _LOG / name, f"{KEPT}/{_LOG}/{name}", used
    taken = (_LOG, _STATE, QUARANTINE, OUTBOX, INDEXES, "lock")
    for file in sorted(home.rglob("*")):
        inside = file.relative_to(home)
        elsewhere = inside.parts[0] in taken or inside.as_posix().startswith(("catalog.", *_COPIED))
        if file.is_file() and not elsewhere and inside.as_posix() not in made.files:
            yield file, f"{KEPT}/{inside.as_posix()}", file.stat().st_size
    for name in DEFINITIONS:
        found = [project / name] if (project / name).is_file() else sorted((project / name).rglob("*"))
        for file in found:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file, f"{PROJECT}/{file.relative_to(project).as_posix()}", file.stat().st_size


def _copied(source: Path, target: Path, size: int) -> int:
    """Copies the first ``size`` bytes, durably; their CRC-32, or -1 when there are not as many."""
    target.parent.mkdir(parents=True, exist_ok=True)
    crc, left = 0, size
    with source.open("rb") as file, target.open("wb") as copy:
        while left and (piece := file.read(min(left, _PIECE))):
            copy.write(piece)
            crc, left = zlib_ng.crc32(piece, crc), left - len(piece)
        copy.flush()
        os.fdatasync(copy.fileno())
    shutil.copymode(source, target)
    return crc if not left else -1


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            crc = zlib_ng.crc32(piece, crc)
    return crc


def _told(backup: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads((backup / TOLD).read_text())
        layout = told["layout"]
        if not all(isinstance(number, int) for of in told["files"].values() for number in of):
            raise TypeError("a size or a checksum is no number")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(backup / TOLD, f"it cannot be read: {error}") from error
    if layout != LAYOUT:
        raise HeadraceError(
            "state.layout", f"the backup has layout {layout}, this version knows {LAYOUT}", where=str(backup),
            next="use the version of Headrace that wrote it",
        )  # fmt: skip
    return told


def _damaged(where: Path, why: str) -> HeadraceError:
    return HeadraceError(
        "backup.damaged", "the backup is not whole", where=str(where), why=why,
        next="take another one: only one with a sound backup.json was finished",
    )  # fmt: skip
