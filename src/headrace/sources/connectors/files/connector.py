"""The files source: each file of a folder is one transaction; JSON lines are followed as they grow."""

from __future__ import annotations

import csv
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats import csv_rows, json_rows, parquet_rows
from headrace.formats.infer import SAMPLE_ROWS, KeptSchemas, check_name, checked, declared, inferred, inferred_from_text
from headrace.formats.json_changes import change_table
from headrace.formats.json_rows import BadRow, RowsRefused, row_error
from headrace.formats.options import validate
from headrace.formats.types.json import nearest, shown
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, WARNING, Finding
from headrace.model.pace import TOLD_S, Copying, Pace
from headrace.model.schema import Column, Relation
from headrace.model.transaction import (
    INSERT,
    OPERATION,
    ORDINAL,
    STRICT,
    UPSERT,
    Form,
    RefusedRow,
    TransactionBatch,
    TransactionOrigin,
)
from headrace.sources.base import Source
from headrace.sources.connectors.files.config import FilesOptions
from headrace.sources.connectors.files.folder import GROWING_SCANS, Folder, Progress, Seen

BATCH_FILES = 1_000
BATCH_ROWS = 200_000  # a batch ends with the file that passes this; a file is never split
NOTHING_SENT = "nothing was sent again"


class Unreadable(HeadraceError):
    """What the system has against reading a file, and may not have the next time, though the file is the same."""


