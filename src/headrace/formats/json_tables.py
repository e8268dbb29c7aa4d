"""Arrow tables as JSON: exact, and the same everywhere rows are printed as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.formats.types.arrow import from_arrow
from headrace.formats.types.spelled import value
from headrace.model.errors import HeadraceError

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
    cells = [_cells(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    return [list(row) for row in zip(*cells, strict=True)]


def _cells(name: str, column: pa.ChunkedArray) -> list[Any]:
    try:
        return [value(cell) for cell in column.to_pylist()]
    except (OverflowError, ValueError) as error:  # a year that Python's dates do not have
        raise HeadraceError(
            "query.failed", f"a value of the column '{name}' cannot be told: its year is none of 1 to 9999",
            why=str(error), next=f"ask for it as text, CAST({name} AS STRING), or leave it out",
        ) from error  # fmt: skip
