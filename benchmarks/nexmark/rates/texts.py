"""The queries in each engine's own words; what they mean is the DuckDB text, to whose rows every answer is held."""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.nexmark.rates.stream import RELATIONS

FOLDER = Path(__file__).with_name("queries")


def names() -> list[str]:
    """All queries, in order. q12 asks the clock and q13 a table that lies elsewhere: their rows are no answer."""
    return sorted((file.stem for file in (FOLDER / "duckdb").iterdir()), key=lambda name: int(name[1:]))


def text(engine: str, query: str) -> str | None:
    file = FOLDER / engine / f"{query}.sql"
    return file.read_text() if file.exists() else None


def reads(query: str) -> list[str]:
    """The relations that a query reads."""
    named = duckdb.get_table_names(text("duckdb", query) or "")
    return [name for name in RELATIONS if name in named]
