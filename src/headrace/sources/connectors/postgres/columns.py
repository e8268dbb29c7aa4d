"""PostgreSQL's text of a column -> a typed Arrow array, vectorised.

The text is that of a session with ISO dates, UTC, hexadecimal bytea and shortest exact floats (see ``config``).
"""

from __future__ import annotations

import binascii
import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import arrow as arrow_types
from headrace.formats.types import decimals
from headrace.formats.values import UnfitValue


def convert(texts: pa.BinaryArray, type_text: str) -> pa.Array:
    """Texts as PostgreSQL prints them -> an array of the Spark SQL type. Raises UnfitValue."""
    try:
        return _convert(texts, type_text)
    except (pa.ArrowInvalid, binascii.Error, ValueError) as error:
        raise _first_unfit(texts, type_text, error) from error


def _convert(texts: pa.BinaryArray, type_text: str) -> pa.Array:
    if type_text == "boolean":
        return pc.equal(texts, b"t")
    if type_text == "binary":
        return _unhex(texts)
    strings = texts.cast(pa.string())  # refuses what is not UTF-8 (a database in SQL_ASCII)
    if type_text == "string":
        return strings
    if type_text.startswith("array<"):
        return _arrays(strings, type_text[len("array<") : -1])
    wanted = arrow_types.to_arrow(type_text)
    return decimals.from_text(strings, wanted) if pa.types.is_decimal(wanted) else strings.cast(wanted)


def _unhex(texts: pa.BinaryArray) -> pa.BinaryArray:
    """``\\x0aff`` -> bytes, all rows in one call: the digits of all values lie side by side in one buffer."""
    digits = pc.replace_substring(texts, b"\\x", b"", max_replacements=1)
    validity, offsets, content = digits.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32, count=len(digits) + 1) if len(digits) else np.zeros(1, np.int32)
    raw = binascii.unhexlify(memoryview(content)[: bounds[-1]]) if content is not None else b""
    places = (bounds // 2).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(digits), [validity, pa.py_buffer(places), pa.py_buffer(raw)])


def _first_unfit(texts: pa.BinaryArray, type_text: str, error: Exception) -> UnfitValue:
    """The first row that fails alone, by bisection."""
    low, high = 0, len(texts)  # the first failing row is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            # A slice is copied: kernels may look past the bounds of a view.
            _convert(texts.take(pa.array(range(low, middle))), type_text)
            low = middle
        except (pa.ArrowInvalid, binascii.Error, ValueError) as found:
            high, error = middle, found
    try:
        _convert(texts.take(pa.array([low])), type_text)
    except (pa.ArrowInvalid, binascii.Error, ValueError) as found:
        error = found
    shown = texts[low].as_py() or b""
    why = str(error).partition(". If these")[0]  # Arrow's advice to programmers
    return UnfitValue(low, shown.decode(errors="replace"), f"it does not fit {type_text} ({why})")


# --- arrays ---------------------------------------------------------------------------------------------------------

_BOUNDS = re.compile(r"^\[[-\d:\]\[]+=")
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def _arrays(strings: pa.StringArray, inner: str) -> pa.ListArray:
    content = strings.buffers()[2]
    raw = content.to_pybytes() if content is not None else b""
    plain = (
        not any(mark in raw for mark in (b'"', b"\\", b"[")) and raw.count(b"{") == len(strings) - strings.null_count
    )
    offsets, elements = (_split_plain if plain else _split_quoted)(strings)
    try:
        values = convert(elements.cast(pa.binary()), inner)
    except UnfitValue as error:
        raise ValueError(f"its element '{error.text}': {error.why}") from error
    mask = strings.is_null() if strings.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)


def _split_plain(strings: pa.StringArray) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """``{1,2,NULL}`` in every row, nothing quoted, one dimension: offsets and elements."""
    inside = pc.utf8_slice_codeunits(strings, 1, -1)
    parts = pc.split_pattern(inside, ",")
    lengths = pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False)
    empty = pc.fill_null(pc.equal(inside, ""), False).to_numpy(zero_copy_only=False)
    elements = parts.flatten()
    if empty.any():  # '{}' splits into one empty element
        elements = elements.filter(pa.array(~np.repeat(empty, lengths)))
        lengths = np.where(empty, 0, lengths)
    elements = pc.if_else(pc.equal(elements, "NULL"), pa.scalar(None, pa.string()), elements)
    return _offsets(lengths), elements


def _split_quoted(strings: pa.StringArray) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Any one-dimensional array text. Raises ValueError for more dimensions."""
    lengths = np.zeros(len(strings), dtype=np.int64)
    elements: list[str | None] = []
    for row, text in enumerate(strings.to_pylist()):
        if text is not None:
            before = len(elements)
            elements += _elements(text)
            lengths[row] = len(elements) - before
    return _offsets(lengths), pa.array(elements, pa.string())


def _elements(text: str) -> list[str | None]:
    body = _BOUNDS.sub("", text)
    found: list[str | None] = []
    at = 1
    while at < len(body) - 1:
        match = _ELEMENT.match(body, at)
        if match is None:
            raise ValueError("arrays of several dimensions cannot be carried")
        quoted, bare = match.groups()
        found.append(_ESCAPE.sub(r"\1", quoted) if quoted is not None else None if bare == "NULL" else bare)
        at = match.end() + 1  # past the comma
    return found


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
