"""Views and their rows: the list, one view, rows by filter and by key, SQL."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field

from headrace.api import answers, asked, few, reached
from headrace.api.project import Served, served
from headrace.api.shapes import reads as shapes
from headrace.api.shapes.lineage import ColumnLineage
from headrace.api.who import Asking, asking
from headrace.governance.roles import Action
from headrace.model import bounds
from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.model.moment import HINT
from headrace.serve import described, written
from headrace.serve.database import Limits
from headrace.serve.questions import Answer
from headrace.serve.relation import Described
from headrace.serve.series import Fill

router = APIRouter(tags=["views"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]
Name = Annotated[str, Path(description="A view's name; also that of a table of a source")]
At = Annotated[str | None, Query(description=f"As of {HINT}; without it now", examples=["4711"])]
PAGE_ROWS = 1_000  # a larger page is one of the few: all its rows are held until it is made


@router.get("/views", responses={200: {"model": list[shapes.View]}}, summary="Every view: state, commit, columns, key")
def views(who: Who, project: Project) -> Response:
    known = {relation.name: relation for relation in project.questions.relations() if relation.kind == "view"}
    found = []
    for view in project.verb("status")["views"]:
        if who.reaches(view["name"]):
            columns = _columns(known[view["name"]]) if view["name"] in known else {"columns": [], "key": []}
            found.append({**view, **reached.of_view(who, view), **columns})
    return answers.json(found)


@router.get(
    "/views/{name}",
    responses={200: {"model": shapes.WholeView}},
    summary="One view: SQL, columns, key, state, rows, what it reads and what reads it",
)
def view(who: Who, project: Project, name: Name) -> Response:
    found = described.view(project.path, name)
    told = project.verb("status")
    readers = [each["name"] for each in told["views"] if found["name"] in each.get("reads", [])]
    sinks = told["sinks"] if who.access.allowed(who.principal, Action.STATUS) else []  # they are of the whole project
    whole = next((each for each in told["views"] if each["name"] == found["name"]), {}) | found
    return answers.json({
        **whole, **reached.of_view(who, whole),
        "read_by": [each for each in sorted(readers) if who.reaches(each)],
        "sinks": [sink["name"] for sink in sinks if found["name"] in sink.get("views", [])],
    })  # fmt: skip


@router.get(
    "/views/{name}/versions",
    responses={200: {"model": shapes.Versions}},
    summary="What the view was before: each version's SQL, and when it came and went",
)
def versions(project: Project, name: Name) -> Response:
    return answers.json(described.versions(project.path, name))


@router.get(
    "/views/{name}/rows", responses={200: {"model": shapes.Rows}}, summary="Rows by filter, in an order, a page of them"
)
def rows(
    who: Who,
    pairs: asked.Pairs,
    project: Project,
    name: Name,
    order: Annotated[str | None, Query(description="a.desc,b", examples=["total.desc,region"])] = None,
    select: Annotated[str | None, Query(description="Columns, in this order", examples=["region,total"])] = None,
    limit: Annotated[int, Query(ge=0, le=answers.ROWS_MAX["arrow"])] = asked.ROWS,
    offset: Annotated[int, Query(ge=0)] = 0,
    at: At = None,
    format: answers.Format = "json",
) -> Response:
    """Any other parameter is a filter: `column=op.value` with eq, neq, gt, gte, lt, lte, like, ilike, in, is."""
    limits = replace(_limits(project, limit, format), cut=format == "json")  # which says that there are more
    question = asked.rows(pairs, limits.rows, offset)
    if at is None:
        _brought(project, name)
    with few.of_few(who.token) if limit > PAGE_ROWS or at is not None else nullcontext():
        found = project.questions.rows(name, question, asked.at(project.questions, at), limits)
        return answers.table(_told(who, found), format)


@router.get(
    "/views/{name}/series",
    responses={200: {"model": shapes.Rows}},
    summary="One value for each bucket of time, empty ones filled, beside that of the period before",
)
def series(
    who: Who,
    pairs: asked.Pairs,
    project: Project,
    name: Name,
    time: Annotated[str, Query(description="The column of the time", examples=["at"])],
    every: Annotated[str, Query(description="A bucket's length: 5m, 1h, 1d, 1w, 1mo", examples=["1h"])],
    value: Annotated[
        str, Query(description="count, sum, avg, min, max or median", examples=["sum(amount)"])
    ] = "count(*)",
    by: Annotated[str, Query(description="Columns: one series for each", examples=["region"])] = "",
    fill: Annotated[Fill, Query(description="What stands in an empty bucket; none: it is left out")] = "null",
    compare: Annotated[str | None, Query(description="How much earlier `before` is", examples=["1d"])] = None,
    zone: Annotated[str, Query(description="Whose days and hours", examples=["Europe/Berlin"])] = "UTC",
    begin: Annotated[str | None, Query(alias="from", description="In the first bucket")] = None,
    end: Annotated[str | None, Query(alias="to", description="Not in the last bucket, if it is its start")] = None,
    limit: Annotated[int, Query(ge=0, le=answers.ROWS_MAX["arrow"])] = 1_000,
    at: At = None,
    format: answers.Format = "json",
) -> Response:
    """Any other parameter is a filter, as of rows: `column=op.value`."""
    question = written.series(time, every, value, written.words("by", by), fill, compare, zone, begin, end)
    filters = asked.filters(pairs, asked.SERIES)
    limits = _limits(project, limit, format)
    if at is None:
        _brought(project, name)
    with few.of_few(who.token):
        found = project.questions.series(name, question, filters, asked.at(project.questions, at), limits)
        return answers.table(_told(who, found), format)


@router.get("/views/{name}/row", responses={200: {"model": shapes.Row}}, summary="The row with a key")
def row(who: Who, pairs: asked.Pairs, project: Project, name: Name, at: At = None) -> Response:
    """The key's columns are the parameters: `?id=7`; one of them may be called `at`."""
    key, relation = dict(pairs), project.questions.described(name)
    as_of = None
    if "at" not in relation.key:
        key.pop("at", None)
        as_of = asked.at(project.questions, at)
    if as_of is None:
        _brought(project, name)
    with few.of_few(who.token) if as_of is not None else nullcontext():
        found = project.questions.row(name, key, as_of, Deadline.after(few.seconds(project.questions)))
    if not found.table.num_rows:
        spelled = ", ".join(f"{column} = {value}" for column, value in key.items())
        raise HeadraceError("row.unknown", f"{name} has no row with {spelled}", why=f"as of commit {found.commit:,}")
    return answers.json(answers.row(found))


