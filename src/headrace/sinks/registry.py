"""The sinks there are: type -> dotted path of the class, loaded only when used."""

from __future__ import annotations

import difflib
from importlib import import_module

from headrace.model.errors import HeadraceError

REGISTRY: dict[str, str] = {
    "duckdb": "headrace.sinks.connectors.duckdb.connector.DuckdbSink",
    "mail": "headrace.sinks.connectors.mail.connector.MailSink",
    "page": "headrace.sinks.connectors.page.connector.PageSink",
    "postgres": "headrace.sinks.connectors.postgres.connector.PostgresSink",
    "webhook": "headrace.sinks.connectors.webhook.connector.WebhookSink",
}


def load(type_name: str, where: str = "") -> type:
    """The connector class of that type; an error names the nearest one."""
    if type_name not in REGISTRY:
        near = difflib.get_close_matches(type_name, REGISTRY, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known types: {', '.join(sorted(REGISTRY))}"
        raise HeadraceError("config.unknown_type", f"no sink of type '{type_name}'", where=where, next=hint)
    module, _, attribute = REGISTRY[type_name].rpartition(".")
    loaded: type = getattr(import_module(module), attribute)
    return loaded
