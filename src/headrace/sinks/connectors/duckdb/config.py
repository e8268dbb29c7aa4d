"""Options of the DuckDB sink."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from headrace.formats.secrets import resolve


class DuckdbOptions(BaseModel):
    """``sinks/NAME.yaml`` of type ``duckdb``."""

    path: str = Field(min_length=1)
    schema_name: str = Field(default="main", alias="schema", min_length=1)


def file_of(options: DuckdbOptions, base: Path | None, where: str = "") -> Path:
    """The database file; a relative path starts at ``base``, else at the working folder."""
    path = Path(resolve(options.path, where)).expanduser()
    return path if path.is_absolute() else (base or Path.cwd()) / path
