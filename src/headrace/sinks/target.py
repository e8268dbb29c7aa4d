"""What a delivery asks of a store, checked before any store is touched; the same for every sink."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import arrow as arrow_types
from headrace.model.delivery import WEIGHT, Delivery
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema

VALUES_SHOWN_MAX = 200  # characters of a row that an error shows


@dataclass(frozen=True, slots=True)
class Target:
    """One view as a sink keeps it. An empty ``key`` means a multiset; ``declared`` that the user chose the key; ``of``
    as in ``ViewSchema``."""

    view: str
    version: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    declared: bool
    of: str = ""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


@dataclass(frozen=True, slots=True)
class Held:
    """What a store says it holds of a view; ``commit`` is the commit of the view's last change there."""

    version: int
    commit: int | None
    key: tuple[str, ...]
    declared: bool


def usable(held: Mapping[str, Held], keys: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """View -> version of what can be carried on with: a view whose declared key was changed must come anew."""
    return {
        view: it.version for view, it in held.items() if (it.key == keys[view] if view in keys else not it.declared)
    }


def target(schema: ViewSchema, keys: Mapping[str, tuple[str, ...]], where: str = "") -> Target:
    """The schema with the key that counts. Raises ``config.invalid`` when a declared key names no column."""
    declared = schema.name in keys
    key = tuple(keys[schema.name]) if declared else schema.key
    for name in key:
        if name not in schema.names:
            near = difflib.get_close_matches(name, schema.names, n=1)
            raise HeadraceError(
                "config.invalid",
                f"the key of view '{schema.name}' names the column '{name}', which the view does not have",
                where=where,
                next=f"did you mean '{near[0]}'?" if near else f"columns: {', '.join(schema.names)}",
            )
    if WEIGHT in schema.names:
        raise HeadraceError(
            "sink.value",
            f"view '{schema.name}' has a column named '{WEIGHT}', a name that Headrace uses itself",
            where=where,
            next="give the column another name with AS",
        )
    return Target(schema.name, schema.version, schema.columns, key, declared, schema.of)


def as_held(schema: ViewSchema, held: Held) -> Target:
    """The target with the key that the store's table was made with."""
    return Target(schema.name, schema.version, schema.columns, held.key, held.declared)


def delivered(held: Mapping[str, Held]) -> dict[str, int]:
    """View -> version of those that a table was once made for: a view that has always failed has none."""
    return {view: it.version for view, it in held.items() if it.commit is not None}


def targets(delivery: Delivery, keys: Mapping[str, tuple[str, ...]], where: str = "") -> dict[str, Target]:
    """The target of every view with rows in ``delivery``; its weights are checked against the key.

    Raises ``sink.conflict`` when a row with a key comes more than once.
    """
    found: dict[str, Target] = {}
    for rows in (delivery.deltas, delivery.replacements):
        for view, table in rows.items():
            found[view] = target(delivery.schemas[view], keys, where)
            _check_weights(found[view], table, view in delivery.replacements, where)
    return found


def pending(delivery: Delivery, frontier: int | None, held: Mapping[str, Held], keys: Mapping[str, Target]) -> Delivery:
    """What is left to do of a delivery that is not beyond ``frontier``.

    Deltas up to the frontier were written with it. A delivery at the frontier itself may still bring what
    needs no new commit: a new or rebuilt view, a drop, a failure; what of that is there already is left out.
    """
    if frontier is None or delivery.commit > frontier:
        return delivery
    if delivery.commit < frontier:
        return replace(delivery, deltas={}, replacements={}, dropped=frozenset(), stale={})
    missing = {
        view: table
        for view, table in delivery.replacements.items()
        if held.get(view) != Held(keys[view].version, delivery.commit, keys[view].key, keys[view].declared)
    }
    return replace(delivery, deltas={}, replacements=missing, dropped=delivery.dropped & held.keys())


def rows_of(target: Target, table: pa.Table) -> pa.Table:
    """The view's columns in order, in the Arrow types of the schema, with ``_w`` last."""
    schema = arrow_types.schema(target.columns).append(pa.field(WEIGHT, pa.int64()))
    return table.select(schema.names).cast(schema)


def show_row(table: pa.Table, row: int, names: list[str] | tuple[str, ...]) -> str:
    """``a=1, b='x'``: some columns of one row, cut to a readable length."""
    text = ", ".join(f"{name}={table.column(name)[row].as_py()!r}" for name in names)
    return text if len(text) <= VALUES_SHOWN_MAX else text[: VALUES_SHOWN_MAX - 1] + "…"


def not_unique(target: Target, values: str, where: str = "") -> HeadraceError:
    """Two rows of one key: the declared key is wrong, or the store was changed by somebody else."""
    if target.declared:
        why = f"the declared key ({', '.join(target.key)}) is not unique in the view"
        next_step = f"declare a key that is unique, or `{target.view}: []` under keys to keep equal rows side by side"
    else:
        why = f"the store holds a row of this key of ({', '.join(target.key)}) that it should not hold"
        next_step = f"drop '{target.view}' in the store and restart: Headrace then writes the whole view anew"
    return HeadraceError(
        "sink.conflict", f"view '{target.view}' has two rows with {values}", where=where, why=why, next=next_step
    )


def diverged(view: str, why: str, where: str = "") -> HeadraceError:
    """The store does not hold what was written to it."""
    return HeadraceError(
        "sink.diverged",
        f"the sink's table of view '{view}' was changed by somebody else",
        where=where,
        why=why,
        next=f"`headrace repair --sink NAME` puts right what differs; or drop '{view}' in the store and restart:"
        " Headrace then writes the whole view anew",
    )


def went_back(frontier: int | None, reached: int, where: str = "") -> HeadraceError:
    """The store was restored to an earlier state while we were running."""
    return HeadraceError(
        "sink.diverged",
        f"the sink stands at commit {frontier}, but commit {reached} was written to it",
        where=where,
        why="the store was restored from a backup, or it lost its last transactions",
        next="restart: Headrace then goes on from the commit that the store holds",
    )


def other_history(commit: int | None, log: str | None, ours: str, end: int | None) -> str:
    """Why the commits that a store names are not those of this log; empty when they are.

    ``log``: the id of the log that was written from; None when a version that did not tell wrote it.
    """
    if commit is None:
        return ""
    if log is not None and ours and log != ours:
        return "it was written from another log: the project's .headrace folder was removed, or is another one"
    if end is not None and commit > end:
        return f"it stands at commit {commit} and the views at {end}: the project's folder is an older copy"
    return ""


def fenced(why: str, where: str = "") -> HeadraceError:
    """An older instance of a sink wants to write."""
    return HeadraceError(
        "sink.fenced",
        "another instance has taken over this sink",
        where=where,
        why=why,
        next="stop one of the two: `headrace up` runs in two places, or two projects share a name and a sink",
    )


def _check_weights(target: Target, table: pa.Table, whole: bool, where: str) -> None:
    weights = table.column(WEIGHT)
    if whole and table.num_rows and pc.min(weights).as_py() <= 0:
        raise HeadraceError("internal", f"the contents of view '{target.view}' hold a weight below 1", where=where)
    if target.key and table.num_rows:
        repeated = np.flatnonzero(np.abs(weights.to_numpy()) != 1)
        if len(repeated):
            raise not_unique(target, show_row(table, int(repeated[0]), target.key), where)
