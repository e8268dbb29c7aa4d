"""Sets of GTIDs: of MariaDB the last one of each domain (``0-1-17``), of MySQL all that there were (``UUID:1-17:19``).

MySQL spells a set as ``@@gtid_executed`` does: for each server its intervals, for each tag of a server (MySQL 8.3) the
same after the tag's name, ``UUID:1-17:tag:1-3``. Sets are kept as text, in positions too.
"""

from __future__ import annotations

import re
from bisect import insort

_MARIADB = re.compile(r"(\d+)-(\d+)-(\d+)")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_INTERVAL = r"\d+(?:-\d+)?"
_MYSQL = re.compile(rf"({_UUID})((?::(?:[a-z_][a-z0-9_]*|{_INTERVAL}))*:{_INTERVAL})")
_NEXT = re.compile(rf"({_UUID}):(?:(\d+)-)?(\d+)")

# By MySQL's server (and tag) first and last numbers, in order; by MariaDB's domain all up to the last number.
Intervals = dict[str, list[tuple[int, int]]]


def advanced(state: str, gtid: str) -> str:
    """The set ``state`` with the GTID of the transaction that follows; "" leaves it as it is."""
    match = _MARIADB.fullmatch(gtid)
    if match is not None:
        domains = {one.partition("-")[0]: one for one in state.split(",") if one}
        domains[match[1]] = gtid
        return ",".join(domains[domain] for domain in sorted(domains, key=int))
    if not gtid:
        return state
    source, _, number = gtid.rpartition(":")
    simple = _NEXT.fullmatch(state)
    if simple and simple[1] == source and int(simple[3]) + 1 == int(number):  # as almost always: quicker than the rest
        return f"{source}:{simple[2] or simple[3]}-{number}"
    sets = intervals(state)
    insort(sets.setdefault(source, []), (int(number), int(number)))
    sets[source] = _joined(sets[source])
    return _text(sets)


def parsed(text: str) -> Intervals | None:
    """A set as a user gives it; None when it is none."""
    parts = [part.strip().lower() for part in text.split(",")]
    alike = any(all(form.fullmatch(part) for part in parts) for form in (_MARIADB, _MYSQL))
    return intervals(",".join(parts)) if alike else None


def holds(state: str, wanted: Intervals) -> bool:
    """Whether all of ``wanted`` is in the set ``state``."""
    there = intervals(state)
    return all(
        any(first <= low and high <= last for first, last in there.get(source, ()))
        for source, needed in wanted.items()
        for low, high in needed
    )


def intervals(gtids: str) -> Intervals:
    """``UUID:1-17:19,UUID2:5`` -> {UUID: [(1, 17), (19, 19)], UUID2: [(5, 5)]}; ``0-1-17`` -> {"0": [(0, 17)]}"""
    found: Intervals = {}
    for part in gtids.split(",") if gtids else ():
        if match := _MARIADB.fullmatch(part):
            found[match[1]] = [(0, max(int(match[3]), found.get(match[1], [(0, 0)])[0][1]))]
            continue
        server, *pieces = part.split(":")
        source = server
        for piece in pieces:
            if not piece[0].isdigit():
                source = f"{server}:{piece}"
                continue
            low, _, high = piece.partition("-")
            found.setdefault(source, []).append((int(low), int(high or low)))
    return {source: _joined(sorted(found[source])) for source in found}


def untagged(gtids: str) -> Intervals:
    """Without those with tags, which the stream does not tell."""
    return {source: found for source, found in intervals(gtids).items() if ":" not in source}


def named(statement: str) -> Intervals:
    """The GTID in ``SET @@SESSION.GTID_NEXT= 'UUID:17'``, as the log's events are listed; of others none."""
    match = _NEXT.search(statement.lower()) if "GTID_NEXT" in statement else None
    return {match[1]: [(int(match[3]), int(match[3]))]} if match else {}


def _joined(ordered: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals that touch as one."""
    found = ordered[:1]
    for low, high in ordered[1:]:
        if low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _text(sets: Intervals) -> str:
    spelled = {
        source: ":".join(f"{low}-{high}" if low < high else str(low) for low, high in sets[source]) for source in sets
    }
    return ",".join(f"{source}:{spelled[source]}" for source in sorted(spelled))
