"""The state of all circuits on disk: which runs are live, merged in the background, made durable by checkpoints."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.catalog.synced import synced
from headrace.engine.memory import give_back
from headrace.model.errors import HeadraceError
from headrace.serve.sound import sound, sound_now
from headrace.state import reference
from headrace.state.arrangement import MERGE_BYTES, Run, heavy, mergeable
from headrace.state.ordered import merge_runs
from headrace.state.phases import MERGE, timed
from headrace.state.reference import is_reference
from headrace.state.run import STRETCH, checksums, is_sorted, let_go, size_merged, size_of, stored_run, write_run

_log = logging.getLogger(__name__)
MERGED = "merged"
UNSORTED_RUNS = 64  # so many of those that nobody looks for rows in are merged at once: each is a copy of its rows
RUNS_MAX = 24  # beyond that a step waits for the merges, so that probing stays cheap


class Kept:
    """Live runs by arrangement. The engine's thread adds; one merging thread combines; both under a lock.

    Where the merging thread has fallen behind, the engine's merges too: what is large one at a time (0023).
    """

    def __init__(self, folder: Path, merge_bytes: int = MERGE_BYTES) -> None:
        """``merge_bytes``: of a merged run at most; a merge takes about twice as much memory."""
        self.folder, self.merge_bytes = folder, merge_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self.runs: dict[str, list[Run]] = {}
        self.beside: dict[str, list[str]] = {}  # files of rows that leaves leave out, see ``Aside``
        self._lock = threading.Lock()
        self._large = threading.Lock()  # for who merges what takes memory
        self._synced: dict[str, str] = {}  # path -> checksums of what is on the disk
        self._unread: set[str] | None = None  # runs that no step has read: as ``filling`` says
        self._coming: set[str] = set()  # merged files that are not live yet: collect() must leave them
        self._needed = threading.Event()
        self._closed = threading.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="headrace-checkpoint")
        self._merger = threading.Thread(target=self._merge_always, name="headrace-merge", daemon=True)

    def start(self) -> None:
        for left in (self.folder / MERGED).glob(".*"):  # of a merge that was killed
            left.unlink()
        self._merger.start()

    def close(self) -> None:
        self._closed.set()
        self._needed.set()
        if self._merger.is_alive():
            self._merger.join()
        self._writer.shutdown()

    def paths(self) -> dict[str, list[str]]:
        """For a step's description: paths of the live runs, oldest first."""
        with self._lock:
            return {**{name: [run.path for run in runs] for name, runs in self.runs.items()}, **self.beside}

    def add(self, files: Iterable[Path]) -> None:
        """Make the runs that a step's tasks wrote part of the state. A task run twice wrote equal runs: one counts."""
        chosen: dict[tuple[str, str], Path] = {}
        for path in sorted(files):
            name, part, _attempt, _rows = path.stem.split("~")
            chosen.setdefault((name, part), path)
        with self._lock:
            for (name, _part), path in sorted(chosen.items()):
                rows = int(path.stem.rsplit("~", 1)[1])
                if rows:
                    self.runs.setdefault(name, []).append(Run(str(path), rows, size_of(str(path))))
                    if self._unread is not None:
                        self._unread.add(str(path))
        self._needed.set()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """First contents of views are built: what is added inside is read by nobody yet, and named by no checkpoint.
        Runs of it that are merged go at once, so that the disk need not hold all of it twice."""
        with self._lock:
            self._unread = set()
        try:
            yield
        finally:
            with self._lock:
                self._unread = None

    def heavy(self) -> bool:
        """Whether rows of some arrangement are long."""
        with self._lock:
            return any(heavy(run.size, run.rows) for runs in self.runs.values() for run in runs)

    def keep_only(self, names: set[str]) -> None:
        """Forget arrangements that no circuit has any more."""
        with self._lock:
            self.runs = {name: runs for name, runs in self.runs.items() if name in names}

    def taken(self, names: Iterable[str]) -> dict[str, list[Run]]:
        """These arrangements, which are empty from now on; their files stay until the next ``collect``."""
        with self._lock:
            return {name: self.runs.pop(name) for name in names if name in self.runs}

    def whole(self, name: str) -> str | None:
        """One consolidated run with all that an arrangement holds, or None when that is nothing."""
        with self._lock:
            runs = list(self.runs.get(name, []))
        if not runs:
            return None
        return self._combine(name, runs, 0).path if len(runs) > 1 else runs[0].path

    @timed(MERGE)
    def wait_for_merges(self) -> None:
        """Merge here when the background has fallen behind."""
        for name in list(self.runs):
            while len(self.runs.get(name, [])) > RUNS_MAX and self._merge_one(name, least=2):
                pass

    def checkpoint(self) -> dict[str, Any]:
        """Make every live run durable, and return them as the catalogue keeps them, each with its checksums."""
        return self.begin_checkpoint().result()

    def begin_checkpoint(self) -> Future[dict[str, Any]]:
        """The same of what is live now, beside: nothing may be collected until it is there. One after the other."""
        with self._lock:
            live = {name: list(runs) for name, runs in self.runs.items()}
        return self._writer.submit(self._made_durable, live)

    def _made_durable(self, live: dict[str, list[Run]]) -> dict[str, Any]:
        folders = set()
        for runs in live.values():
            for run in runs:
                if run.path not in self._synced:
                    self._synced[run.path] = checksums(Path(run.path), sync=True)
                    folders.add(str(Path(run.path).parent))
        for folder in sorted(folders | {str(self.folder)}):
            synced(folder)
        give_back()
        return {name: [[r.path, r.rows, r.size, self._synced[r.path]] for r in runs] for name, runs in live.items()}

    def restore(self, runs: dict[str, Any]) -> None:
        """Raises ``state.corrupt`` where a run is not as the checkpoint left it. Work: one reading of all of them."""
        check_all(runs)
        with self._lock:
            self.runs = {name: [Run(*entry[:3]) for entry in entries] for name, entries in runs.items()}
            self._synced = {path: sums for entries in runs.values() for path, _, _, sums in map(_entry, entries)}

    def collect(self, durable: dict[str, Any], also: Iterable[str] = ()) -> Future[None]:
        """Delete run files that neither the checkpoint, nor the live state, nor ``also`` (feeds) names.

        These may be thousands, and go beside; what is not needed now never will be. The answer is there when they have.
        """
        # What there is, then what is needed: a merge in between writes files that are not looked at.
        there = {folder: _files(folder) for folder in self.folder.iterdir() if folder.is_dir()}
        needed = {entry[0] for entries in durable.values() for entry in entries} | set(also)
        with self._lock:
            needed |= {run.path for runs in self.runs.values() for run in runs} | self._coming
        gone = [f for files in there.values() for f in files if str(f) not in needed and not f.name.startswith(".")]
        empty = [
            folder
            for folder, files in there.items()
            if folder.name != MERGED and not needed.intersection(map(str, files))
        ]
        deleted = self._writer.submit(_delete, gone, empty)
        self._synced = {path: sums for path, sums in self._synced.items() if path in needed}
        return deleted

    @property
    def size(self) -> dict[str, tuple[int, int, int]]:
        """Arrangement -> (runs, rows, bytes); those of runs that lie in the log are the log's."""
        with self._lock:
            return {
                name: (len(runs), sum(r.rows for r in runs), sum(r.size for r in runs if not is_reference(r.path)))
                for name, runs in self.runs.items()
            }

    def _merge_always(self) -> None:
        while not self._closed.is_set():
            self._needed.wait()
            self._needed.clear()
            try:
                while not self._closed.is_set() and self.merge():
                    pass
            except Exception as error:  # a full disk, say; nothing is lost, and the next step asks for merges again
                _log.warning("state is not merged for now: %s", error)

    def merge(self) -> bool:
        """Merge once in every arrangement that has enough runs to merge; False when none has."""
        merged = [self._merge_one(name) for name in list(self.runs)]  # each in turn, not up to the first
        return any(merged)

    def _merge_one(self, name: str, least: int = 4) -> bool:
        """Merge the newest runs of an arrangement once there are ``least`` of them to merge."""
        with self._lock:
            runs = list(self.runs.get(name, []))
        ready = len(runs) - mergeable(runs, self.merge_bytes)
        if ready < min(least, UNSORTED_RUNS):
            return False  # mostly so, and no file has been opened
        wanted = least if is_sorted(runs[-1].path) else UNSORTED_RUNS
        if ready < wanted:
            return False
        in_memory = [replace(run, size=size_merged(run.path)) for run in runs]
        start = mergeable(in_memory, self.merge_bytes)
        if len(runs) - start < wanted:
            return False
        large = sum(run.size for run in runs[start:]) > STRETCH
        with self._large if large else nullcontext():
            if self.runs.get(name, [])[start : len(runs)] == runs[start:]:  # nobody else has merged them meanwhile
                self._combine(name, runs, start)
                if large:
                    give_back()
        return True

    def take_out_of(self, files: Collection[str], rest: Callable[[], None] = lambda: None) -> bool:
        """Write those rows that lie in files of these names into runs of their own; whether there were any.

        The files are needed until the next checkpoint. ``rest`` is called before each.
        """
        found = False
        while (at := self._lying_in(files)) is not None:
            rest()
            found, (name, runs, start) = True, at
            try:
                with self._large:
                    self._combine(name, runs, start, start + 1)
            except HeadraceError:
                if self._lying_in(files) == at:  # else it was merged, and deleted, meanwhile
                    raise
            let_go(runs[start].path)
        return found

    def _lying_in(self, files: Collection[str]) -> tuple[str, list[Run], int] | None:
        with self._lock:
            for name, runs in self.runs.items():
                for at, run in enumerate(runs):
                    if is_reference(run.path) and reference.read(run.path).lies_in(files):
                        return name, list(runs), at
        return None

    def _combine(self, name: str, runs: list[Run], start: int, stop: int | None = None) -> Run:
        """Replace ``runs[start:stop]`` by one run. Steps only append, so the place in the live list stays."""
        stop = len(runs) if stop is None else stop
        sound_now(
            (run.path, self._synced.get(run.path, "")) for run in runs[start:stop]
        )  # else damage would be signed anew
        table = merge_runs([stored_run(run.path) for run in runs[start:stop]])
        folder = self.folder / MERGED
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}~{os.getpid()}~{time.time_ns()}~{table.num_rows}.arrow"
        with self._lock:
            self._coming.add(str(path))
        try:
            write_run(path, table)
        except BaseException:
            with self._lock:
                self._coming.discard(str(path))
            raise
        run, gone = Run(str(path), table.num_rows, path.stat().st_size), set[str]()
        with self._lock:
            now = self.runs.get(name, [])
            if now[start:stop] == runs[start:stop]:
                self.runs[name] = now[:start] + ([run] if run.rows else []) + now[stop:]
                replaced = {each.path for each in runs[start:stop]}
                if self._unread is not None and replaced <= self._unread:
                    self._unread = self._unread - replaced | {run.path}
                    gone = replaced
            self._coming.discard(str(path))
        _delete(map(Path, gone), ())
        return run


def _files(folder: Path) -> list[Path]:
    """Of a folder that may be on its way out."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _delete(files: Iterable[Path], folders: Iterable[Path]) -> None:
    """What cannot be deleted is told, and is tried again with the next ones."""
    wrong: OSError | None = None
    for file in files:
        try:
            file.unlink(missing_ok=True)
            let_go(str(file))
        except OSError as error:
            wrong = wrong or error
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    if wrong is not None:
        _log.warning("old files of state are not deleted for now: %s", wrong)


def check_all(runs: dict[str, Any]) -> None:
    """Raises ``state.corrupt`` where a run of a checkpoint is not as that left it. Work: one reading by a process."""
    sound((path, sums) for entries in runs.values() for path, _, _, sums in map(_entry, entries))


def _entry(entry: Sequence[Any]) -> tuple[str, int, int, str]:
    """A run as a checkpoint names it; before layout 7 without checksums."""
    path, rows, size, sums = (*entry, "")[:4]
    return path, rows, size, sums


def by_arrangement(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files of a step's folder by what they are."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        found[path.name.split("~", 1)[0]].append(path)
    return found
