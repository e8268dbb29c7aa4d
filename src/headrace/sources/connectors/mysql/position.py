"""A position of a MySQL source: where to resume, what the log holds by then, and of which server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.mysql import gtids

_PLACE = re.compile(r"(.+\.(\d+)):(\d+)")


class Place(NamedTuple):
    """A place in the binary log. Places of one server are ordered: its files are numbered."""

    number: int
    offset: int
    file: str

    @classmethod
    def of(cls, file: str, offset: int) -> Place:
        return cls(int(file.rpartition(".")[2]), offset, file)

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


START = Place(0, 0, "")


@dataclass(frozen=True, slots=True)
class Position:
    """Resume at ``place``. ``gtid``: the set of GTIDs by then (see ``gtids``), or "" of a server without.

    ``forms``: each relation that the log holds by then, with its form then (see ``introspect``). ``server``: which one.
    """

    place: Place
    gtid: str = ""
    forms: Mapping[str, str] = field(default_factory=dict)
    server: str = ""

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self.forms)


def tail(forms: Mapping[str, str], server: str) -> str:
    """The part of a position that is the same in all transactions of a batch."""
    return json.dumps({"forms": dict(sorted(forms.items())), "server": server})[1:]


def text(place: Place, gtid: str, tail_text: str) -> str:
    """``{"at": "binlog.000001:1658", "gtid": "0-1-3", "forms": {"accounts": "3f0c..."}, "server": "mariadb/1"}``."""
    return f'{{"at": {json.dumps(str(place))}, "gtid": {json.dumps(gtid)}, {tail_text}'


def parse(position: str) -> Position:
    fields = json.loads(position)
    return Position(place_of(fields["at"]), fields["gtid"], fields["forms"], fields["server"])


def place_of(spelled: str) -> Place:
    file, _, offset = spelled.rpartition(":")
    return Place.of(file, int(offset))


def given(point: str) -> Place | gtids.Intervals:
    """A point as a user gives it: a place, or a set of GTIDs. Raises ``HeadraceError``: wait.token."""
    point = point.strip()
    place = _PLACE.fullmatch(point)
    if place:
        return Place(int(place[2]), int(place[3]), place[1])
    wanted = gtids.parsed(point)
    if wanted:
        return wanted
    raise HeadraceError(
        "wait.token",
        f"'{point}' is no point of a binary log",
        next="give what SELECT @@last_gtid prints after the commit (MariaDB: 0-1-17), or @@gtid_executed (MySQL: "
        "UUID:1-17), or file and position of SHOW MASTER STATUS as binlog.000001:1658",
    )


def reaches(position: Position, wanted: Place | gtids.Intervals) -> bool:
    """Whether the position holds all up to that point."""
    if isinstance(wanted, Place):
        return position.place >= wanted
    return gtids.holds(position.gtid, wanted)
