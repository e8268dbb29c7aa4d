"""Search: the rows of a view or a table in which words are found, best first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from headrace.api import answers, few
from headrace.api.project import Served, served
from headrace.api.shapes import search as shapes
from headrace.api.who import Asking, asking
from headrace.model.bounds import Deadline

router = APIRouter(tags=["views"])
Project = Annotated[Served, Depends(served)]
Name = Annotated[str, Path(description="A view's name; also that of a table of a source")]


@router.get(
    "/views/{name}/search", responses={200: {"model": shapes.Hits}}, summary="Rows in which words are found, best first"
)
def search(
    who: Annotated[Asking, Depends(asking)],
    project: Project,
    name: Name,
    q: Annotated[
        str, Query(max_length=10_000, description="Words, or the language of searches", examples=["late OR lost"])
    ],
    column: Annotated[list[str], Query(description="Where words that name no column are looked for")] = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    """The first search of a view or a table makes its index, which takes about 8 s for a million rows.

    What is not found within the time of a query is `query.timeout`; an index that is being made comes to its end
    meanwhile: ask again.
    """
    from headrace.serve.search.found import search as found  # loads tantivy, if it is installed

    relation, deadline = project.questions.described(name), Deadline.after(few.seconds(project.questions))
    most = answers.BYTES_MAX["json"]
    look = partial(
        found, project.path, relation.name, q, limit, offset, columns=column, most_bytes=most, deadline=deadline
    )
    hits = few.in_thread(look, deadline, who.token)
    return answers.json(replace(hits, reason=who.principal.told(hits.reason)).as_dict())
