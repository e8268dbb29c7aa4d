"""CSV with a header -> Arrow columns. Cells are read as text and then typed, so that no digit is lost on the way."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from headrace.formats.json_rows import BadRow, BadValue, RowsRefused, parse, refuse, refuse_nulls, row_error, unheard
from headrace.formats.types.arrow import schema, to_arrow
from headrace.formats.types.json import NUMBER, exact_rule, nearest, needs_exact_numbers, shown, text_column
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

BLOCK_BYTES = 16 << 20  # read and typed at a time; a single row must fit into it
SIFTED_ROWS = 10_000  # at a time, of a file with bad rows
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
csv.field_size_limit(BLOCK_BYTES)  # a cell may be as long as a row


def read(
    path: Path, columns: Sequence[Column], name: str, delimiter: str = ",", refused: list[BadRow] | None = None,
    on_bytes: Callable[[int], None] = unheard,
) -> pa.Table:  # fmt: skip
    """All rows of a file, columns in the order asked for; the header gives the order in the file.

    An empty cell is null, but in a text column it is empty text. A nullable column that the file does not have
    is null. ``HeadraceError``: source.row (where = ``name:line``), source.file (header). With ``refused`` bad rows go
    there, each after the header, at most ``REFUSED_MAX`` of them, and the others are read. ``on_bytes`` hears now and
    then about how many were read: from 0 again, where there are bad rows.
    """
    try:
        return _read_all(path, columns, name, delimiter, on_bytes)
    except HeadraceError as error:
        if refused is None or error.code != "source.row":
            raise
    return _sifted(path, columns, name, delimiter, refused, on_bytes)


def read_row(payload: bytes, columns: Sequence[Column], delimiter: str = ",") -> dict[str, Any]:
    """A header and a row, as ``read`` gives a bad one, as what JSON has for it. Raises ``ValueError``."""
    text = payload.decode("utf-8", "surrogateescape")
    header, row = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    why = _misformed(row, len(header))
    if why:
        raise ValueError(why)
    types = {column.name: to_arrow(column.type) for column in columns}
    return {n: json_value(cell, types.get(n, pa.string())) for n, cell in zip(header, row, strict=True)}


def _read_all(
    path: Path, columns: Sequence[Column], name: str, delimiter: str, on_bytes: Callable[[int], None]
) -> pa.Table:
    header = _header(path, name, delimiter)
    _check_header(header, columns, name)
    required = [column.name for column in columns if not column.nullable]
    batches, before = [], 0
    for blocks, texts in enumerate(_texts(path, header, name, delimiter)):  # one a block
        on_bytes(blocks * BLOCK_BYTES)
        arrays = []
        for column in columns:
            arrow = to_arrow(column.type)
            if column.name not in header:
                arrays.append(pa.nulls(len(texts), arrow))
                continue
            try:
                arrays.append(_typed(texts.column(column.name), arrow))
            except _CellRefused as refused:
                line = _line(path, before + refused.row, delimiter)
                why = f"column '{column.name}' ({column.type}) {refused.why}"
                raise row_error(f"{name}:{line}", why) from None
        try:
            refuse_nulls(arrays, columns, required)
        except RowsRefused as refused:
            first = refused.bad[0]
            raise row_error(f"{name}:{_line(path, before + first.row, delimiter)}", first.why) from None
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema(columns)))
        before += len(texts)
    return pa.Table.from_batches(batches, schema=schema(columns))


def _sifted(
    path: Path, columns: Sequence[Column], name: str, delimiter: str, refused: list[BadRow],
    on_bytes: Callable[[int], None],
) -> pa.Table:  # fmt: skip
    """The rows that can be read; slower, for files that have others."""
    header, batches = _header(path, name, delimiter), []
    rows, read = _rows(path, delimiter), 0
    _, _, titles = next(rows)
    try:
        while some := list(itertools.islice(rows, SIFTED_ROWS)):
            on_bytes(read)
            read += sum(len(text) + 1 for _, _, text in some)
            wrong = {at: why for at, (_, row, _) in enumerate(some) if (why := _misformed(row, len(header)))}
            while True:
                good = [at for at in range(len(some)) if at not in wrong]
                try:
                    arrays = _columns([some[at][1] for at in good], header, columns)
                    break
                except RowsRefused as found:
                    wrong |= {good[value.row]: value.why for value in found.bad}
            bad = [
                BadRow(some[at][0], f"{titles}\n{some[at][2]}".encode("utf-8", "surrogateescape"), wrong[at])
                for at in sorted(wrong)
            ]
            refuse(refused, bad, name)
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema(columns)))
    except csv.Error as error:
        raise row_error(name, str(error)) from None
    return pa.Table.from_batches(batches, schema=schema(columns))


def _columns(rows: Sequence[Sequence[str]], header: Sequence[str], columns: Sequence[Column]) -> list[pa.Array]:
    """Rows of as many cells as the header, typed. Raises ``RowsRefused`` naming every bad row."""
    arrays, bad = [], []
    for column in columns:
        arrow = to_arrow(column.type)
        if column.name not in header:
            arrays.append(pa.nulls(len(rows), arrow))
            continue
        at = header.index(column.name)
        texts = pa.array([row[at] for row in rows], pa.string())
        try:
            arrays.append(_typed(texts, arrow))
        except _CellRefused:
            bad += [
                BadValue(row, column.name, f"column '{column.name}' ({column.type}) {why}")
                for row, text in enumerate(texts.to_pylist())
                if text and (why := _wrong(text, arrow))
            ]
    if bad:
        raise RowsRefused(bad)
    refuse_nulls(arrays, columns, [column.name for column in columns if not column.nullable])
    return arrays


def head(path: Path, name: str, count: int, delimiter: str = ",") -> Mapping[str, list[str]]:
    """Each column's first ``count`` cells as text; for inference."""
    header = _header(path, name, delimiter)
    _check_header(header, None, name)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = [row for row in itertools.islice(csv.reader(file, delimiter=delimiter), 1, count + 1) if row]
    return {column: [row[at] for row in rows if at < len(row)] for at, column in enumerate(header)}


