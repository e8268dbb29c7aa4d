"""Rows as JSON objects -> Arrow columns; JSON lines -> record batches."""

from __future__ import annotations

import decimal
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from headrace.formats.types.arrow import schema, to_arrow
from headrace.formats.types.json import ColumnRefused, column, nearest, needs_exact_numbers, shown
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

REFUSED_MAX = 10_000  # a file with more bad rows than that is not one with bad rows, but a wrong file
CHUNK_BYTES = 8 << 20  # parsed at a time: bounds the Python objects alive, whatever the size of the file


@dataclass(frozen=True, slots=True)
class BadValue:
    """Row number (from 0), the column, and the whole sentence that says what is wrong with it."""

    row: int
    column: str
    why: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row of a file that cannot be read: its number (of the line, or of the row) from 1, its text, and why."""

    number: int
    text: bytes
    why: str


def unheard(count: int) -> None:
    """Where nobody wants to know how many bytes were read."""


class RowsRefused(Exception):
    """Rows that do not fit their columns: the first thing wrong with each, in row order."""

    def __init__(self, bad: list[BadValue]) -> None:
        first: dict[int, BadValue] = {}
        for value in bad:
            first.setdefault(value.row, value)
        self.bad = [first[row] for row in sorted(first)]
        super().__init__(f"{len(self.bad)} rows do not fit; the first: {self.bad[0].why}")


def exact_numbers(columns: Sequence[Column]) -> bool:
    """Whether these columns need ``parse(..., exact=True)``."""
    return any(needs_exact_numbers(to_arrow(c.type)) for c in columns)


def parse(data: bytes, exact: bool) -> Any:
    """A JSON text; ``exact`` keeps numbers with a point as ``Decimal`` (slower). Raises ``ValueError``."""
    if not exact:
        return orjson.loads(data)
    try:
        return json.loads(data.decode(), parse_float=decimal.Decimal, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except decimal.InvalidOperation:
        raise ValueError("the exponent of a number is beyond all limits") from None


def to_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> list[pa.Array]:
    """One array a column, as long as ``rows``; a missing key is null, also in columns that are not nullable.

    Raises ``RowsRefused`` naming every row with an unknown column or a value that does not fit.
    """
    names = [c.name for c in columns]
    values, bad = _values(rows, names)
    arrays: list[pa.Array] = []
    for column_, column_values in zip(columns, values, strict=True):
        try:
            arrays.append(column(column_values, to_arrow(column_.type)))
        except ColumnRefused as refused:
            bad += [
                BadValue(row, column_.name, f"column '{column_.name}' ({column_.type}) {why}")
                for row, why in refused.bad
            ]
    if bad:
        raise RowsRefused(bad)
    return arrays


def read_lines(
    path: Path, columns: Sequence[Column], name: str, start: int, end: int, refused: list[BadRow] | None = None,
    on_bytes: Callable[[int], None] = unheard,
) -> pa.Table:  # fmt: skip
    """The rows of JSON lines in the bytes from ``start`` to ``end`` of a file; blank lines are skipped.

    Raises ``HeadraceError`` (source.row), where = ``name:line``. With ``refused`` bad lines go there, at most
    ``REFUSED_MAX`` of them, and the others are read. ``on_bytes`` hears now and then how many were read.
    """
    exact = exact_numbers(columns)
    required = [c.name for c in columns if not c.nullable]
    batches, before = [], 0
    with path.open("rb") as file:
        file.seek(start)
        while (at := file.tell()) < end:
            lines = file.readlines(min(CHUNK_BYTES, end - at))
            if file.tell() > end:  # the file has grown meanwhile
                lines = io.BytesIO(b"".join(lines)[: end - at]).readlines()
                file.seek(end)
            numbers, rows, failed = _objects(lines, exact)
            try:
                arrays = to_columns(rows, columns)
                refuse_nulls(arrays, columns, required)
            except RowsRefused as wrong:
                failed = min(failed or (len(lines), ""), (numbers[wrong.bad[0].row], wrong.bad[0].why))
            if failed is not None:
                line = _lines_before(path, start) + before + failed[0] + 1
                if refused is None:
                    raise row_error(f"{name}:{line}", failed[1])
                arrays, bad = _sifted(lines, columns, required, exact)
                first = line - failed[0]
                refuse(refused, [BadRow(first + at, lines[at].rstrip(b"\r\n"), why) for at, why in bad], name)
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema(columns)))
            before += len(lines)
            on_bytes(file.tell() - start)
    return pa.Table.from_batches(batches, schema=schema(columns))


def refuse(refused: list[BadRow], bad: Sequence[BadRow], name: str) -> None:
    """Add to the rows refused. Raises ``HeadraceError`` (source.row) at the first that are too many."""
    if len(refused) + len(bad) > REFUSED_MAX:
        raise too_many(f"{name}:{bad[0].number}", bad[0].why)
    refused += bad


def too_many(where: str, why: str) -> HeadraceError:
    """The error for a file that holds more bad rows than are kept; ``why`` the one at ``where`` is bad."""
    return HeadraceError(
        "source.row", why, where=where,
        why=f"more than {REFUSED_MAX:,} rows of the file do not fit; nothing of it was taken or kept",
        next="is it the right file, and has the table the right columns?",
    )  # fmt: skip


def _sifted(
    lines: Sequence[bytes], columns: Sequence[Column], required: Sequence[str], exact: bool
) -> tuple[list[pa.Array], list[tuple[int, str]]]:
    """(columns of the good lines, the bad ones in order: their index and why)."""
    good, bad = dict[int, dict[str, Any]](), dict[int, str]()
    for at, line in enumerate(lines):
        if line.strip():
            _, rows, failed = _objects([line], exact)
            if failed is None:
                good[at] = rows[0]
            else:
                bad[at] = failed[1]
    while True:
        try:
            arrays = to_columns(list(good.values()), columns)
            refuse_nulls(arrays, columns, required)
            return arrays, sorted(bad.items())
        except RowsRefused as wrong:
            numbers = list(good)
            for value in wrong.bad:
                bad[numbers[value.row]] = value.why
                del good[numbers[value.row]]


def complete_lines(path: Path, start: int, end: int, final: bool) -> int:
    """The end of the last whole line in those bytes; ``start`` when there is none.

    A last line without a line feed counts when ``final`` and when it is whole JSON, as half an object never is.
    """
    with path.open("rb") as file:
        at, tail = end, b""
        while at > start and b"\n" not in tail:
            step = min(64 << 10, at - start)
            at -= step
            file.seek(at)
            tail = file.read(step) + tail
    whole = at + tail.rfind(b"\n") + 1
    if final and whole < end:
        try:
            orjson.loads(tail[whole - at :])
            return end
        except ValueError:
            pass
    return whole


def head(path: Path, name: str, count: int) -> list[dict[str, Any]]:
    """The first ``count`` rows of JSON lines, untyped; for inference. A last line that is not complete is left out."""
    with path.open("rb") as file:
        lines = list(itertools.islice(file, count))
    if lines and not lines[-1].endswith(b"\n"):
        try:
            orjson.loads(lines[-1])
        except ValueError:
            lines.pop()
    _, rows, failed = _objects(lines, False)
    if failed is not None:
        raise row_error(f"{name}:{failed[0] + 1}", failed[1])
    return rows


def refuse_nulls(arrays: Sequence[pa.Array], columns: Sequence[Column], required: Sequence[str]) -> None:
    """Raises ``RowsRefused`` naming every row in which a required column is null."""
    bad = []
    for array, column_ in zip(arrays, columns, strict=True):
        if column_.name in required and array.null_count:
            why = f"column '{column_.name}' is missing or null, which it must not be"
            nulls = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist()
            bad += [BadValue(row, column_.name, why) for row in nulls]
    if bad:
        raise RowsRefused(bad)


def row_error(where: str, why: str, kept: str = "nothing of the file was taken") -> HeadraceError:
    """The error for a row that is refused."""
    return HeadraceError(
        "source.row", why, where=where, why=f"the row does not fit its table; {kept}", next="correct the row"
    )


def _values(rows: Sequence[Mapping[str, Any]], names: list[str]) -> tuple[list[list[Any]], list[BadValue]]:
    """Per column its values, and the unknown columns. Rows that all have exactly these keys go through C code alone."""
    if set(map(len, rows)) == {len(names)}:
        try:
            return [list(map(itemgetter(name), rows)) for name in names], []
        except KeyError:
            pass
    known, bad = frozenset(names), []
    for index, row in enumerate(rows):
        if not known.issuperset(row):
            for key in row:
                if key not in known:
                    bad.append(
                        BadValue(index, str(key), f"there is no column {shown(key)}; {nearest(str(key), names)}")
                    )
    return [[row.get(name) for row in rows] for name in names], bad


def _objects(lines: list[bytes], exact: bool) -> tuple[Sequence[int], list[dict[str, Any]], tuple[int, str] | None]:
    """(line of each row, rows, the first bad line and why); lines count from 0, rows end before the bad one.

    One JSON text a line: a line cannot hold two rows, or half a row.
    """
    numbers: Sequence[int] = range(len(lines))
    if not all(map(bytes.strip, lines)):
        numbers = [number for number, line in enumerate(lines) if line.strip()]
        lines = [lines[number] for number in numbers]
    rows: list[Any] = []
    failed = None
    try:
        for line in lines:
            rows.append(parse(line, exact))
    except ValueError as error:
        failed = numbers[len(rows)], f"the line is not JSON: {error}"
    if not set(map(type, rows)) <= {dict}:
        at = next(index for index, row in enumerate(rows) if type(row) is not dict)
        return numbers, rows[:at], (numbers[at], f"the line must hold an object, not {shown(rows[at])}")
    return numbers, rows, failed


def _lines_before(path: Path, offset: int) -> int:
    count = 0
    with path.open("rb") as file:
        while offset > 0 and (piece := file.read(min(1 << 20, offset))):
            count += piece.count(b"\n")
            offset -= len(piece)
    return count


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
