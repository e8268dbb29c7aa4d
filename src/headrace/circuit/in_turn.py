"""A whole small step in one task: circuits that need nothing of Spark's run one after the other in one stage.

Many of them run in a few tasks, those together that read each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.circuit.flow import Chain
from headrace.circuit.task import Step, current, partition
from headrace.circuit.written import Written, files_of, told


@dataclass(frozen=True, slots=True)
class Gate:
    """A level of a recursive query is worked on once the level before has rows, now or kept in arrangements."""

    previous: frozenset[str]
    arrangements: frozenset[str]

    def opens(self, step: Step) -> bool:
        return not (self.previous.isdisjoint(step.feeds) and self.arrangements.isdisjoint(step.runs))


@dataclass(frozen=True, slots=True)
class Turn:
    """A circuit's stages. ``inputs``: the feeds it reads; none for a table, which reads its own changes."""

    name: str
    inputs: frozenset[str]
    chain: Chain
    gate: Gate | None = None

    def due(self, step: Step) -> bool:
        if self.inputs:
            return not self.inputs.isdisjoint(step.feeds) and (self.gate is None or self.gate.opens(step))
        return any(ref["rows"].get(self.name) for ref in step.refs)


class InTurn:
    """Output: a row of all that the circuits that were due wrote; ``turns``: those of each task, tables first."""

    def __init__(self, turns: Sequence[Sequence[Turn]]) -> None:
        self.turns = turns

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        step = current()
        written: list[Written] = []
        for turn in self.turns[partition()]:
            if turn.due(step):
                made = [file for batch in turn.chain(()) for file in files_of(batch)]
                written += made
                if made:
                    step.feeds.setdefault(turn.name, []).extend(file.path for file in made)
        if written:
            yield told(written)


def dealt(turns: Sequence[Turn], tasks: int) -> list[list[Turn]]:
    """Turns for each of some tasks, of about as many stages: those that read each other in one, in their order."""
    names = {turn.name for turn in turns}
    group = {name: name for name in names}

    def leader(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for turn in turns:
        for read in turn.inputs & names:
            group[leader(read)] = leader(turn.name)
    together: dict[str, list[Turn]] = {}
    for turn in turns:
        together.setdefault(leader(turn.name), []).append(turn)
    parts = [list[Turn]() for _ in range(tasks)]
    for some in sorted(together.values(), key=_stages, reverse=True):
        min(parts, key=_stages).extend(some)
    return parts


def _stages(turns: Iterable[Turn]) -> int:
    return sum(len(turn.chain.stages) for turn in turns)
