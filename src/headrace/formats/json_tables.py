"""Arrow tables as JSON: exact, and the same everywhere rows are printed as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.formats.types.arrow import from_arrow
from headrace.formats.types.spelled import value

if TYPE_CHECKING:
    import pyarrow as pa


def table_json(table: pa.Table) -> dict[str, Any]:
    """``{"columns": [{"name", "type"}], "rows": [[...]]}``; a row is a list, as column names may repeat."""
    columns = [{"name": field.name, "type": from_arrow(field.type)} for field in table.schema]
    return {"columns": columns, "rows": rows(table)}


def rows(table: pa.Table) -> list[list[Any]]:
    """The rows of a table as JSON values. For what is shown or sent to one reader: a Python loop over the cells."""
    if not table.num_columns:
        return [[] for _ in range(table.num_rows)]
    cells = [[value(cell) for cell in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*cells, strict=True)]
