"""A definition as the statement that makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
        return f"CREATE VIEW {_name(of.name)} AS\n{sql}"
    fed = f"FROM {_name(of.type)}" if of.kind == "source" else f"INTO {_name(of.type)}"
    views = f"FROM {', '.join(map(_name, of.views))} " if of.views else ""
    inner = ",\n".join(f"  {_name(name)} = {_spelled(value)}" for name, value in of.options.items())
    return f"CREATE {of.kind.upper()} {_name(of.name)} {views}{fed}" + (f" (\n{inner}\n)" if inner else "")


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
