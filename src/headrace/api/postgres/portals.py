"""Answers that are ready to be sent: rows, all or some at a time, or the tag of a command alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pygwire.messages import (
    CommandComplete,
    CopyDone,
    CopyOutResponse,
    FieldDescription,
    NoData,
    PGMessage,
    PortalSuspended,
    RowDescription,
)

from headrace.api.postgres import rows
from headrace.api.postgres.reading import Asker
from headrace.api.postgres.result import ResultColumn, each
from headrace.api.postgres.statements import Copy
from headrace.api.postgres.types import TEXT
from headrace.api.postgres.wire import Wire
from headrace.model.errors import HeadraceError

ASKED_S = 1.0  # between two looks whether the client may still read what it is being sent
_UNCOUNTED = ("SHOW", "EXPLAIN")  # tags without a number of rows

Check = Callable[[], None]  # raises when the statement was canceled


class Source(Protocol):
    """Rows to send."""

    @property
    def columns(self) -> Sequence[ResultColumn]:
        """Known before the first row."""

    @property
    def reads(self) -> Collection[str]:
        """Views and tables whose rows these are."""

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows in parts; an empty part: send what there is now."""

    def interrupt(self) -> None:
        """End it from another thread, soon."""

    def close(self) -> None: ...


class Told:
    """Rows that are at hand: text columns."""

    reads = ()

    def __init__(self, columns: Sequence[ResultColumn], values: Sequence[Sequence[str | None]]) -> None:
        self.columns = columns
        self._values = values

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        arrays = [pa.array(column, pa.string()) for column in zip(*self._values, strict=True)]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, names=[str(number) for number in range(len(arrays))])

    def interrupt(self) -> None:
        """It is at its end at once."""

    def close(self) -> None:
        """Nothing is held."""


class Portal:
    """A source in the forms that were asked for. ``tag`` goes before the number of rows.

    It outlives the statement that opened it, and one statement can take hours: whether the asker may still read is
    asked whenever rows are taken, and while they come.
    """

    def __init__(self, source: Source, asker: Asker, forms: Sequence[int] = (), tag: str = "SELECT") -> None:
        self.forms = each(forms, len(source.columns))
        self.source, self._asker, self.tag = source, asker, tag
        self._kinds = [column.type for column in source.columns]
        self._parts: Iterator[pa.RecordBatch] | None = None
        self._left: pa.RecordBatch | None = None
        self._done = False

    def description(self) -> PGMessage:
        return described(self.source.columns, self.forms)

    def send(self, wire: Wire, most: int, check: Check) -> int:
        """Send the rows, at most ``most`` of them unless that is 0, and how it ended; how many rows."""
        count = 0
        for part in self.take(most or None):
            check()
            count += part.num_rows
            wire.write(rows.data_rows(part, self._kinds, self.forms))
            if not part.num_rows:
                wire.flush()
        check()
        suspended = most and count == most and not self._done
        tag = self.tag if self.tag in _UNCOUNTED else f"{self.tag} {count}"
        wire.write(PortalSuspended() if suspended else CommandComplete(tag=tag))
        return count

    def copy(self, wire: Wire, form: Copy, check: Check) -> None:
        """Send all rows as COPY does."""
        binary = form.form == "binary"
        self.forms = [int(binary)] * len(self._kinds)
        wire.write(CopyOutResponse(overall_format=int(binary), col_formats=self.forms))
        lines = rows.csv_lines if form.form == "csv" else rows.text_lines
        if form.header and not binary:
            titles = pa.RecordBatch.from_arrays(
                [pa.array([column.name]) for column in self.source.columns],
                names=[str(i) for i in range(len(self._kinds))],
            )
            wire.write(rows.copy_lines(lines(titles, [TEXT] * len(self._kinds), form.delimiter, form.null)))
        count = 0
        for part in self.take(None):
            check()
            if not part.num_rows:
                wire.flush()
            elif binary:
                messages = rows.data_rows(part, self._kinds, self.forms, rows.COPY_DATA)
                wire.write(messages if count else rows.headed(messages))
            else:
                wire.write(rows.copy_lines(lines(part, self._kinds, form.delimiter, form.null)))
            count += part.num_rows
        check()
        if binary:
            end = rows.copy_lines(pa.array([rows.COPY_END], pa.binary()))
            wire.write(end if count else rows.headed(end))
        wire.write(CopyDone(), CommandComplete(tag=f"COPY {count}"))

    def close(self) -> None:
        self._parts, self._left = None, None
        self.source.close()

    def begin(self, forms: Sequence[int]) -> None:
        """In which forms its rows will be taken. Raises ``sql.refused`` once others were."""
        if self._parts is not None and list(forms) != self.forms:
            raise HeadraceError("sql.refused", "a cursor's rows are fetched all as text or all in binary form")
        self.forms = list(forms)

    def interrupt(self) -> None:
        """End it from another thread."""
        self.source.interrupt()

    def take(self, most: int | None) -> Iterator[pa.RecordBatch]:
        """What follows, cut off after ``most`` rows unless that is None; what is cut off comes the next time.

        Raises ``access.token``, ``access.denied``.
        """
        self._asker.require(self.source.reads)
        asked_at = time.monotonic()
        while not self._done and most != 0:
            if self._parts is None:
                self._parts = self.source.batches(self.forms)
            part, self._left = self._left, None
            if part is None:
                part = next(self._parts, None)
            if part is None:
                self._done = True
                return
            if most is not None:
                if part.num_rows > most:
                    self._left, part = part.slice(most), part.slice(0, most)
                most -= part.num_rows
            if time.monotonic() - asked_at >= ASKED_S:
                self._asker.require(self.source.reads)
                asked_at = time.monotonic()
            yield part


class Fetched:
    """The next rows of a cursor: ``count``, or all that are left for None."""

    def __init__(self, cursor: Portal, count: int | None) -> None:
        self._cursor, self._count = cursor, count
        self.columns, self.reads = cursor.source.columns, cursor.source.reads

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Raises ``sql.refused`` when other forms are asked for than at the first time."""
        self._cursor.begin(forms)
        return self._cursor.take(self._count)

    def interrupt(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        """The cursor stays."""


def described(columns: Sequence[ResultColumn], forms: Sequence[int]) -> PGMessage:
    """RowDescription, or NoData for what gives no rows."""
    if not columns:
        return NoData()
    return RowDescription(
        fields=[
            FieldDescription(
                name=column.name, type_oid=column.type.oid, type_size=column.type.size,
                type_modifier=column.type.modifier, format_code=form,
            )
            for column, form in zip(columns, forms, strict=True)
        ]
    )  # fmt: skip


def told(names: Sequence[str], values: Sequence[Sequence[Any]]) -> Told:
    """Rows of text under these names."""
    return Told([ResultColumn(name, TEXT) for name in names], values)
