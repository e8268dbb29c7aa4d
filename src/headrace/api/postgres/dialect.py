"""The SQL that is spoken here: DuckDB's, with the meaning that PostgreSQL gives its words, and its catalogue."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from headrace.api.postgres import catalogue
from headrace.serve.database import Ground, opened

# As PostgreSQL has it and DuckDB has not: whole numbers divide to whole numbers, NULL is greater than any value.
DIALECT = {"integer_division": True, "default_null_order": "nulls_last_on_asc_first_on_desc"}


@dataclass(frozen=True, slots=True)
class PostgresGround(Ground):
    """``project``: the database that clients see."""

    project: str = ""

    def open(self) -> duckdb.DuckDBPyConnection:
        connection = opened(self.memory, DIALECT)
        catalogue.install(connection, self.project)
        return connection
