"""What is looked at beside the stream: whether the server still has what the stream counts on, and what that costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import psycopg

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres import setup
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.stream import ReplicationStream, lsn_number, lsn_text

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class Held:
    """The bytes of the server's log that a slot holds back; ``left``: how many more until the slot is lost, if ever."""

    size: int
    left: int | None


def held(connection: psycopg.Connection[Any], slot: str) -> Held | None:
    """None: there is no such slot, or it keeps nothing."""
    row = connection.execute(
        "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
        "ELSE pg_current_wal_lsn() END, restart_lsn)::bigint, safe_wal_size "
        "FROM pg_replication_slots WHERE slot_name = %s AND restart_lsn IS NOT NULL",
        (slot,),
    ).fetchone()
    return Held(*row) if row else None


def held_warning(found: Held | None, slot: str, limit: int) -> str:
    """What to tell when the slot keeps more than ``limit`` bytes; else nothing."""
    if found is None or found.size <= limit:
        return ""
    left = f"; in another {size(found.left)} the server drops it and the tables are copied anew" if found.left else ""
    return (
        f"the server keeps {size(found.size)} of its log for the slot {slot}, more than max_wal_held, "
        f"{size(limit)}{left}. It is held back by a source that has failed or is slower than the writers "
        "(`headrace status`), or by a transaction left open (pg_stat_activity, by xact_start)"
    )


def size(count: int) -> str:
    """12345678 -> 11.8 MB"""
    number, unit = float(count), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{count} B"


def check_published(members: Collection[int], table: SourceTable, publication: str, where: str) -> None:
    """Raises ``HeadraceError`` source.setup when the server sends a followed table's changes no longer."""
    if table.oid not in members:
        raise HeadraceError(
            "source.setup",
            f"table {table.relation.name} is not published any more",
            where=where,
            why=f"somebody took {table.qualified} out of the publication {publication}, or dropped the table",
            next="nothing, if the source may change the publication: it publishes the table again, and copies it anew",
        )


def copied_anew(table: SourceTable) -> tuple[str, str]:
    """What is told of a table that changed otherwise than by rows, and why."""
    what = f"table {table.relation.name} has changed otherwise than by rows: it is copied anew, and what differs flows"
    if table.partitioned:
        return what, "a partition with rows was attached, detached, dropped or emptied, or a column was altered"
    return what, "a column, a label of its type, or the table's key was altered"


def may_be_lost(lsn: int) -> str:
    """What is told where the stream cannot go on."""
    return f"changes after LSN {lsn_text(lsn)} may be lost: the tables are copied anew, and what differs flows"


# --- whether a position can be resumed ------------------------------------------------------------------------------


def why_lost(
    state: setup.SlotState | None, publication: setup.Publication, slot: str, lsn: int, log_end: int, told: int | None
) -> str:  # fmt: skip
    """Why changes after ``lsn`` may be gone; empty when they are there. ``told``: see ``Confirmed.read``."""
    if state is None:
        return f"the replication slot {slot} is gone"
    if state.invalid:
        return f"the server has dropped the log that the slot {slot} kept ({state.invalid})"
    if told is not None and lsn_number(state.confirmed) > max(lsn, told):
        return (
            f"the replication slot {slot} stands at {state.confirmed}, beyond {lsn_text(max(lsn, told))} where it was "
            "left: it was made anew, or somebody else has read it"
        )
    if not publication.exists():
        return f"the publication {publication.name} is gone"
    if lsn > log_end:
        return (
            f"the server's log ends at {lsn_text(log_end)}, before {lsn_text(lsn)}: it was put back to an earlier time"
        )
    return ""


def why_elsewhere(stream: ReplicationStream, before: str, now: str, lsn: int) -> str:
    """Why ``lsn`` of the server ``before`` is no point of the server ``now``; empty when it is.

    A standby that was promoted goes on with the log of its primary up to the point where it took over.
    """
    if not before or before == now:
        return ""
    (system, _, timeline), (system_now, _, timeline_now) = before.partition("/"), now.partition("/")
    if system != system_now:
        return f"this is another server (system identifier {system_now}, before {system})"
    left_at = stream.timeline_ends(int(timeline_now)).get(int(timeline))
    if left_at is None or lsn > left_at:
        return (
            f"another server has taken over (timeline {timeline_now}) without all that was read (timeline {timeline})"
        )
    return ""
