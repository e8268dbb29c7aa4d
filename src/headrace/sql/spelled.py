"""A definition as the statement that makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from headrace.catalog.written import view_text
from headrace.model.errors import HeadraceError
from headrace.sql.definitions import Create, read
from headrace.sql.lexer import split


@dataclass(frozen=True, slots=True)
class Defined:
    """What a statement would make. ``sql``: of a view, all of its file; else ``type``, ``views`` and ``options``."""

    kind: str
    name: str
    sql: str = ""
    type: str = ""
    views: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def statement(of: Defined) -> str:
    """The CREATE that makes it: read again, it gives the same definition."""
    if of.kind == "view":
        sql = of.sql.strip().rstrip(";").rstrip()
        plain = f"CREATE VIEW {_name(of.name)} AS\n{sql}"
        return plain if _makes(plain, sql) else f"CREATE VIEW {_name(of.name)} AS {_dollars(sql)}"
    fed = f"FROM {_name(of.type)}" if of.kind == "source" else f"INTO {_name(of.type)}"
    views = f"FROM {', '.join(map(_name, of.views))} " if of.views else ""
    inner = ",\n".join(f"  {_name(name)} = {_spelled(value)}" for name, value in of.options.items())
    return f"CREATE {of.kind.upper()} {_name(of.name)} {views}{fed}" + (f" (\n{inner}\n)" if inner else "")


def _makes(text: str, sql: str) -> bool:
    """Whether the text is one statement that makes that view: Spark's strings may end elsewhere than PostgreSQL's."""
    try:
        statements = [read(tokens) for tokens in split(text)]
    except HeadraceError:
        return False
    made = statements[0]
    return len(statements) == 1 and isinstance(made, Create) and made.text == view_text(sql, {})


def _dollars(sql: str) -> str:
    """The text between quotes that are not in it."""
    quote = next(each for each in chain(("$$", "$sql$"), (f"$sql{n}$" for n in count(2))) if each not in sql)
    return f"{quote}\n{sql}\n{quote}"


def _spelled(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({', '.join(f'{_name(str(name))} = {_spelled(inner)}' for name, inner in value.items())})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    if isinstance(value, bool) or value is None:
        return "NULL" if value is None else str(value).upper()
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def _name(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
