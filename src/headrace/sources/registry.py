"""The sources there are: type -> dotted path of the class, loaded only when used."""

from __future__ import annotations

import difflib
from importlib import import_module

from headrace.model.errors import HeadraceError

REGISTRY: dict[str, str] = {
    "files": "headrace.sources.connectors.files.connector.FilesSource",
    "http": "headrace.sources.connectors.http.connector.HttpSource",
    "mysql": "headrace.sources.connectors.mysql.connector.MysqlSource",
    "postgres": "headrace.sources.connectors.postgres.connector.PostgresSource",
}


def load(type_name: str, where: str = "") -> type:
    """The connector class of that type; an error names the nearest one."""
    if type_name not in REGISTRY:
        near = difflib.get_close_matches(type_name, REGISTRY, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known types: {', '.join(sorted(REGISTRY))}"
        raise HeadraceError("config.unknown_type", f"no source of type '{type_name}'", where=where, next=hint)
    module, _, attribute = REGISTRY[type_name].rpartition(".")
    try:
        loaded: type = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headrace"):
            raise
        raise HeadraceError(
            "config.library",
            f"the library for sources of type '{type_name}' is not installed",
            where=where,
            why=str(error),
            next=f"pip install 'headrace[{type_name}]'",
        ) from error
    return loaded