@router.get(
    "/views/{name}/explain",
    responses={200: {"model": shapes.Explained}},
    summary="How a view is maintained, operator by operator",
)
def explain(who: Who, project: Project, name: Name) -> Response:
    relations = (each.name for each in project.questions.relations())
    return answers.json(reached.explained(who, project.verb("explain", {"view": name}), relations))


@router.get(
    "/views/{name}/lineage",
    responses={200: {"model": ColumnLineage}},
    summary="The columns that its columns come from, and what comes from them",
)
def lineage(
    who: Who,
    project: Project,
    name: Name,
    reach: Annotated[
        Literal["direct", "all"], Query(description="all: up to columns of tables, down to all views and sinks")
    ] = "direct",
) -> Response:
    return answers.json(reached.lineage(who, project.verb("lineage", {"relation": name, "reach": reach})))


class Asked(BaseModel, extra="forbid"):
    """A SELECT over views and tables."""

    sql: str = Field(max_length=1_000_000, examples=["SELECT region, total FROM revenue ORDER BY total DESC"])
    parameters: list[asked.Shallow] = Field(default=[], max_length=1_000, description="For each ? in the text")
    limit: int = Field(default=1_000, ge=0, le=answers.ROWS_MAX["arrow"])
    at: int | str | None = Field(default=None, description=f"As of {HINT}; without it now", examples=[4711])
    engine: Literal["duckdb", "spark"] = Field(default="duckdb", description="spark: in Spark's dialect, slower")
    seconds: float | None = Field(
        default=None, gt=0, description="Without it 10; at most `query_seconds` of headrace.yaml", examples=[10]
    )
    format: answers.Format = "json"


@router.post("/sql", responses={200: {"model": shapes.Rows}}, summary="One SELECT over views and tables, at one commit")
def sql(who: Who, project: Project, question: Asked) -> Response:
    limits = _limits(project, question.limit, question.format, question.seconds)
    if question.engine == "spark":
        who.require(None)  # it says nothing of what it read
        with few.of_few(who.token):
            return answers.json(_by_spark(project, question, limits))
    with few.of_few(who.token):
        at = asked.at(project.questions, question.at)
        found = project.questions.ask(question.sql, question.parameters, limits, at, who.reaches)
        return answers.table(_told(who, found), question.format)


def _by_spark(project: Served, question: Asked, limits: Limits) -> dict[str, Any]:
    if question.parameters or question.at is not None or question.format != "json":
        raise HeadraceError(
            "api.request", "Spark takes neither parameters nor 'at', and answers in JSON", next='"engine": "duckdb"'
        )
    asked_for = {"limit": limits.rows, "seconds": limits.seconds, "bytes": limits.bytes}
    found = project.verb("sql", {"sql": question.sql, **asked_for})
    names = answers.distinct([column["name"] for column in found["columns"]])
    return {
        "commit": found["commit"],
        "columns": [{**column, "name": name} for column, name in zip(found["columns"], names, strict=True)],
        "rows": [dict(zip(names, row, strict=True)) for row in found["rows"]],
        "more": found["more"],
        "stale": found["stale"],
    }


def _brought(project: Served, name: str) -> None:
    """Have a relation in memory, in time. Raises ``query.timeout``, ``view.unknown``."""
    relation = project.questions.described(name).name
    few.brought(project.questions, relation, Deadline.after(few.seconds(project.questions)))


def _limits(project: Served, limit: int, format: answers.Format, seconds: float | None = None) -> Limits:
    """Those of an answer. Raises ``api.request``, ``query.bounds``."""
    most = answers.ROWS_MAX[format]
    if limit > most:
        raise HeadraceError(
            "api.request", f"'limit' is {limit}, an answer in {format} has at most {most:,} rows",
            next="ask for pages by 'offset', or for format=arrow",
        )  # fmt: skip
    questions = project.questions
    allowed = few.seconds(questions) if seconds is None else bounds.within(seconds, questions.seconds, "seconds")
    return Limits(limit, allowed, answers.BYTES_MAX[format])


def _told(who: Asking, found: Answer) -> Answer:
    """What who asks may hear of it."""
    return replace(found, stale={view: who.principal.told(reason) for view, reason in found.stale.items()})


def _columns(relation: Described) -> dict[str, Any]:
    columns = [{"name": column.name, "type": column.type} for column in relation.columns]
    return {"columns": columns, "key": list(relation.key)}
