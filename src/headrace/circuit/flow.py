"""Rows on their way through a circuit: a frame of Spark's, then stages that one Python worker runs back to back.

Every crossing between the JVM and Python costs more than most stages do, so a stage or an expression that Arrow can
compute joins the stages before it, and Spark is asked only for what Spark alone knows or for an exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.circuit.clocked import clocked, handed
from headrace.circuit.handed import handed_schema, taken_back, to_hand_over
from headrace.circuit.local import Local, Reference
from headrace.circuit.node import Expression, Node
from headrace.circuit.picked import Select, Where, copied
from headrace.circuit.work import noted
from headrace.model.delivery import WEIGHT
from headrace.state.phases import ARROW, pulled

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Columns = tuple[tuple[str, str], ...]  # names and Spark SQL types

INSTANT = "_i"  # int: the instant of a change within its step, from 1
CHANGE: Columns = ((WEIGHT, "bigint"), (INSTANT, "int"))
OUTPUT_ROWS = 131_072


class Chain:
    """Stages one after the other in one Python worker, without Spark in between."""

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for stage in self.stages:
            pieces = stage(pieces if getattr(stage, "takes_picked", False) else copied(pieces))
        yield from copied(pieces)


class Handed(Chain):
    """The same, its rows handed to Spark in pieces that it takes one at a time."""

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noted(), clocked() as profiled:
            made = self.sliced(pulled(ARROW, pieces))
            yield from handed(made) if profiled else made

    def sliced(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in super().__call__(pieces):
            for first in range(0, batch.num_rows, OUTPUT_ROWS):
                yield batch.slice(first, OUTPUT_ROWS)


class Together:
    """A stage without input: the rows of several chains that have none either."""

    def __init__(self, *chains: Chain) -> None:
        self.chains = chains

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        for chain in self.chains:
            yield from chain(())


@dataclass(frozen=True, slots=True)
class Value:
    """A column to make: its name and type, how Spark computes it and, where there is a way, how Arrow does."""

    name: str
    type: str
    column: Column
    local: Local | None


def computed(name: str, expression: Expression) -> Value:
    return Value(name, expression.type, expression.column, expression.local)


def kept(name: str, type_text: str, of: str | None = None) -> Value:
    """A column as it is; ``of`` is its name before."""
    return Value(name, type_text, F.col(of or name), Reference(of or name))


def change() -> list[Value]:
    """A row's weight and instant, as they are."""
    return [kept(name, type_text) for name, type_text in CHANGE]


def fields(node: Node, letter: str = "c") -> Columns:
    """Names and types of a node's output columns."""
    return tuple((f"{letter}{i}", type_text) for i, type_text in enumerate(node.types))


@dataclass(frozen=True, slots=True)
class Flow:
    """``made``: no input but the task itself, so that ``stages`` can also run inside another stage of the task.

    ``taken``: what the first of the stages takes. ``beside``: flows whose rows are among these; what comes next is done
    to each by itself, as Spark's union would take row by row what Python has.
    """

    given: DataFrame
    columns: Columns
    stages: tuple[Stage, ...] = ()
    made: bool = False
    taken: Columns = ()
    beside: tuple[Flow, ...] = ()

    @property
    def chain(self) -> Chain:
        return Chain(*self.stages)

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        if self.beside:
            return reduce(DataFrame.unionAll, [flow.frame for flow in self.each])
        if not self.stages:
            return self.given
        given = to_hand_over(self.given, self.taken)
        return taken_back(given.mapInArrow(Handed(*self.stages), handed_schema(self.columns)), self.columns)

    @property
    def in_python(self) -> bool:
        """Whether Python has the rows already, so that one more stage is no crossing."""
        return all(flow.stages for flow in self.each)

    @property
    def each(self) -> tuple[Flow, ...]:
        """The flows that this one is made of: itself, and those beside."""
        return replace(self, beside=()), *self.beside

    def then(self, stage: Stage, columns: Sequence[tuple[str, str]]) -> Flow:
        """The rows after one more stage in Python, which makes ``columns``."""
        if self.beside:
            return united([flow.then(stage, columns) for flow in self.each])
        taken = self.taken if self.stages else self.columns
        return replace(self, columns=tuple(columns), stages=(*self.stages, stage), taken=taken)

    def select(self, values: Sequence[Value]) -> Flow:
        if self.beside:
            return united([flow.select(values) for flow in self.each])
        columns = tuple((v.name, v.type) for v in values)
        local = tuple(v.local for v in values if v.local is not None)
        if self.stages and len(local) == len(values):
            return self.then(Select(tuple(v.name for v in values), local), columns)
        return Flow(self.frame.select(*[v.column.alias(v.name) for v in values]), columns)

    def where(self, condition: Expression) -> Flow:
        if self.beside:
            return united([flow.where(condition) for flow in self.each])
        if self.stages and condition.local is not None:
            return self.then(Where(condition.local), self.columns)
        return Flow(self.frame.filter(condition.column), self.columns)


def united(flows: Sequence[Flow]) -> Flow:
    """The rows of all of them, which have the same columns."""
    first, *others = [each for flow in flows for each in flow.each]
    return replace(first, made=False, beside=tuple(others))
