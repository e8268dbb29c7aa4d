"""A whole small step in one task: circuits that need nothing of Spark's run one after the other in one stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.circuit.flow import Chain
from headrace.circuit.task import Step, current


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
    """Output: what ``publish`` describes of every circuit that was due, tables first."""

    def __init__(self, turns: tuple[Turn, ...]) -> None:
        self.turns = turns

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        step = current()
        for turn in self.turns:
            if not turn.due(step):
                continue
            for written in turn.chain(()):
                step.feeds.setdefault(turn.name, []).extend(written.column("path").to_pylist())
                yield written
