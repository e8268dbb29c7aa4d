"""PostgreSQL's words for which DuckDB has others: schemas, casts to catalogue types, values of the connection.

Single tokens are replaced, never values: a statement means what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.api.postgres.lexer import Token
from headrace.api.postgres.types import DECLARED

PUBLIC, CATALOGUE, INFORMATION = "public", "pg_catalog", "information_schema"
_NAMED = {
    "regclass": "to_regclass",
    "regtype": "to_regtype",
    "regnamespace": "to_regnamespace",
    "regproc": "to_regproc",
}
_CATALOGUE = (INFORMATION, *_NAMED, "format_type", "obj_description", "current_setting", "set_config")
_CALLS = ("version", "current_database", "current_schema", "pg_backend_pid", "inet_server_port")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """SQL for DuckDB; whether it asks of the catalogue; the number of the last parameter."""

    sql: str
    catalogue: bool
    parameters: int


def rewritten(
    statement: Sequence[Token], values: Mapping[str, str], declared: Sequence[int] = (), database: str = ""
) -> Rewritten:
    """``values``: SQL for ``current_user``, ``version()`` and the like; ``declared``: types of parameters, or 0."""
    found, catalogue = list[str](), False
    parts = [token for token in statement if token.kind != "space" or token.text.isspace()]
    at = 0
    while at < len(parts):
        token, name = parts[at], parts[at].name if parts[at].kind in ("word", "quoted") else ""
        after = _next(parts, at)
        is_qualifier = bool(name) and after is not None and parts[after].text == "."
        catalogue = catalogue or name.startswith(("pg_", "_pg_", "to_reg")) or name in _CATALOGUE
        if is_qualifier and name in (PUBLIC, CATALOGUE, database):
            at = _skip(parts, after)
            continue
        if is_qualifier and name == INFORMATION:
            found.append("information_schema_")
            at = _skip(parts, after)
            continue
        if name == "operator" and after is not None and parts[after].text == "(":
            end = _closing(parts, after)
            found.append(_operator(parts[after + 1 : end]))
            at = end + 1
            continue
        if name == "collate":
            last = _collation(parts, at)
            if last is not None:
                at = last + 1
                continue
        if (token.kind in ("string", "parameter")) and (cast := _named_cast(parts, at)):
            function, last = cast
            found.append(f"{function}({_parameter(token, declared)})")
            at = last + 1
            continue
        if token.kind == "word" and not is_qualifier and not _qualified(parts, at):
            if name in _CALLS and after is not None and parts[after].text == "(" and f"{name}()" in values:
                found.append(values[f"{name}()"])
                at = _closing(parts, after) + 1
                continue
            if name in values:
                found.append(values[name])
                at += 1
                continue
        found.append(_parameter(token, declared))
        at += 1
    last = max((int(token.text[1:]) for token in parts if token.kind == "parameter"), default=0)
    return Rewritten("".join(found).strip(), catalogue, last)


def _parameter(token: Token, declared: Sequence[int]) -> str:
    if token.kind != "parameter":
        return token.text
    number = int(token.text[1:])
    kind = DECLARED.get(declared[number - 1]) if 0 < number <= len(declared) else None
    return f"CAST({token.text} AS {kind})" if kind else token.text


def _next(parts: Sequence[Token], at: int) -> int | None:
    """The place of the next token that is no space."""
    for place in range(at + 1, len(parts)):
        if parts[place].kind != "space":
            return place
    return None


def _skip(parts: Sequence[Token], at: int | None) -> int:
    return (_next(parts, at) if at is not None else None) or len(parts)


def _qualified(parts: Sequence[Token], at: int) -> bool:
    """Whether a dot is before it, or AS: then it is a name."""
    for place in range(at - 1, -1, -1):
        if parts[place].kind != "space":
            return parts[place].text == "." or parts[place].name == "as"
    return False


def _closing(parts: Sequence[Token], at: int) -> int:
    """The place of the parenthesis that closes the one at ``at``; the last place when none does."""
    depth = 0
    for place in range(at, len(parts)):
        depth += {"(": 1, ")": -1}.get(parts[place].text, 0)
        if not depth:
            return place
    return len(parts) - 1


def _operator(parts: Sequence[Token]) -> str:
    """``OPERATOR(pg_catalog.~)`` -> `` ~ ``."""
    return f" {''.join(part.text for part in parts if part.kind == 'symbol' and part.text != '.')} "


def _collation(parts: Sequence[Token], at: int) -> int | None:
    """The last place of ``COLLATE "default"``, which changes nothing; None for another collation."""
    place = _next(parts, at)
    if place is not None and parts[place].name == CATALOGUE:
        place = _next(parts, place)
        place = _next(parts, place) if place is not None else None
    return place if place is not None and parts[place].name in ("default", "C", "POSIX") else None


def _named_cast(parts: Sequence[Token], at: int) -> tuple[str, int] | None:
    """Of ``'orders'::regclass`` the function that finds it, and the place of the type."""
    place = _next(parts, at)
    if place is None or parts[place].text != "::":
        return None
    place = _next(parts, place)
    if place is not None and parts[place].name == CATALOGUE:
        place = _next(parts, place)
        place = _next(parts, place) if place is not None else None
    if place is None or parts[place].name not in _NAMED:
        return None
    return _NAMED[parts[place].name], place
