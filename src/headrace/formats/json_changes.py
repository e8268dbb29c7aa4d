"""Changes as JSON objects -> the change table of a relation, as the log takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.json_rows import BadValue, RowsRefused, to_columns
from headrace.model.schema import Relation
from headrace.model.transaction import DELETE, INSERT, OPERATION, ORDINAL, STRICT, TRUNCATE, UNCHANGED, UPDATE, UPSERT

OPERATIONS = {
    "insert": INSERT, "upsert": INSERT | UPSERT, "update": UPDATE, "delete": DELETE, "truncate": TRUNCATE,
}  # fmt: skip


def change_table(
    rows: Sequence[Mapping[str, Any]], ordinals: np.ndarray, operations: np.ndarray, relation: Relation
) -> pa.Table:
    """One change a row: ``ordinals`` (int32) gives its transaction, ``operations`` (int8) its code.

    ``STRICT`` and ``UPSERT`` count on relations with a key alone. Columns that an update leaves out keep their values.
    Raises ``RowsRefused`` naming the rows with an unknown column, a value that does not fit or a null that may not be.
    """
    arrays = to_columns(rows, relation.columns)
    plain = operations & (STRICT - 1)
    unchanged = _unchanged(rows, plain, relation)
    _check_nulls(arrays, rows, plain, relation)
    head = {ORDINAL: pa.array(ordinals), OPERATION: pa.array(operations if relation.key else plain)}
    if unchanged is not None:
        head[UNCHANGED] = unchanged
    return pa.table(list(head.values()) + arrays, names=[*head, *relation.names])


def _unchanged(rows: Sequence[Mapping[str, Any]], operations: np.ndarray, relation: Relation) -> pa.Array | None:
    """Bitmaps of the columns that updates left out; None when no update left any out."""
    bitmaps: list[bytes | None] = [None] * len(rows)
    partial = False
    for row in np.flatnonzero(operations == UPDATE).tolist():
        given = rows[row]
        if len(given) < len(relation.columns):
            bits = sum(1 << at for at, name in enumerate(relation.names) if name not in given)
            bitmaps[row] = bits.to_bytes((len(relation.columns) + 7) // 8, "little")
            partial = True
    return pa.array(bitmaps, pa.binary()) if partial else None


def _check_nulls(
    arrays: list[pa.Array], rows: Sequence[Mapping[str, Any]], operations: np.ndarray, relation: Relation
) -> None:
    """Keys are never null; other required columns are not where a row is whole, or where an update names them."""
    bad = []
    for array, column in zip(arrays, relation.columns, strict=True):
        if column.nullable or not array.null_count:
            continue
        asked = operations != TRUNCATE
        is_key = column.name in relation.key
        if not is_key:
            asked &= operations != DELETE
        for row in np.flatnonzero(asked & pc.is_null(array).to_numpy(zero_copy_only=False)).tolist():
            if is_key or operations[row] != UPDATE or column.name in rows[row]:
                kind = "key column" if is_key else "column"
                why = f"{kind} '{column.name}' is {'null' if column.name in rows[row] else 'missing'}, and must not be"
                bad.append(BadValue(row, column.name, why))
    if bad:
        raise RowsRefused(bad)
