"""What a neighbour's changes come to, held to the rows that DuckDB computes from the same files.

Flink writes changes as Debezium's JSON, Pathway as CSV with a time and a weight, Spark as a folder of Parquet files a
batch, of which here is one with rows. Folded, each is a bag of rows that must be that of the answer. It is compared
after the clock has stopped, in bounded memory. ``columns``: those of the answer, name -> type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.answers import apart, comparing

# What Pathway's queries call otherwise: it keeps the name ``id`` for itself.
RENAMED = {"id": "id_", "dt": "date_time", "exp_ms": "expires", "dir1": "a", "dir2": "b", "dir3": "c"}
# Its days and minutes are numbers since 1970.
NUMBERED = {
    "day": "strftime(make_timestamp(CAST(day AS BIGINT) * 86400000000), '%Y-%m-%d')",
    "minute": "strftime(make_timestamp(CAST(minute AS BIGINT) * 60000000), '%H:%M')",
}


def compared(line: dict[str, Any], changes: Path, answer: Path) -> dict[str, Any]:
    """``equal``: whether the changes that the run of ``line`` wrote come to the answer, or None with ``why`` it cannot
    be told; of those that differ how many rows are ``missing`` and ``extra``."""
    if "per_second" not in line:
        return {}
    if line["engine"] not in FORMS:
        return {"equal": None, "why": "its changes are counted, not written"}
    if not any(file.is_file() for file in changes.rglob("*")):
        return {"equal": False, "why": "it wrote nothing"}
    with comparing() as connection:
        rows = connection.sql(f"FROM '{answer}'")
        columns = dict(zip(rows.columns, map(str, rows.types), strict=True))
        held = FORMS[line["engine"]](connection, changes, columns)
        missing, extra = apart(connection, f"({held})", list(columns), f"'{answer}'")
    if missing and not extra and line.get("watermark"):
        return {
            "equal": None,
            "why": "rows of windows that its watermark has not passed are not told",
            "missing": missing,
        }
    return {"equal": True} if not missing + extra else {"equal": False, "missing": missing, "extra": extra}


def of_flink(connection: duckdb.DuckDBPyConnection, changes: Path, columns: Mapping[str, str]) -> str:
    row = "STRUCT(" + ", ".join(f'"{column}" {type}' for column, type in columns.items()) + ")"
    declared = f"{{before: '{row}', after: '{row}', op: 'VARCHAR'}}"
    files = f"read_json('{changes}/**', format = 'newline_delimited', columns = {declared})"
    return f"SELECT unnest(coalesce(after, before)), CASE op WHEN 'd' THEN -1 ELSE 1 END AS _w FROM {files}"


def of_pathway(connection: duckdb.DuckDBPyConnection, changes: Path, columns: Mapping[str, str]) -> str:
    # Without a text for what is null an empty text stays one.
    files = f"read_csv('{changes}/*', header = true, all_varchar = true, nullstr = '\\N')"
    there = connection.sql(f"FROM {files}").columns
    named = [f'{NUMBERED.get(c, c if c in there else RENAMED.get(c))} AS "{c}"' for c in columns]
    return f"SELECT {', '.join(named)}, CAST(diff AS BIGINT) AS _w FROM {files}"


def of_spark(connection: duckdb.DuckDBPyConnection, changes: Path, columns: Mapping[str, str]) -> str:
    return f"SELECT *, 1 AS _w FROM '{changes}/*/*.parquet'"


FORMS = {"flink": of_flink, "pathway": of_pathway, "spark": of_spark}
