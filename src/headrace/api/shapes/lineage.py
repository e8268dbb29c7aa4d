"""What flows from which part of a project to which, by parts and by columns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.shapes.shape import Shape


class Node(Shape):
    id: str
    kind: Literal["source", "table", "view", "sink"]
    name: str
    state: str


class Edge(Shape):
    begin: str = Field(alias="from")
    end: str = Field(alias="to")


class Place(Shape):
    relation: str = Field(description="A view or a table")
    column: str


class Reader(Place):
    by: Literal["value", "rows"]


class From(Shape):
    value: list[Place] = Field(description="What it is computed from")
    rows: list[Place] = Field(description="What only decides which rows go into it")


class TracedColumn(Place, From):
    type: str


class Lineage(Shape):
    nodes: list[Node]
    edges: list[Edge]
    columns: list[TracedColumn] = Field(default=[], description="Told where they are asked for, upstream first")


class OwnColumn(From):
    column: str
    type: str
    into: list[Reader] = Field(description="What comes from it")


class ColumnLineage(Shape):
    relation: str
    kind: Literal["view", "table"]
    columns: list[OwnColumn]
    rows: list[Place] = Field(description="What decides which rows it has")
    sinks: list[str]
