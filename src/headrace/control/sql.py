"""sql: one SELECT over tables and views at the present frontier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control.running import Progress, Running
from headrace.control.socket import ClientGone
from headrace.model import bounds
from headrace.model.errors import HeadraceError


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"commit", "columns", "rows", "more", "stale"}``; ``limit`` bounds the rows that are made and sent, ``more``
    says whether there are others; ``stale``: why a view that was read stays behind the commit, by its name.

    ``seconds``: how long it may take; it ends, too, when who asked has left. Raises ``query.size`` for rows to send
    of more than ``bytes``.
    """
    text, limit, seconds = arguments.get("sql"), arguments.get("limit"), arguments.get("seconds")

    def still_wanted() -> bool:
        try:
            progress({"text": "running the query"})
        except ClientGone:
            return False
        return True

    if not isinstance(text, str) or not text.strip():
        raise HeadraceError("sql.syntax", "there is no SQL text", next='headrace sql "SELECT ..."')
    progress({"text": "running the query"})
    try:
        found = running.pipeline.query(
            text, None if seconds is None else float(seconds), still_wanted, None if limit is None else int(limit)
        )
    except HeadraceError as error:
        if error.next or not error.code.startswith("sql."):
            raise
        hint = "`headrace sql` takes one SELECT over the tables and views of the project; `headrace views` lists these"
        raise HeadraceError(error.code, error.what, where=error.where, why=error.why, next=hint) from error
    from headrace.formats.json_tables import table_json  # loads pyarrow: not for the client's side of the socket

    most = arguments.get("bytes")
    if most is not None and found.rows.nbytes > most:
        raise bounds.size(most)
    return {"commit": found.commit, **table_json(found.rows), "more": found.more, "stale": dict(found.stale)}
