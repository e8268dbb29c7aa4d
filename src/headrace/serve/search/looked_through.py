"""The transactions of a feed in which a text stands, newest first: its past is looked through from the end back.

An index has what a relation holds; what came and went is in none, and is read as it lies in the log or the steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.store import Catalog
from headrace.log.read import LogReader
from headrace.model.delivery import WEIGHT
from headrace.model.transaction import UNCHANGED
from headrace.serve import history, newest, snapshot
from headrace.serve.fitting import Room
from headrace.serve.parts import Keep
from headrace.serve.search.fields import texts
from headrace.state.rows import one_array

_COMMITS, _COMMITS_MAX = 1_024, 65_536  # that are looked through at a time: the first ones, later ones


@dataclass
class Looked:
    """``before``: commits from this one on were looked through; None: all that are kept."""

    transactions: list[dict[str, Any]] = field(default_factory=list)
    before: int | None = None


def of_table(project: Path, table: str, text: str, before: int | None, limit: int, seconds: float) -> Looked:
    """The last ``limit`` transactions before commit ``before`` that have the text in a value, as ``newest.of_table``.

    Upper and lower case are the same. It ends with the piece in which ``seconds`` are over, found or not.
    """
    end, reader = time.monotonic() + seconds, history.reader_of(project)
    begin = reader.end if before is None else min(reader.end, before - 1)
    first, width, found = reader.base.commit, _COMMITS, list[int]()
    while begin > first and len(found) < limit:
        begin, last = max(first, begin - width), begin
        found += sorted(_commits(reader, table, text, begin, last), reverse=True)
        width = min(4 * width, _COMMITS_MAX)
        if time.monotonic() >= end:
            break
    looked = Looked(newest.of_commits(reader, table, found[:limit]), begin + 1 if begin > first else None)
    if len(found) > limit:
        looked.before = found[limit - 1]
    return looked


def of_view(
    project: Path, view: str, text: str, before: int | None, limit: int, seconds: float, keep: Keep | None = None
) -> Looked:
    """The same of a view, or of the part of it that ``keep`` wants, of the published steps that are kept, as
    ``newest.of_view``."""
    end, looked, room = time.monotonic() + seconds, Looked(), Room()
    catalog = Catalog(snapshot.catalog_path(project), read_only=True)
    try:
        record = snapshot.known(catalog, view)
        for step in reversed(catalog.steps()):
            if step.published_us is None or (before is not None and step.after + 1 >= before):
                continue
            for commit, delta in reversed(newest.wanted(record, keep, snapshot.of_step(catalog, record, step, 0))):
                if before is not None and commit >= before:
                    continue
                if len(looked.transactions) == limit:
                    looked.before = looked.transactions[-1]["commit"]
                    return looked
                if _holding(delta.drop_columns(WEIGHT).itercolumns(), text).any():
                    looked.transactions.append(newest.of_delta(step, commit, delta, room))
            if time.monotonic() >= end:
                looked.before = step.after + 1
                return looked
        return looked
    finally:
        catalog.close()


def _commits(reader: LogReader, table: str, text: str, after: int, upto: int) -> Iterator[int]:
    refs = [ref for ref in reader.refs(after, upto) if table in ref.rows]
    for batch in reader.read(refs, table, after, upto):
        marked = batch.num_columns > 2 and batch.schema.names[2] == UNCHANGED
        holding = _holding(batch.columns[3 if marked else 2 :], text)
        yield from np.unique(batch.column(0).to_numpy()[holding]).tolist()


def _holding(columns: Sequence[pa.Array] | Iterator[pa.ChunkedArray], text: str) -> Any:
    """Of each row, whether the text stands in one of its values as they are shown."""
    holding: Any = np.False_
    for column in columns:
        array = one_array(column)
        found = pc.match_substring(texts(array), text, ignore_case=True).fill_null(False)
        holding = holding | found.to_numpy(zero_copy_only=False)
    return holding
