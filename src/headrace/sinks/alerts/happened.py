"""What a delivery says has happened to the rows of a view: which entered, which left, and which changed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import spelled
from headrace.model.delivery import WEIGHT
from headrace.sinks.quarantine import Unheld, not_text
from headrace.sinks.target import Target, rows_of

Kind = Literal["enter", "leave", "change"]
KINDS: tuple[Kind, ...] = ("enter", "leave", "change")
FIELDS: dict[Kind, str] = {"enter": "entered", "leave": "left", "change": "changed"}  # of a message
ROWS_MAX = 1_000  # of one message: a receiver holds it in memory, and a web server takes no body without end
SLICE = 10_000  # rows that are Python values at once

_DAYS = -719_162, 2_932_896  # the years 1 to 9999, which JSON's readers have
_MICROSECONDS = -62_135_596_800_000_000, 253_402_300_799_999_999


@dataclass(frozen=True, slots=True)
class Happening:
    """One row that entered or left, or a key whose row changed: then ``row`` is ``{"before", "after"}``."""

    kind: Kind
    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """What is told at once. ``id`` stays the same however often it is sent; ``body``: JSON."""

    id: str
    view: str
    body: bytes
    counts: tuple[int, int, int]  # how many entered, left, changed


def untellable(array: pa.Array) -> Iterator[tuple[np.ndarray, str]]:
    """The judge of values that JSON cannot carry: text that is none, times that its readers do not have."""
    if pa.types.is_string(array.type):
        yield not_text(array), "the text is not valid UTF-8"
    elif pa.types.is_date(array.type):
        yield _outside(array.cast(pa.int32()), _DAYS), "the date is outside of the years 1 to 9999"
    elif pa.types.is_timestamp(array.type):
        yield _outside(array.cast(pa.int64()), _MICROSECONDS), "the time is outside of the years 1 to 9999"


def happened(target: Target, table: pa.Table, kinds: Collection[Kind]) -> Iterator[Happening]:
    """What of ``kinds`` the delta ``table`` says; a row of several copies is told as often.

    Where the view has a key, a row that leaves while one of the same key enters is one that changed. Work: some
    microseconds a row, since each becomes JSON; what leaves a view with a key is held in memory.
    """
    weights = table.column(WEIGHT)
    going, coming = (table.filter(of) for of in (pc.less(weights, 0), pc.greater(weights, 0)))
    leaving: dict[bytes, list[dict[str, Any]]] = {}
    if target.key and coming.num_rows:
        for row, copies in _rows(target, going):
            leaving.setdefault(_key(target, row), []).extend([row] * copies)
    for row, copies in _rows(target, coming):
        for _ in range(copies):
            before = leaving.get(_key(target, row)) if leaving else None
            if before and "change" in kinds:
                yield Happening("change", {"before": before.pop(), "after": row})
            elif before:
                before.pop()
            elif "enter" in kinds:
                yield Happening("enter", row)
    if "leave" in kinds:
        if leaving:
            yield from (Happening("leave", row) for rows in leaving.values() for row in rows)
        elif not (target.key and coming.num_rows):
            yield from (Happening("leave", row) for row, copies in _rows(target, going) for _ in range(copies))


def messages(
    target: Target, found: Iterable[Happening], commit: int, about: Iterable[str], *, each: bool, initial: bool
) -> Iterator[Message]:
    """What is told of one view by one delivery: a message of all of it, in parts of at most ``ROWS_MAX``.

    ``each``: one of every happening. ``about``: what tells this sink from every other; it goes into the ids.
    ``initial``: these are contents that the view came with.
    """
    place = [*about, target.view, str(target.version), str(commit)]
    parts = _parts(iter(found), 1 if each else ROWS_MAX)
    copies: Counter[bytes] = Counter()
    for number, (part, last) in enumerate(parts, start=1):
        told = _about(target, commit)
        told |= {"initial": True} if initial else {}
        told |= {"part": number, "last": last} if not each and (number > 1 or not last) else {}
        rows: dict[str, list[dict[str, Any]]] = {field: [] for field in FIELDS.values()}
        for one in part:
            rows[FIELDS[one.kind]].append(one.row)
        mark = hashlib.sha256(orjson.dumps(rows)).digest() if each else str(number).encode()
        copies[mark] += 1
        unique = hashlib.sha256(orjson.dumps([*place, each, mark.hex(), copies[mark]])).hexdigest()[:32]
        entered, left, changed = (len(values) for values in rows.values())
        if not target.key:
            del rows[FIELDS["change"]]
        yield Message(f"msg_{unique}", target.view, orjson.dumps(told | rows), (entered, left, changed))


def _parts(found: Iterator[Happening], size: int) -> Iterator[tuple[list[Happening], bool]]:
    """Of ``size``, but for the last, each with whether it is the last."""
    part = list(islice(found, size))
    while part:
        following = list(islice(found, size))
        yield part, not following
        part = following


def unsayable(target: Target, row: Unheld, commit: int, about: Iterable[str]) -> Message:
    """A row that JSON cannot carry, as a message all the same: a byte that is no text is spelled ``\\xff`` in it."""
    entered, copies = row.weight > 0, abs(row.weight)
    field = FIELDS["enter" if entered else "leave"]
    told = _about(target, commit) | {field: [_spelled(json.loads(row.contents))] * copies}
    unique = hashlib.sha256(orjson.dumps([*about, target.version, told])).hexdigest()[:32]
    counts = (copies, 0, 0) if entered else (0, copies, 0)
    return Message(f"msg_{unique}", target.view, orjson.dumps(told), counts)


def _about(target: Target, commit: int) -> dict[str, Any]:
    """What each message begins with."""
    query = {"query": target.view} if target.of else {}
    return {"view": target.of or target.view, **query, "commit": commit}


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {name: _spelled(inner) for name, inner in value.items()}
    return [_spelled(inner) for inner in value] if isinstance(value, list) else value


def _rows(target: Target, table: pa.Table) -> Iterator[tuple[dict[str, Any], int]]:
    """Each row as JSON carries it, and of how many copies it is."""
    typed = rows_of(target, table)
    for start in range(0, typed.num_rows, SLICE):
        part = typed.slice(start, SLICE)
        columns = []
        for name in target.names:
            column = part.column(name)
            kind, values = column.type, column.to_pylist()
            plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)
            columns.append(values if plain else [spelled.value(value) for value in values])
        weights = part.column(WEIGHT).to_pylist()
        for *values, weight in zip(*columns, weights, strict=True):
            yield dict(zip(target.names, values, strict=True)), abs(weight)


def _key(target: Target, row: dict[str, Any]) -> bytes:
    return orjson.dumps([row[name] for name in target.key])


def _outside(numbers: pa.Array, bounds: tuple[int, int]) -> np.ndarray:
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    mask: np.ndarray = (filled < bounds[0]) | (filled > bounds[1])
    return mask
