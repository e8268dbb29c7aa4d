"""Lowering of what keeps no state: leaves, projections, filters, unions, expansions, generators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.circuit.node import Expand, Feed, Filter, Generate, Union
from headrace.sql.build import Build
from headrace.sql.java_names import class_name, type_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, projected, refusal
from headrace.sql.lowering.columns import columns
from headrace.sql.lowering.rewrite import Rewrite

LEAF_PREFIX = "relation__"
WHOLE = ("tinyint", "smallint", "int", "bigint")


def leaf(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    name = plan.functionExpr().name()
    if not name.startswith(LEAF_PREFIX):
        raise refusal("MapInArrow")
    attributes = lowering.catalyst.items(plan.output())
    kept = [i for i, a in enumerate(attributes) if a.exprId().id() in needed]
    chosen = [attributes[i] for i in kept]
    node = Feed(
        tuple(type_text(a) for a in chosen),
        tuple(bool(a.nullable()) for a in chosen),
        name.removeprefix(LEAF_PREFIX),
        tuple(kept),
        tuple(a.name() for a in chosen),
    )
    return node, [a.exprId().id() for a in chosen]


def project(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    entries = [e for e in lowering.catalyst.items(plan.projectList()) if id_of(e) in needed]
    child, ids = lowering.node(plan.child(), lowering.references(entries))
    if [id_of(e) for e in entries] == ids and all(class_name(e) == "AttributeReference" for e in entries):
        return child, ids
    names = names_of(ids)
    return projected(child, [lowering.catalyst.expression(e, names) for e in entries]), [id_of(e) for e in entries]


def filter_rows(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    child, ids = lowering.node(plan.child(), needed | lowering.references([plan.condition()]))
    names = names_of(ids)
    condition = lowering.catalyst.expression(plan.condition(), names)
    parts = Rewrite(lowering.catalyst).conjuncts(plan.condition())
    texts = tuple(lowering.catalyst.text(part, names) for part in parts)
    return Filter(child.types, child.nullables, child, condition, texts), ids


def union(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    attributes = lowering.catalyst.items(plan.output())
    kept = [i for i, a in enumerate(attributes) if a.exprId().id() in needed]
    inputs = []
    for child in lowering.catalyst.items(plan.children()):
        own = [a.exprId().id() for a in lowering.catalyst.items(child.output())]
        wanted = [own[i] for i in kept]
        inputs.append(lowering.ordered(lowering.node(child, set(wanted)), child, wanted))
    types = tuple(type_text(attributes[i]) for i in kept)
    nullables = tuple(bool(attributes[i].nullable()) for i in kept)
    return Union(types, nullables, tuple(inputs)), [attributes[i].exprId().id() for i in kept]


def expand(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    attributes = lowering.catalyst.items(plan.output())
    projections = [lowering.catalyst.items(p) for p in lowering.catalyst.items(plan.projections())]
    child, ids = lowering.node(plan.child(), lowering.references([e for p in projections for e in p]))
    names = names_of(ids)
    node = Expand(
        tuple(type_text(a) for a in attributes),
        tuple(bool(a.nullable()) for a in attributes),
        child,
        tuple(tuple(lowering.catalyst.expression(e, names) for e in p) for p in projections),
    )
    return node, [a.exprId().id() for a in attributes]


def generate(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    generator = plan.generator()
    child, ids = lowering.node(plan.child(), needed | lowering.references([generator]))
    outputs = lowering.catalyst.items(plan.generatorOutput())
    values = None if plan.outer() else listed(lowering, generator)
    if values is not None:
        return exploded(lowering, (child, ids), values, outputs[0], needed)
    made = lowering.catalyst.expression(generator, names_of(ids), suffix=":outer" if plan.outer() else "")
    if plan.outer():
        outer = lowering.catalyst.expressions.GeneratorOuter(lowering.catalyst.rebind(generator, names_of(ids)))
        made = replace(made, column=type(made.column)(lowering.catalyst.to_column(outer)), nullable=True, local=None)
    # Ids the generator makes may shadow the child's (EXCEPT ALL keeps its column's id): the generator's win.
    made_ids = [a.exprId().id() for a in outputs]
    required = [i for i, known in enumerate(ids) if known in needed and known not in made_ids]
    node = Generate(
        tuple(child.types[i] for i in required) + tuple(type_text(a) for a in outputs),
        tuple(child.nullables[i] for i in required) + tuple(bool(a.nullable()) for a in outputs),
        child,
        made,
        tuple(required),
        len(outputs),
    )
    return node, [ids[i] for i in required] + made_ids


def listed(lowering: Lowering, generator: Any) -> list[Any] | None:
    """The values of an array that is spelled out, where it is exploded: there are as many for each row."""
    if class_name(generator) != "Explode":
        return None
    array, make = generator.child(), Build(lowering.catalyst)
    if class_name(array) == "CreateArray":
        return lowering.catalyst.items(array.children()) or None
    if (
        class_name(array) != "Literal"
        or array.value() is None
        or type_name(array.dataType().elementType()) not in WHOLE
    ):
        return None
    of, data = array.dataType().elementType(), array.value()
    values = [data.get(i, of) for i in range(data.numElements())]
    return [make.cast(make.literal(value), of) for value in values] if values and None not in values else None


def exploded(lowering: Lowering, child: Lowered, values: list[Any], output: Any, needed: set[int]) -> Lowered:
    """Each row once for every value, beside what is asked for of it."""
    node, ids = child
    made = id_of(output)
    required = [i for i, known in enumerate(ids) if known in needed and known != made]
    names = names_of(ids)
    beside = columns(lowering.catalyst, node, len(node.types))
    projections = tuple(
        (*[beside[i] for i in required], lowering.catalyst.expression(value, names)) for value in values
    )
    types = (*[node.types[i] for i in required], type_text(output))
    nullables = (*[node.nullables[i] for i in required], bool(output.nullable()))
    return Expand(types, nullables, node, projections), [*[ids[i] for i in required], made]
