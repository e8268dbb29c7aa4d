"""Options of the files source, as written in ``sources/NAME.yaml``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class FilesOptions(BaseModel):
    """``type: files``."""

    model_config = ConfigDict(extra="forbid")

    path: str  # the folder, relative to the project
    pattern: str | None = None  # a glob over the names; by default every suffix of the format
    format: Literal["jsonl", "csv", "parquet"] | None = None  # by default each file's suffix tells
    table: str | None = None  # by default the source's name
    columns: dict[str, str] | None = Field(  # column -> Spark SQL type, "not null" may follow; None: infer
        default=None, examples=[{"id": "bigint not null", "amount": "decimal(12,2)"}]
    )
    key: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(default=(), examples=[["id"]])
    on_conflict: Literal["replace", "quarantine", "refuse"] = "replace"  # a row of a key that is there
    on_error: Literal["stop", "quarantine"] = "stop"  # a row that cannot be read, or does not fit its columns
    delimiter: str = Field(default=",", min_length=1, max_length=1)  # CSV only
    poll_seconds: float = Field(default=1.0, gt=0)
