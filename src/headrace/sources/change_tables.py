"""Change tables (see ``headrace.model.transaction``) as more than one source makes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.formats.types import arrow as arrow_types
from headrace.model import transaction as model
from headrace.model.schema import Relation


def inserts(relation: Relation, table: pa.Table, *, emptied: bool = False) -> pa.Table:
    """The change table of one transaction (ordinal 0) that inserts every row of ``table``; ``emptied``: in place of
    all that the relation held.
    """
    operations = np.full(table.num_rows + emptied, model.INSERT, dtype=np.int8)
    operations[:emptied] = model.TRUNCATE
    columns = [
        pa.chunked_array([pa.nulls(int(emptied), column.type), *column.chunks], column.type) for column in table.columns
    ]
    control = [pa.array(np.zeros(len(operations), dtype=np.int32)), pa.array(operations)]
    fields = [pa.field(model.ORDINAL, pa.int32()), pa.field(model.OPERATION, pa.int8())]
    schema = pa.schema([*fields, *arrow_types.schema(relation.columns)])
    return pa.Table.from_arrays([*control, *columns], schema=schema)


def numbered(decoded: Mapping[str, pa.Table]) -> tuple[list[int], dict[str, pa.Table]]:
    """The transactions that ``decoded`` has changes of, and these with the transactions numbered from 0."""
    kept = np.unique(np.concatenate([table[model.ORDINAL].to_numpy() for table in decoded.values()]))
    tables = {}
    for name, table in decoded.items():
        ordinals = np.searchsorted(kept, table[model.ORDINAL].to_numpy()).astype(np.int32)
        tables[name] = table.set_column(0, table.schema.field(0), pa.array(ordinals))
    return kept.tolist(), tables
