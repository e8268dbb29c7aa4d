"""An order that leaves no two different rows open: the user's own, then every other column of the input."""

from __future__ import annotations

from typing import Any

from headrace.sql.build import Build
from headrace.sql.java_names import class_name


def total(build: Build, child: Any, partition: list[Any], order: list[Any]) -> list[Any]:
    """The user's order and after it all columns of the child that it leaves open, ascending.

    Raises ``HeadraceError`` (sql.not_deterministic) for a column that has no order.
    """
    fixed = {e.exprId().id() for e in partition if class_name(e) == "AttributeReference"}
    fixed |= {o.child().exprId().id() for o in order if class_name(o.child()) == "AttributeReference"}
    added = []
    for attribute in build.catalyst.items(child.output()):
        floating = build.floating(attribute)
        if attribute.exprId().id() not in fixed:
            build.orderable(attribute, "an order in which rows may tie")
            added.append(build.ascending(attribute))
        if floating:  # -0.0 and 0.0 are equal to an order, but not the same row
            added.append(build.ascending(build.cast(attribute, build.types.DataTypes.StringType)))
    return order + added