def json_value(text: str, arrow: pa.DataType) -> Any:
    """What a JSON row has for that cell. Raises ``ValueError`` for a nested value that is not JSON."""
    return None if not text and not pa.types.is_string(arrow) else _read(arrow)(text)


class _CellRefused(Exception):
    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row, self.why = row, why


def _header(path: Path, name: str, delimiter: str) -> list[str]:
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        header = next((row for row in csv.reader(file, delimiter=delimiter) if row), None)
    if header is None:
        raise HeadraceError("source.file", "the file has no header", where=f"{name}:1", next="name the columns")
    return header


def _check_header(header: list[str], columns: Sequence[Column] | None, name: str) -> None:
    what = hint = ""
    for at, column in enumerate(header):
        if column in header[:at]:
            what = f"the header names '{column}' twice"
        elif columns is not None and column not in [c.name for c in columns]:
            what, hint = f"there is no column '{column}'", nearest(column, [c.name for c in columns])
    for column_ in columns or ():
        if not column_.nullable and column_.name not in header:
            what = f"the column '{column_.name}' is missing, which must not be null"
    if what:
        raise HeadraceError("source.file", what, where=f"{name}:1", next=hint or "correct the header")


def _texts(path: Path, header: list[str], name: str, delimiter: str) -> Iterator[pa.RecordBatch]:
    """The file's cells as text, block by block."""
    try:
        yield from arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        line, why = _malformed(path, len(header), delimiter)
        raise row_error(f"{name}:{line}" if line else name, why or str(error)) from None


def _typed(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_string(arrow):
        return texts
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    array = _fast(texts, arrow)
    if array is not None:
        return array
    rule, values = _rule(arrow), []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else rule(text))
        except ValueError as error:
            raise _CellRefused(row, str(error)) from None
    return pa.array(values, arrow)


def _fast(texts: pa.Array, arrow: pa.DataType) -> pa.Array | None:
    """The whole column at once, or None when each cell must be looked at."""
    try:
        if pa.types.is_integer(arrow):
            plain = pc.all(pc.match_substring_regex(texts, r"^-?\d+$")).as_py()
            return texts.cast(arrow) if plain is not False else None
        if pa.types.is_floating(arrow):
            numbers = texts.cast(arrow)
            return numbers if np.isfinite(pc.fill_null(numbers, 0).to_numpy()).all() else None
        if pa.types.is_boolean(arrow):
            return texts.cast(arrow)
    except pa.ArrowInvalid:
        return None
    return text_column(texts, arrow)


def _rule(arrow: pa.DataType) -> Callable[[str], Any]:
    """One cell, not empty -> a value; ValueError says why not."""
    exact, read = exact_rule(arrow), _read(arrow)
    return lambda text: exact(read(text))


def _read(arrow: pa.DataType) -> Callable[[str], Any]:
    """One cell, not empty -> what JSON has for it; text that is nothing of that type stays text."""
    if pa.types.is_integer(arrow):
        return lambda text: int(text) if text.removeprefix("-").isdecimal() and text.isascii() else text
    if pa.types.is_floating(arrow):
        return lambda text: float(text) if NUMBER.fullmatch(text) and math.isfinite(float(text)) else text
    if pa.types.is_boolean(arrow):
        return lambda text: _BOOLEANS.get(text.lower(), text)
    if pa.types.is_nested(arrow):
        return lambda text: parse(text.encode(), needs_exact_numbers(arrow))
    return lambda text: text


def _wrong(text: str, arrow: pa.DataType) -> str:
    """Why a cell that is not empty cannot be of that type; "" when it can."""
    try:
        _rule(arrow)(text)
    except ValueError as error:
        return str(error)
    return ""


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str], str]]:
    """(first line, cells, the text that they were read from) of the header and every row after it."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        read: list[str] = []

        def lines() -> Iterator[str]:
            for text in file:
                read.append(text)
                yield text

        reader, line = csv.reader(lines(), delimiter=delimiter), 1
        for row in reader:
            if row:
                yield line, row, "".join(read).rstrip("\r\n")
            read.clear()
            line = reader.line_num + 1


def _line(path: Path, row: int, delimiter: str) -> int:
    """The line on which a row (from 0) begins."""
    return next(itertools.islice(_rows(path, delimiter), row + 1, None), (0, [], ""))[0]


def _malformed(path: Path, width: int, delimiter: str) -> tuple[int, str]:
    """The first line that is not a row of that many cells of UTF-8 text, and why; (0, "") when all are."""
    try:
        for line, row, _ in itertools.islice(_rows(path, delimiter), 1, None):
            if why := _misformed(row, width):
                return line, why
    except csv.Error as error:
        return 0, str(error)
    return 0, ""


def _misformed(row: Sequence[str], width: int) -> str:
    """Why that is no row of so many cells of UTF-8 text; "" when it is one."""
    if len(row) != width:
        return f"the row has {len(row)} cells, the header {width}"
    for cell in row:
        if any("\udc80" <= letter <= "\udcff" for letter in cell):
            return f"the text {shown(cell.encode('utf-8', 'replace').decode())} is not UTF-8"
    return ""
