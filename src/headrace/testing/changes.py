"""Rows that a test gives as a table's changes: checked, typed, in the order in which a transaction applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.json_rows import RowsRefused, to_columns
from headrace.formats.types.arrow import schema, to_arrow
from headrace.formats.types.json import nearest
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import DELETE, INSERT, OPERATION

Rows: TypeAlias = pa.Table | pa.RecordBatch | Sequence[Mapping[str, object]]


def changes(relation: Relation, given: Rows) -> pa.Table:
    """The log's form of some weighted rows: ``_op`` and the relation's columns.

    With a key what goes stands before what comes, so that -1 and +1 of a key replace its row; without one what comes
    stands first, so that only the sums of the weights count. Raises ``HeadraceError`` (source.row).
    """
    rows = weighted(relation.columns, given, f"table {relation.name}")
    weights = rows[WEIGHT].to_numpy()
    operations = np.where(weights > 0, INSERT, DELETE).astype(np.int8)
    if relation.key:
        _check_keys(relation, rows, weights)
    _check_values(relation, rows, weights)
    copies = np.repeat(np.arange(len(weights)), np.abs(weights))
    order = operations[copies] if not relation.key else -operations[copies]
    chosen = copies[np.argsort(order, kind="stable")]
    table = rows.drop_columns([WEIGHT]).take(pa.array(chosen))
    return table.add_column(0, OPERATION, pa.array(operations[chosen]))


def weighted(columns: Sequence[Column], given: Rows, what: str) -> pa.Table:
    """The rows with these columns, in their types, and ``_w``; columns left out are NULL.

    Raises ``HeadraceError`` (source.row) that names the row and the column, ``TypeError`` for anything but rows.
    """
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return _of_table(columns, given, what)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise TypeError(f"{what}: rows are a pyarrow table or a list of dicts, not {type(given).__name__}")
    for number, row in enumerate(given):
        if not isinstance(row, Mapping):
            raise TypeError(f"{what}, row {number}: a row is a dict of its columns, not {type(row).__name__}")
    try:
        arrays = to_columns(given, [*columns, Column(WEIGHT, "bigint")])
    except RowsRefused as refused:
        raise _refused(f"{what}, row {refused.bad[0].row}", refused.bad[0].why) from None
    given_none = pa.array(np.array([WEIGHT not in row for row in given], np.bool_))
    weights = pc.if_else(given_none, pa.scalar(1, pa.int64()), arrays[-1])
    return _checked(pa.table([*arrays[:-1], weights], names=[*(c.name for c in columns), WEIGHT]), what)


def _of_table(columns: Sequence[Column], given: pa.Table, what: str) -> pa.Table:
    names = [c.name for c in columns]
    for name in given.column_names:
        if name != WEIGHT and name not in names:
            raise _refused(what, f"there is no column '{name}'; {nearest(name, names)}")
    made = []
    for column in columns:
        try:
            here = given[column.name] if column.name in given.column_names else pa.nulls(given.num_rows)
            made.append(here.cast(to_arrow(column.type)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _refused(what, f"column '{column.name}' ({column.type}): {error}") from None
    weights = given[WEIGHT] if WEIGHT in given.column_names else pa.array(np.ones(given.num_rows, np.int64))
    table = pa.table(made, schema=schema(columns))
    try:
        return _checked(table.append_column(WEIGHT, weights.cast(pa.int64())), what)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refused(what, f"column '{WEIGHT}': {error}") from None


def _checked(rows: pa.Table, what: str) -> pa.Table:
    if rows[WEIGHT].null_count:
        raise _refused(f"{what}, row {_first(pc.is_null(rows[WEIGHT]))}", f"'{WEIGHT}' must not be NULL")
    return rows


def _check_keys(relation: Relation, rows: pa.Table, weights: np.ndarray) -> None:
    bad = np.flatnonzero(np.abs(weights) > 1)
    if len(bad):
        raise _refused(
            f"table {relation.name}, row {bad[0]}",
            f"'{WEIGHT}' is {weights[bad[0]]}, but of a key ({', '.join(relation.key)}) there is one row at most",
        )
    for name in relation.key:
        if rows[name].null_count:
            where = f"table {relation.name}, row {_first(pc.is_null(rows[name]))}"
            raise _refused(where, f"column '{name}' of the key is missing or NULL")


def _check_values(relation: Relation, rows: pa.Table, weights: np.ndarray) -> None:
    """What comes must have the columns that may not be NULL; of what goes by its key the rest is not asked for."""
    for column in relation.columns:
        if column.nullable or not rows[column.name].null_count:
            continue
        bad = np.flatnonzero(pc.is_null(rows[column.name]).to_numpy() & ((weights > 0) | (not relation.key)))
        if len(bad):
            why = f"column '{column.name}' is missing or NULL, which it must not be"
            raise _refused(f"table {relation.name}, row {bad[0]}", why)


def _first(flags: pa.ChunkedArray) -> int:
    return int(flags.index(True).as_py())


def _refused(where: str, why: str) -> HeadraceError:
    return HeadraceError("source.row", why, where=where, why="the row does not fit its table", next="correct the row")
