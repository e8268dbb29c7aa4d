"""Lowering of leaves that read no relation: VALUES, range(), a SELECT without FROM, what the optimizer found empty."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from headrace.circuit.handed import to_hand_over
from headrace.circuit.node import Constant
from headrace.formats.types.arrow import to_arrow
from headrace.model.errors import HeadraceError
from headrace.sql.canonical import execute
from headrace.sql.java_names import type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, refuse

LENGTH = "_"  # a column that gives a table without others its length


def values(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """Rows that stand in the plan; Spark itself hands them over."""
    attributes = lowering.catalyst.items(plan.output())
    names = [f"c{i}" for i in range(len(attributes))]
    for attribute in attributes:
        carried(type_text(attribute))
    given = tuple((n, type_text(a)) for n, a in zip(names, attributes, strict=True))
    rows = to_hand_over(execute(lowering.catalyst, plan).toDF(*names), given).toArrow()
    kept = [i for i, a in enumerate(attributes) if id_of(a) in needed]
    types = tuple(type_text(attributes[i]) for i in kept)
    columns = [rows[names[i]].cast(to_arrow(t)).combine_chunks() for i, t in zip(kept, types, strict=True)]
    return constant(types, columns, plan.data().size(), [attributes[i] for i in kept])


def carried(type_text: str) -> None:
    """Raises ``HeadraceError`` (sql.not_incremental) for a type whose values cannot be handed over."""
    try:
        to_arrow(type_text)
    except HeadraceError as error:
        raise refuse(f"a value of type {type_text} in VALUES", error.why, "cast it where it is used") from error


def nothing_but_a_row(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """The row that a SELECT without FROM is over; it has no column."""
    return constant((), [], 1, [])


def constant(types: tuple[str, ...], columns: list[pa.Array], count: int, attributes: list[Any]) -> Lowered:
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table([*columns, pa.nulls(count)], names=[*names, LENGTH])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    digest = hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()
    nullables = tuple(bool(a.nullable()) for a in attributes)
    return Constant(types, nullables, table, digest), [id_of(a) for a in attributes]


def numbers(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """``range(start, end, step)``: one column of bigint."""
    made = range(plan.start(), plan.end(), plan.step())
    (attribute,) = lowering.catalyst.items(plan.output())
    return Constant(("bigint",), (False,), made, repr(made)), [id_of(attribute)]
