"""Accumulators of rows as columns that an ordered run adds up, and those of a stretch of rows from such sums.

Column ``_s{i}`` counts for slot i; ``_s{i}_{k}_{limb}`` is a limb of the k-th of its sums; ``_s{i}_{k}_s{n}`` counts
NaN, +inf and -inf. Each table has the limbs that its numbers need: what is not there is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from headrace.circuit.exact import Accumulators
from headrace.circuit.extremes import Least
from headrace.circuit.limbs import Integers, Limbs
from headrace.circuit.slots import Groups, Slot, State
from headrace.model.delivery import WEIGHT
from headrace.state.ordered_run import SUMMED
from headrace.state.run import column


def each(slots: Sequence[Slot], table: pa.Table, weights: Integers) -> Groups:
    """What every row of a table adds, as often as its weight says."""
    starts = np.arange(table.num_rows + 1)
    found = [slot.totals(table, weights, starts) for slot in slots]
    return Groups(weights, [count for count, _ in found], [s for _, sums in found for s in sums])


def columns(slots: Sequence[Slot], table: pa.Table) -> pa.Table:
    """``table`` (with ``_w``) and what each of its rows adds."""
    if not slots or not table.num_rows:
        return table
    groups = each(slots, table, column(table, WEIGHT))
    sums = iter(groups.sums)
    for i, (slot, count) in enumerate(zip(slots, groups.counts, strict=True)):
        table = table.append_column(f"{SUMMED}{i}", pa.array(count))
        for k, of in enumerate(next(sums) for _ in slot.sums):
            assert not isinstance(of, Least), "a greatest does not add up"
            for limb, digits in enumerate(of.limbs.digits, of.limbs.low):
                table = table.append_column(f"{SUMMED}{i}_{k}_{limb}", pa.array(digits))
            if isinstance(of, Accumulators):
                for n in np.flatnonzero(of.specials.any(axis=1)):
                    table = table.append_column(f"{SUMMED}{i}_{k}_s{n}", pa.array(of.specials[n]))
    return table


def groups(slots: Sequence[Slot], totals: Mapping[str, Integers], rows: Integers) -> Groups:
    """The accumulators that the sums of such columns make, ``rows`` being the number of rows of each."""
    none = np.zeros(len(rows), np.int64)
    counts = [totals.get(f"{SUMMED}{i}", none) for i in range(len(slots))]
    sums: list[State] = []
    for i, slot in enumerate(slots):
        for k, kind in enumerate(slot.sums):
            assert not issubclass(kind, Least)
            limbs = _limbs(totals, f"{SUMMED}{i}_{k}_", len(rows))
            specials = [totals.get(f"{SUMMED}{i}_{k}_s{n}", none) for n in range(3)]
            sums.append(Accumulators(limbs, np.stack(specials)) if issubclass(kind, Accumulators) else kind(limbs))
    return Groups(rows, counts, sums)


def _limbs(totals: Mapping[str, Integers], prefix: str, size: int) -> Limbs:
    named = {name.removeprefix(prefix): sums for name, sums in totals.items() if name.startswith(prefix)}
    digits = {int(limb): sums for limb, sums in named.items() if limb.isdigit()}
    if not digits:
        return Limbs.zeros(size)
    low = min(digits)
    filled = np.zeros((max(digits) - low + 1, size), np.int64)
    for limb, sums in digits.items():
        filled[limb - low] = sums
    return Limbs.carried(low, filled)
