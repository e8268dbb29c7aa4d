"""Errors as PostgreSQL's clients know them: SQLSTATE, message, detail, hint."""

from __future__ import annotations

import re

import duckdb
from pygwire.messages import ErrorResponse

from headrace.model.errors import HeadraceError
from headrace.serve import database

CANCELED, SYNTAX, READ_ONLY, FAILED_TRANSACTION = "57014", "42601", "25006", "25P02"
TOO_MANY, MEMORY, PROTOCOL, INTERNAL = "53300", "53200", "08P01", "XX000"
_OF_CODE = {
    "sql.syntax": SYNTAX, "sql.refused": "0A000", "sql.unknown_relation": "42P01", "sql.unknown_column": "42703",
    "definition.exists": "42P07", "definition.unknown": "42704", "definition.in_use": "2BP01",
    "view.has_readers": "2BP01", "config.invalid": "22023", "config.unknown_key": "22023",
    "config.unknown_type": "42704", "config.secret": "22023", "psql.savepoint": "3B001", "psql.outside": "25P01",
    "view.unknown": "42P01", "source.no_table": "42P01", "view.not_at": "72000", "log.retained": "72000",
    "state.missing": "72000", "query.timeout": CANCELED, "query.canceled": CANCELED, "query.failed": "22000",
    "query.memory": MEMORY, "query.size": "54000", "query.bounds": "22023", "query.parameter": "22P02",
    "query.read_only": READ_ONLY, "psql.unknown": "26000", "psql.cursor": "34000",
    "psql.transaction": FAILED_TRANSACTION, "psql.exists": "42P05", "psql.changed": "0A000",
    "psql.protocol": PROTOCOL, "psql.busy": TOO_MANY, "psql.full": "54000", "psql.setting": "42704",
    "psql.password": "28P01", "access.token": "28P01", "access.denied": "42501", "psql.stopped": "57P01",
}  # fmt: skip
# How DuckDB's messages begin, and a word within them that tells more.
_OF_DUCKDB = (
    ("Parser Error", "", SYNTAX), ("Catalog Error", "Table with name", "42P01"), ("Catalog Error", "Function", "42883"),
    ("Catalog Error", "Type with name", "42704"), ("Catalog Error", "", "42704"),
    ("Binder Error", "No function matches", "42883"), ("Binder Error", "Ambiguous", "42702"),
    ("Binder Error", "GROUP BY", "42803"), ("Binder Error", "Referenced table", "42P01"),
    ("Binder Error", "not found", "42703"), ("Binder Error", "does not have a column", "42703"),
    ("Binder Error", "Cannot compare", "42883"), ("Binder Error", "", "42804"),
    ("Conversion Error", "out of range", "22003"), ("Conversion Error", "timestamp", "22007"),
    ("Conversion Error", "date field", "22007"), ("Conversion Error", "", "22P02"), ("Out of Range Error", "", "22003"),
    ("Invalid Input Error", "UDF: NotImplementedError", "0A000"), ("Invalid Input Error", "UDF: ValueError", "22007"),
    ("Invalid Input Error", "More than one row", "21000"), ("Invalid Input Error", "", "22023"),
    ("INTERRUPT Error", "", CANCELED), ("Out of Memory Error", "", MEMORY), ("Not implemented Error", "", "0A000"),
    ("Permission Error", "", "42501"), ("Constraint Error", "", "23000"),
)  # fmt: skip


def of_duckdb(error: Exception) -> str | None:
    """The SQLSTATE of an error that DuckDB raised, by itself or through Arrow; None for another error."""
    text = str(error)
    for begin, word, state in _OF_DUCKDB:
        if text.startswith(begin) and word in text:
            return state
    return "22000" if isinstance(error, duckdb.Error) else None


def response(error: Exception, severity: str = "ERROR") -> ErrorResponse:
    """What a client is told. Of a fault in Headrace itself it learns no more than the kind."""
    fields = {"S": severity, "V": severity}
    if isinstance(error, MemoryError) or of_duckdb(error) == MEMORY:
        error = database.of_duckdb(error)  # DuckDB's own advice is settings, which are locked here
    if isinstance(error, HeadraceError):
        detail = "\n".join(text for text in (error.where, error.why) if text)
        fields |= {"C": _OF_CODE.get(error.code, INTERNAL), "M": f"{error.what} [{error.code}]"}
        if detail:
            fields["D"] = detail
        if error.next:
            fields["H"] = error.next
        return ErrorResponse({name: text.replace("\0", "") for name, text in fields.items()})
    state = of_duckdb(error)
    if state is None:
        return ErrorResponse(
            {**fields, "C": INTERNAL, "M": f"a fault in Headrace itself: {type(error).__name__} [internal]"}
        )
    text = str(error).split("\n\nLINE", 1)[0].partition("Error: ")[2] or str(error)
    what, _, hint = re.sub(r"^Python exception .*?: \w+: ", "", text).partition("\n")
    fields |= {"C": state, "M": what.strip().replace("\0", "")}
    if hint.strip():
        fields["H"] = hint.strip().replace("\0", "")
    return ErrorResponse(fields)
