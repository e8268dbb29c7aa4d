"""What a view's published steps changed, from a frontier on: for an index and for what is matched against changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.sound import sound

_ATTEMPTS = 20  # a base may take deltas over while they are read


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far a reader of a relation is: the last published step it has, the commit it ends at, when it was published.

    ``made``: what tells the relation's rows from those of one made anew, or of a project that was put back.
    """

    made: str
    step: int = -1
    commit: int = 0
    published_us: int = 0


def begin(catalog: Catalog, record: ViewRecord) -> tuple[Frontier, pa.Table]:
    """The contents, with ``_w``, after the last published step."""
    for _ in range(_ATTEMPTS):
        last = catalog.last_published()
        _, rows = snapshot.read(catalog, record, last.number if last else -1)
        base = catalog.base(record.feed)
        if base is None or base[0] <= (last.number if last else -1):
            return reached(record, last), rows
    raise HeadraceError("state.missing", f"the files of view {record.schema.name} change faster than they can be read")


def reached(record: ViewRecord, step: StepRecord | None) -> Frontier:
    """The frontier of a view after that step; None: before the first."""
    return after(f"{record.feed} {record.fingerprint} {record.created_commit}", step)


def after(made: str, step: StepRecord | None) -> Frontier:
    """The frontier after that step of what was ``made`` so."""
    return Frontier(made, step.number, step.upto, step.published_us or 0) if step else Frontier(made)


def since(catalog: Catalog, record: ViewRecord, frontier: Frontier) -> list[tuple[Frontier, pa.Table]] | None:
    """The delta, with ``_w``, of each later published step, also of one that did not change the view.

    None: they cannot be told from what is kept; begin anew.
    """
    if frontier.made != reached(record, None).made or (steps := later(catalog, frontier)) is None:
        return None
    if not steps:
        return []
    try:
        found = list(_read(catalog, record, steps))
    except HeadraceError as error:
        if error.code != "state.missing":
            raise
        return None
    kept = catalog.steps(frontier.step)[:1]
    return found if kept and kept[0].number == steps[0].number == frontier.step + 1 else None


def later(catalog: Catalog, frontier: Frontier) -> list[StepRecord] | None:
    """The published steps after a frontier; None where the project does not know of it any more, or of what follows."""
    steps = catalog.steps(frontier.step - 1)
    mine = [step for step in steps if step.number == frontier.step]
    if mine and mine[0].published_us != frontier.published_us:
        return None  # the project was put back to an earlier state, and went on another way
    found = [step for step in steps if step.number > frontier.step and step.published_us is not None]
    if not found:
        last = catalog.last_published()
        return [] if last is None or last.number == frontier.step else None
    return found


def _read(catalog: Catalog, record: ViewRecord, steps: list[StepRecord]) -> Iterator[tuple[Frontier, pa.Table]]:
    files = dict[int, list[tuple[str, str]]]()
    for output in catalog.outputs(steps[0].number - 1, steps[-1].number, record.feed):
        files.setdefault(output.step, []).append((output.path, output.sums))
    for step in steps:
        paths = sound(files.get(step.number, ()), record.schema.name)
        yield reached(record, step), snapshot.delta(record, paths)
