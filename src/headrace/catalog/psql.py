"""``psql:`` in headrace.yaml: where PostgreSQL's protocol is served, and to whom; without the key it is not."""

from __future__ import annotations

from headrace.catalog.api import check_open, check_tls, checked
from headrace.catalog.document import Document
from headrace.model.definition import PsqlSettings

KEY = "psql"
KEYS = ("host", "port", "auth", "connections", "memory", "tls", "certificate", "key")


def read_psql(document: Document) -> PsqlSettings:
    """Raises ``config.invalid`` and ``config.unknown_key``."""
    written = document.values[KEY]
    if not isinstance(written, dict):
        raise document.invalid("'psql' must be a mapping", KEY, next="psql: {}  (or psql: {port: 7432})")
    for key in written:
        if key not in KEYS:
            raise document.unknown(key, KEYS, KEY, key)
    settings = PsqlSettings(**{key: checked(document, KEY, key, value) for key, value in written.items()})
    check_open(document, KEY, settings.auth, settings.host)
    check_tls(document, KEY, settings)
    return settings
