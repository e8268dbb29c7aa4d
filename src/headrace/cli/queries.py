"""What the commands of stored queries share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import display
from headrace.model.definition import StoredQuery

if TYPE_CHECKING:
    import pyarrow as pa

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `headrace queries ls` shows it.")]


def known(path: Path, name: str) -> StoredQuery:
    """The stored query of that name. Raises ``HeadraceError``: search.unknown, or what is wrong with its file."""
    from headrace.catalog.searches import StoredQueries, unknown

    queries, problems = StoredQueries(path).read()
    folded = {known.lower(): known for known in (*queries, *problems)}
    found = folded.get(name.lower())
    if found is None:
        raise unknown(name, sorted(folded.values()))
    if found in problems:
        raise problems[found]
    return queries[found]


def changes(matches: pa.Table) -> list[dict[str, Any]]:
    """Matches as JSON, those that go (weight below 0) before those that come: ``{"query", "weight", "row"}``."""
    from headrace.formats.json_tables import rows

    query, *names = matches.column_names[:-1]
    cells = zip(matches[query].to_pylist(), matches["_w"].to_pylist(), rows(matches.select(names)), strict=True)
    found = [{"query": of, "weight": weight, "row": dict(zip(names, row, strict=True))} for of, weight, row in cells]
    return sorted(found, key=lambda change: (change["weight"] > 0, change["query"]))


def line(commit: int, change: dict[str, Any], *, first: bool) -> str:
    """A match on one line of a terminal."""
    sign, style = ("+", "" if first else "green") if change["weight"] > 0 else ("-", "red")
    text = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in change["row"].items())
    times = f"  (x{abs(change['weight'])})" if abs(change["weight"]) != 1 else ""
    shown = f"{sign} {change['query']}: {text}{times}"
    return f"{commit:>8} {display.paint(shown, style)}"
