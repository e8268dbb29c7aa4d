"""What a role lacks for writing views into a schema, each with the statement that gives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from headrace.model.finding import MISSING, OK, Finding


def examine(connection: psycopg.Connection[Any], schema: str) -> Iterator[Finding]:
    """Changes nothing."""
    info = connection.info
    yield Finding(
        OK, f"connects to {info.dbname} at {info.host}:{info.port}, PostgreSQL {info.server_version // 10_000}"
    )
    role, standby, read_only, exists, in_schema, in_database = connection.execute(
        "SELECT current_user, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', n.oid IS NOT NULL, "
        "has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE'), "
        "has_database_privilege(current_database(), 'CREATE') "
        "FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = $1",
        (schema,),
    ).fetchone() or ("", False, False, False, False, False)
    named, to = sql.Identifier(schema), sql.Identifier(role)
    if standby:
        yield Finding(MISSING, "the server is a standby, which takes no writes", "name the primary as the sink's host")
    elif read_only:
        advice = sql.SQL("ALTER ROLE {} SET default_transaction_read_only = off").format(to)
        yield Finding(MISSING, "transactions are read-only for the role", advice.as_string(connection))
    if exists and not in_schema:
        advice = sql.SQL("GRANT USAGE, CREATE ON SCHEMA {} TO {}").format(named, to)
        yield Finding(MISSING, f"the role may not make tables in the schema {schema}", advice.as_string(connection))
    elif not exists and not in_database:
        advice = sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(named, to)
        yield Finding(
            MISSING, f"there is no schema {schema}, and the role may not make it", advice.as_string(connection)
        )
    else:
        yield Finding(OK, f"the role may make tables in the schema {schema}")
