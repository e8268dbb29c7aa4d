"""What PostgreSQL refuses -> the error that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import psycopg

from headrace.model.errors import HeadraceError
from headrace.sinks.target import Target, diverged

_REFUSED_AT_THE_DOOR = re.compile(
    r"password authentication failed|no password supplied|role \".*\" does not exist|pg_hba\.conf|authentication failed"
    r"|is not permitted to log in",
    re.IGNORECASE,
)
# SQLSTATE classes and states that pass by themselves: connection, resources, locks, shutdown, a standby.
_PASSING = ("08", "25006", "40", "53", "55P03", "57", "58")


def connecting(error: psycopg.Error, where: str) -> HeadraceError:
    """An error while connecting; libpq tells its reason in words only."""
    text = _first_line(error)
    if (error.sqlstate or "").startswith("28") or _REFUSED_AT_THE_DOOR.search(text):
        return HeadraceError(
            "sink.auth",
            "PostgreSQL refuses the user or the password",
            where=where,
            why=text,
            next="check user and password of the sink (the password belongs in env:NAME or file:PATH) and pg_hba.conf",
        )
    what = "PostgreSQL cannot be reached"
    hint = "check host, port, database and sslmode of the sink, and that the server runs"
    if "does not match host name" in text:
        what = "PostgreSQL cannot be trusted: its certificate is for another host"
        hint = "give as host a name that is in the certificate; or have a certificate made for the name you use"
    elif "certificate" in text or "SSL" in text:
        what = "PostgreSQL cannot be trusted: its certificate is not accepted"
        hint = "give the authority that signed the server's certificate as sslrootcert; sslmode says how strict to be"
    return HeadraceError("sink.connect", what, where=where, why=text, next=hint)


def refused(error: psycopg.Error, where: str, role: str) -> HeadraceError:
    """An error of a statement, by its SQLSTATE."""
    state, text = error.sqlstate or "", _first_line(error)
    detail = error.diag.message_detail or ""
    lost = not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if lost or state.startswith(_PASSING):
        return HeadraceError(
            "sink.connect",
            "PostgreSQL cannot be written to now",
            where=where,
            why=text,
            next="nothing to do when it passes: the same changes are sent again, none is lost",
        )
    if state == "42501":
        return HeadraceError(
            "sink.rights",
            f"the role '{role}' lacks a right",
            where=where,
            why=text,
            next=f'as the owner of the object: ALTER TABLE ... OWNER TO "{role}", or drop it so that it is made anew',
        )
    if state == "2BP01":
        return HeadraceError(
            "sink.conflict",
            "other objects in the database depend on a table that has to be replaced",
            where=where,
            why=detail or text,
            next="drop them, restart, and make them again afterwards",
        )
    if state in ("42P01", "42703", "42P10"):
        return diverged(error.diag.table_name or "?", text, where)
    if state in ("42P07", "42710"):
        return foreign(text, where)
    return HeadraceError(
        "sink.refused", "PostgreSQL refused a statement", where=where, why=f"{text} {detail} (SQLSTATE {state})"
    )


def foreign(what: str, where: str) -> HeadraceError:
    return HeadraceError(
        "sink.conflict",
        what,
        where=where,
        why="this sink did not make it, so it is left alone",
        next="rename or drop it, or give the sink another `schema`",
    )


def value(error: Exception, targets: Collection[Target], where: str) -> HeadraceError:
    """A value that PostgreSQL does not take, other than those that are known before and in the quarantine."""
    views = ", ".join(f"'{target.view}'" for target in targets)
    place = error.diag.context if isinstance(error, psycopg.Error) else None
    return HeadraceError(
        "sink.value",
        f"PostgreSQL cannot hold a value of {'view' if len(targets) == 1 else 'one of the views'} {views}",
        where=_at(where, (place or "").replace("\n", " ")),
        why=_first_line(error),
        next="change it in the view; for a key that is too long for an index declare another key, or none with []",
    )


def check_names(targets: Mapping[str, Target], where: str) -> None:
    """Names that PostgreSQL would cut, refuse or confuse. Raises ``sink.value``."""
    for target in targets.values():
        check_name(target.view, "the view's name", target.view, where)
        for name in target.names:
            check_name(name, "the column name", target.view, where)
        if len(set(target.names)) < len(target.names):
            twice = next(name for name in target.names if target.names.count(name) > 1)
            raise HeadraceError(
                "sink.value",
                f"view '{target.view}' has two columns named '{twice}'",
                where=where,
                next="give one of them another name with AS",
            )


def check_name(name: str, what: str, view: str, where: str) -> None:
    size = len(name.encode())
    if size > 63:
        why = f"it has {size} bytes, PostgreSQL keeps 63"
    elif not name or "\0" in name:
        why = "a name must have at least one character, and none may be NUL"
    elif what.startswith("the column") and name in ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"):
        why = "PostgreSQL has a hidden column of that name in every table"
    else:
        return
    raise HeadraceError(
        "sink.value",
        f"PostgreSQL cannot hold {what} '{name}' (view '{view}')",
        where=where,
        why=why,
        next="give it another name" + (" with AS" if what.startswith("the column") else ""),
    )


def _at(where: str, place: str) -> str:
    return ", ".join(part for part in (where, place) if part)


def _first_line(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