class FilesSource(Source):
    """Files are read in the order of their names, later ones as they appear; a file that is still written is not."""

    def __init__(self, name: str, options: Mapping[str, Any], where: str = "", base: Path | None = None) -> None:
        self.name, self.where = name, where
        self.options = validate(FilesOptions, options, where)
        base = base if base is not None else Path()
        self.table = self.options.table or name
        check_name(self.table, where)
        conflict = self.options.on_conflict if self.options.key else "replace"
        self.refuses = frozenset([self.table] if conflict == "refuse" else [])
        self._insert = INSERT | (STRICT if conflict != "replace" else UPSERT if self.options.key else 0)
        folder = base / Path(self.options.path).expanduser()
        self._folder = Folder(folder, self.options.pattern, self.options.format, where)
        self._kept = KeptSchemas(base / ".headrace" / "schemas" / f"{name}.json")
        self._relation = self._relation_known()
        self._progress = Progress({})
        self._ready: deque[Seen] = deque()
        self._unread: int | None = None  # new files that may still be written to; None before the first scan
        self._bad: tuple[Seen, HeadraceError] | None = None  # the file that is in the way
        self._polled: dict[int, tuple[TransactionBatch, list[Seen], Progress]] = {}
        self._pace = Pace(0)  # in bytes, of all files that were ready at the last scan
        self._followed = False
        self._next_scan = 0.0
        self._closed = threading.Event()

    def relations(self) -> tuple[Relation, ...]:
        """The table; nothing while its columns are neither declared nor to be seen in a file.

        Raises ``HeadraceError``: source.connect when there is no folder, source.row and source.file when the first
        file is bad.
        """
        if self._relation is None:
            for file in self._folder.look():
                self._relation = self._inferred(file)
                if self._relation is not None:
                    break
        return () if self._relation is None else (self._relation,)

    def examine(self, wanted: Callable[[str], bool]) -> Iterator[Finding]:
        """Raises ``HeadraceError`` as ``relations`` does."""
        del wanted
        files = len(self._folder.look())
        yield Finding(OK, f"the folder {self._folder.path} can be read; files: {files}")
        for relation in self.relations():
            yield Finding(OK, f"offers {relation.name} ({', '.join(relation.names)})")
        if not self.relations():
            yield Finding(
                WARNING, f"the columns of {self.table} are not known yet: no file tells them",
                "put a file there, or write them under 'columns'",
            )  # fmt: skip

    def start(self, tables: frozenset[str], position: str | None) -> None:
        """Begin after ``position``, at first or again after ``close``.

        Raises ``HeadraceError``: source.connect, source.no_table.
        """
        self._closed.clear()
        self._ready.clear()
        self._polled.clear()
        self._pace = Pace(0)
        self._unread = None
        self._folder.look()
        self._progress = Progress.at(position)
        self._next_scan = time.monotonic()
        self.add(tables)

    def add(self, tables: frozenset[str]) -> None:
        """The one table is followed from the first time it is asked for."""
        for table in sorted(tables - {self.table}):
            raise HeadraceError(
                "source.no_table",
                f"the source '{self.name}' has no table '{table}'",
                where=self.where,
                next=nearest(table, [self.table]),
            )
        self._followed = self._followed or self.table in tables

    def poll(self, wait_s: float) -> TransactionBatch | None:
        """The files that can be read now, one transaction each.

        Raises ``HeadraceError`` (source.row, source.file) for a bad file, and again at every poll
        until the file is corrected or taken away; files before it in the order are delivered first.
        """
        if not self._ready and not self._wait(wait_s):
            if self._bad is not None and not self._closed.is_set():
                raise self._bad[1]
            return None
        progress, rows = self._progress, 0
        origins: list[TransactionOrigin] = []
        tables: list[pa.Table] = []
        files: list[Seen] = []
        refused: list[RefusedRow] = []
        while self._ready and rows < BATCH_ROWS and len(origins) < BATCH_FILES:
            file, before = self._ready[0], self._pace.done
            try:
                end = self._end(file, progress.offset(file.name))
                bad: list[BadRow] = []
                table = self._rows(file, progress.offset(file.name) or 0, end, bad)
            except HeadraceError as error:
                if origins:
                    self._pace.done = before
                    break  # first what is good; the next poll comes back to this file
                self._ready.clear()
                self._pace = Pace(0)
                self._bad = (file, error)
                raise
            except FileNotFoundError:  # taken away since the scan
                table = None
            self._ready.popleft()
            self._pace.done = before + self._left(file)
            if self._bad is not None and self._bad[0].name == file.name:
                self._bad = None
            if table is None:
                continue
            progress = progress.after(file.name, end)
            if table.num_rows == 0 and not bad:
                self._progress = progress if not origins else self._progress
                continue
            refused += [self._refused(file, row, len(origins)) for row in bad]
            tables.append(_changes(table, len(origins), self._insert))
            origins.append(TransactionOrigin(self.name, progress.position(), time.time_ns() // 1000))
            files.append(file)
            rows += table.num_rows
        if not origins:
            return None
        batch = TransactionBatch(tuple(origins), {self.table: pa.concat_tables(tables)}, tuple(refused))
        self._polled[id(batch)] = (batch, files, progress)
        return batch

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        """The files of the batch are done."""
        _, _, self._progress = self._polled.pop(id(batch))

    def reject(self, batch: TransactionBatch, error: Exception) -> None:
        """The next poll reads the same files again."""
        _, files, _ = self._polled.pop(id(batch))
        self._pace.done -= sum(map(self._left, files))
        self._ready.extendleft(reversed(files))

    def reread(self, refused: RefusedRow) -> dict[str, pa.Table]:
        relation = self._relation
        if relation is None:
            raise row_error(refused.place, f"the columns of '{self.table}' are not known", NOTHING_SENT)
        try:
            if refused.form == "csv":
                row = csv_rows.read_row(refused.payload, relation.columns, self.options.delimiter)
            else:
                row = json_rows.parse(refused.payload, json_rows.exact_numbers(relation.columns))
            if not isinstance(row, dict):
                raise row_error(refused.place, f"the row must be an object, not {shown(row)}", NOTHING_SENT)
            operations = np.array([self._insert], np.int8)
            return {self.table: change_table([row], np.zeros(1, np.int32), operations, relation)}
        except (ValueError, csv.Error) as error:
            raise row_error(refused.place, f"the row cannot be read: {error}", NOTHING_SENT) from None
        except RowsRefused as wrong:
            raise row_error(refused.place, wrong.bad[0].why, NOTHING_SENT) from None

    def caught_up(self) -> bool:
        return not self._followed or (self._unread == 0 and not self._ready)

    def copying(self) -> list[Copying]:
        """Nothing of what is read within a second, as are small files and those that grow."""
        pace = self._pace
        going = pace.done < (pace.total or 0) and time.monotonic() - pace.began > TOLD_S
        return [Copying(self.table, pace, "bytes")] if going else []

    def close(self) -> None:
        """Stop; a poll that waits returns."""
        self._closed.set()

    def drop(self) -> None:
        """Forget the inferred columns."""
        self._kept.drop()

    # --- inside

    def _wait(self, wait_s: float) -> bool:
        """Scan whenever it is time to; whether a file became ready."""
        deadline = time.monotonic() + wait_s
        while not self._closed.is_set():
            now = time.monotonic()
            if self._followed and now >= self._next_scan:
                self._scan()
                if self._ready or self._bad is not None:
                    break
            elif now >= deadline:
                break
            else:
                self._closed.wait((min(deadline, self._next_scan) if self._followed else deadline) - now)
        return bool(self._ready)

    def _scan(self) -> None:
        """Queue the files that can be read, up to the one that is in the way."""
        files = self._folder.scan()
        names = {file.name for file in files}
        self._next_scan = time.monotonic() + self.options.poll_seconds
        self._progress = self._progress.only(names)
        if self._bad is not None and self._bad[0].name not in names:
            self._bad = None
        new = [file for file in files if self._progress.offset(file.name) is None and file.size > 0]
        self._unread = sum(not self._is_ready(file) for file in new)
        for file in files:
            if self._bad is not None and file.name == self._bad[0].name:
                same = (file.size, file.mtime_ns) == (self._bad[0].size, self._bad[0].mtime_ns)
                in_vain = same and not isinstance(self._bad[1], Unreadable)
                if self._progress.offset(file.name) == file.size:
                    self._bad = None  # as it was when it was read
                elif in_vain or not self._is_ready(file):
                    break
            if self._is_ready(file):
                self._ready.append(file)
        self._pace = Pace(sum(map(self._left, self._ready)))

    def _left(self, file: Seen) -> int:
        """Its bytes that the log does not have."""
        return max(file.size - (self._progress.offset(file.name) or 0), 0)

    def _is_ready(self, file: Seen) -> bool:
        offset = self._progress.offset(file.name)
        if offset is None:
            grows = file.format == "jsonl" and file.scans >= GROWING_SCANS
            return file.size > 0 and (file.stable or grows)
        return file.size != offset

    def _end(self, file: Seen, offset: int | None) -> int:
        """Up to which byte the file can be read. Raises ``HeadraceError`` (source.file) when it was changed."""
        if file.format == "jsonl" and file.size >= (offset or 0):
            with _told(file):
                return json_rows.complete_lines(file.path, offset or 0, file.size, file.stable)
        if offset is None:
            return file.size
        raise HeadraceError(
            "source.file",
            f"{file.name} was changed after it was read",
            where=str(file.path),
            why=f"it had {offset} bytes then, and has {file.size} now",
            next="put the old contents back, and new rows into a file with a new name",
        )

    def _refused(self, file: Seen, row: BadRow, ordinal: int) -> RefusedRow:
        place = f"{file.path}: row {row.number}" if file.format == "parquet" else f"{file.path}:{row.number}"
        form: Form = "csv" if file.format == "csv" else "json"
        return RefusedRow(self.table, place, row.why, row.text, form, ordinal)

    def _rows(self, file: Seen, start: int, end: int, bad: list[BadRow]) -> pa.Table | None:
        """The file's rows, None when there is nothing to take yet. Fixes the columns when this is the first file.

        With `on_error: quarantine` those that cannot be read go to ``bad``.
        """
        refused = bad if self.options.on_error == "quarantine" else None
        if file.format == "jsonl" and start == end:
            return None
        self._relation = self._relation or self._inferred(file)
        if self._relation is None:
            return None
        columns, name = self._relation.columns, str(file.path)
        pace, before = self._pace, self._pace.done

        def on_bytes(count: int) -> None:
            pace.done = before + count

        with _told(file):
            if file.format == "jsonl":
                table = json_rows.read_lines(file.path, columns, name, start, end, refused, on_bytes)
            elif file.format == "csv":
                table = csv_rows.read(file.path, columns, name, self.options.delimiter, refused, on_bytes)
            else:
                table = parquet_rows.read(file.path, columns, name, refused)
        if self.options.columns is None and self._kept.get(self.table, self._relation.key) is None:
            self._kept.keep([self._relation])
        return table

    def _relation_known(self) -> Relation | None:
        if self.options.columns is not None:
            relation = declared(self.table, self.options.columns, self.options.key, self.where)
        else:
            kept = self._kept.get(self.table, self.options.key)
            if kept is None:
                return None
            relation = kept
        return self._final(relation)

    def _inferred(self, file: Seen) -> Relation | None:
        """The relation as this file shows it; None when it has no rows to show."""
        name, key = str(file.path), self.options.key
        if file.size == 0:
            return None
        with _told(file):
            if file.format == "parquet":
                columns = parquet_rows.columns_of(file.path, name)
                made = tuple(Column(column.name, column.type, column.name not in key) for column in columns)
                return self._final(checked(Relation(self.table, made, key), name))
            if file.format == "csv":
                texts = csv_rows.head(file.path, name, SAMPLE_ROWS, self.options.delimiter)
                return self._final(inferred_from_text(self.table, texts, key, name)) if any(texts.values()) else None
            rows = json_rows.head(file.path, name, SAMPLE_ROWS)
            return self._final(inferred(self.table, rows, key, name)) if rows else None

    def _final(self, relation: Relation) -> Relation:
        """Files only insert; with a key a later row takes the place of an earlier one."""
        keyed = bool(relation.key)
        return Relation(relation.name, relation.columns, relation.key, updates=keyed, append_only=not keyed)


@contextmanager
def _told(file: Seen) -> Iterator[None]:
    """What keeps a file from being read is told with its path; but a file that is gone keeps nothing up."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable(
            "source.file", f"{file.name} cannot be read now", where=str(file.path), why=error.strerror or str(error),
            next="let this user read it, or look at the disk; it is tried again",
        ) from error  # fmt: skip
    except (pa.ArrowException, csv.Error) as error:
        raise HeadraceError(
            "source.file", f"{file.name} cannot be read", where=str(file.path), why=str(error),
            next="write it again, or take it away",
        ) from error  # fmt: skip


def _changes(table: pa.Table, ordinal: int, operation: int) -> pa.Table:
    ordinals, operations = np.full(table.num_rows, ordinal, np.int32), np.full(table.num_rows, operation, np.int8)
    head = [pa.array(ordinals), pa.array(operations)]
    return pa.table(head + table.columns, names=[ORDINAL, OPERATION, *table.column_names])
