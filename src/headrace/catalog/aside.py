"""Rows that views go on without: their SQL throws on them. Kept by view version, for the steps that lack them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from headrace.catalog.quarantine import QuarantineTables

_FIELDS = "view, version, place, feed, content, shown, weight, held, message, log_commit, since, until, dropped"


@dataclass(frozen=True, slots=True)
class AsideRow:
    """A row of ``feed`` that a version of a view has set aside, in all its copies.

    ``place``: among those of the view set aside with ``commit``, from 1. ``content``: the row as an Arrow IPC stream
    with columns ``c0 ..``; ``shown``: the same as a JSON object. ``weight``: how many copies of it the feed has now;
    ``held``: how many the view had before, which it gives back in step ``since``. The view lacks the row in steps from
    ``since`` to ``until`` (None: it does still). ``dropped``: it is not shown any more, though the view lacks it.
    """

    view: str
    version: int
    place: int
    feed: str
    content: bytes
    shown: str
    weight: int
    held: int
    message: str
    commit: int
    since: int
    until: int | None = None
    dropped: bool = False

    @property
    def id(self) -> str:
        return f"{self.view}:{self.commit}:{self.place}"


class AsideTables(QuarantineTables):
    """What views have set aside."""

    def aside_rows(self) -> list[AsideRow]:
        """All that is known, also what views lack no more but did in steps that may run again."""
        rows = self._rows(f"select {_FIELDS} from aside_row order by rowid")  # noqa: S608
        return [replace(AsideRow(*row), dropped=bool(row[-1])) for row in rows]

    def put_aside_rows(self, rows: Iterable[AsideRow]) -> None:
        """These in place of all there are."""
        with self.transaction():
            self._db.execute("delete from aside_row")
            self._db.executemany(
                f"insert into aside_row ({_FIELDS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                [
                    tuple(getattr(row, "commit" if f == "log_commit" else f) for f in _FIELDS.split(", "))
                    for row in rows
                ],
            )

    def aside_shown(self) -> list[AsideRow]:
        """What views lack now and nobody has dropped."""
        return [row for row in self.aside_rows() if row.until is None and not row.dropped]

    def drop_aside_rows(self, ids: Collection[str]) -> None:
        """They are not shown any more; the views go on without them."""
        with self.transaction():
            self.put_aside_rows(replace(row, dropped=row.dropped or row.id in ids) for row in self.aside_rows())
