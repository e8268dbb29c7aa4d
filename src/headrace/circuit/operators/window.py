"""d W(A) = W(new contents of touched partitions) - W(their old contents): every window function with PARTITION BY.

State: the input, arranged by partition key; bounded by the input. See ``recompute``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, Flow, fields
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference
from headrace.circuit.operators.regroup import contents

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


def delta(builder: Builder, this: node.Window) -> Flow:

    names = this.child.names
    functions = [e.column.alias(f"c{len(names) + i}") for i, e in enumerate(this.functions)]
    windowed = contents(builder, this).frame.select(*names, *functions, VERSION, NEXT)
    rows = Flow(windowed, (*fields(this), (VERSION, "int"), (NEXT, "int")))
    return rows.then(Difference(), [*fields(this), *CHANGE])
