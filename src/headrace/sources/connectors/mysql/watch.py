"""Whether the server still has what a position counts on."""

from __future__ import annotations

from typing import Any

from headrace.sources.connectors.mysql import setup
from headrace.sources.connectors.mysql.position import Position


def why_lost(connection: Any, at: Position, server: str) -> str:
    """Why changes after the position may be gone; empty when they are there."""
    if at.server != server:
        return f"this is another server ({server}, before {at.server})"
    files = {row[0]: int(row[1]) for row in setup.rows(connection, "SHOW BINARY LOGS")}
    if at.place.file not in files:
        return f"the server has {at.place.file} no more: it was purged, or the log was begun anew"
    if at.place.offset > files[at.place.file]:
        return f"the server's log ends before {at.place}: it was put back to an earlier time, or begun anew"
    if setup.is_mariadb(connection):
        there = setup.gtids_at(connection, at.place)
        if set(there.split(",")) != set(at.gtid.split(",")):
            return f"at {at.place} the server's log has the GTIDs {there or 'none'}, not {at.gtid or 'none'}"
    elif at.gtid and not setup.rows(connection, "SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", (at.gtid,))[0][0]:
        return f"the server does not know the transaction {at.gtid}"
    return ""


def may_be_lost(at: Position) -> str:
    """What is told where the stream cannot go on."""
    return f"changes after {at.place} may be lost: the tables are copied anew, and what differs flows"
