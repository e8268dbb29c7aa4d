"""What `verify --sink` and `repair` share: the catalogue that they read where nothing runs, and how they answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.catalog.store import Catalog


@contextmanager
def catalogue(path: Path) -> Iterator[Catalog]:
    """What the project has published, to be read. Raises ``project.not_running`` before its first `up`."""
    from headrace.catalog.store import Catalog
    from headrace.serve.snapshot import catalog_path

    catalog = Catalog(catalog_path(path), read_only=True)
    try:
        yield catalog
    finally:
        catalog.close()


def asked(arguments: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(sink, views) of a call."""
    return str(arguments["sink"]), [str(view) for view in arguments.get("views") or []]


def spelled(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``check_sink`` or of a pipeline's ``verify``, its rows as JSON carries them."""
    from headrace.formats.types.spelled import value  # loads pyarrow: not for the client's side of the socket

    views = [
        {**view, "first": [{**row, "row": value(row["row"])} for row in view["first"]]} for view in answer["views"]
    ]
    return {**answer, "views": views}
