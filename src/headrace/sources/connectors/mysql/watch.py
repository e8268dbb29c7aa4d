"""Whether the server still has what a position counts on."""

from __future__ import annotations

from typing import Any

from pymysql.err import MySQLError

from headrace.sources.connectors.mysql import gtids, setup
from headrace.sources.connectors.mysql.position import Position

_NO_EVENT = 1220  # none can be read at that place


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
        return ""
    return _not_mysqls(connection, at, files[at.place.file])


def _not_mysqls(connection: Any, at: Position, size: int) -> str:
    """Why the place is not one of the log that it was taken of, which MySQL may have begun anew (RESET MASTER)."""
    known, executed = gtids.intervals(at.gtid), setup.gtids_executed(connection)
    if not gtids.holds(executed, known):
        return f"the server does not know all of the transactions {at.gtid}"
    if at.place.offset == size:
        last = at.place == setup.log_end(connection)
        beyond = at.gtid and last and not gtids.holds(at.gtid, gtids.untagged(executed))
        return f"at the end of the server's log there are the GTIDs {executed}, not {at.gtid}" if beyond else ""
    try:
        listing = f"SHOW BINLOG EVENTS IN %s FROM {at.place.offset:d} LIMIT 1"
        there = setup.rows(connection, listing, (at.place.file,))
    except MySQLError as error:
        if setup.number(error) != _NO_EVENT:
            raise
        there = []
    if not there or int(there[0][1]) != at.place.offset:
        return f"no event begins at {at.place}: the server's log was begun anew"
    following = gtids.named(str(there[0][5]))
    if following and gtids.holds(at.gtid, following):
        return f"after {at.place} the server's log has {there[0][5]}, which was there before: it was begun anew"
    return ""


def may_be_lost(at: Position) -> str:
    """What is told where the stream cannot go on."""
    return f"changes after {at.place} may be lost: the tables are copied anew, and what differs flows"
