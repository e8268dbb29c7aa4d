"""test: the project's tests (``tests/*.yaml``): given rows go through the views, step by step, and are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.catalog.document import Document, did_you_mean
from headrace.catalog.examples import FOLDER, read_examples
from headrace.catalog.project import read
from headrace.control.running import Progress
from headrace.model.definition import Example, ExampleStep, Project, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation

if TYPE_CHECKING:
    from headrace.testing import Pipeline

T = TypeVar("T")
Placed = tuple[Example, Document]
FIRST = 20  # rows of each kind that an answer names


def run(path: Path, names: Sequence[str], progress: Progress) -> dict[str, Any]:
    """``{"tests": [...], "passed": n, "failed": n}``: of each test its file, its steps and whether it passed.

    A step has for each view that it expects ``missing`` and ``unexpected`` rows (``{"row", "times"}``) or an ``error``.
    A test that cannot be run has an ``error`` itself. ``names``: some of the tests; all by default. Nothing of the
    project is changed, and a running `headrace up` is not asked.

    Raises ``HeadraceError`` for a file that cannot be read, before anything is started.
    """
    project = read(path)
    examples = chosen(project, names)
    progress({"text": "starting Spark"})
    from headrace.engine.session import open_session

    spark = open_session(project.settings, brief=True)
    try:
        return outcomes(project, examples, progress, spark)
    finally:
        spark.stop()


def outcomes(project: Project, examples: Sequence[Placed], progress: Progress, spark: Any) -> dict[str, Any]:
    """The answer of ``run`` for these tests, by a session that is there."""
    tables = _Tables(project)
    answers = []
    for done, (example, document) in enumerate(examples):
        progress({"text": f"testing {example.name}", "done": done, "total": len(examples)})
        began = time.monotonic()
        answer = {"test": example.name, "file": document.shown, **_outcome(project, example, document, tables, spark)}
        answers.append({**answer, "seconds": round(time.monotonic() - began, 3)})
    passed = sum(answer["passed"] for answer in answers)
    return {"tests": answers, "passed": passed, "failed": len(answers) - passed}


def chosen(project: Project, names: Sequence[str]) -> list[Placed]:
    """The tests of those names, or all. Raises ``HeadraceError`` for what is wrong with their files."""
    examples = read_examples(project)
    known = [example.name for example, _ in examples]
    for name in names:
        if name not in known:
            raise HeadraceError(
                "config.invalid", f"there is no test '{name}'", where=FOLDER,
                next=did_you_mean(name, known) or (f"tests: {', '.join(known)}" if known else _FIRST_TEST),
            )  # fmt: skip
    if not examples:
        raise HeadraceError("config.invalid", "the project has no tests", where=FOLDER, next=_FIRST_TEST)
    return [(example, document) for example, document in examples if not names or example.name in names]


_FIRST_TEST = "a test is a file tests/NAME.yaml; `headrace init DIR` makes a project that has one"


class _Tables:
    """What the project's sources offer, asked once; one that cannot be reached offers what is known of it."""

    def __init__(self, project: Project) -> None:
        from headrace.engine.connectors import make_source

        self.relations: dict[str, Relation] = {}
        self.sources = {d.name: make_source(d, project) for d in project.sources}
        self.missing: dict[str, HeadraceError] = {}
        for name, source in self.sources.items():
            try:
                self.relations |= {r.name: r for r in source.relations()}
            except HeadraceError as error:
                if error.code in ("config.invalid", "config.unknown_key", "config.unknown_type"):
                    raise
                self.missing[name] = error

    def unknown(self, table: str, document: Document, *at: str) -> HeadraceError:
        from headrace.engine.plan import unasked

        known = sorted(self.relations)
        error = HeadraceError(
            "source.no_table", f"there is no table '{table}'", where=document.place(*at),
            next=did_you_mean(table, known) or (
                f"declare it here, under `tables:`: {table}: \"id bigint, ...\"" if self.missing or not known
                else f"tables: {', '.join(known)}"
            ),
        )  # fmt: skip
        return unasked(table, error, self.sources, self.missing, error.next)


def _outcome(project: Project, example: Example, document: Document, tables: _Tables, spark: Any) -> dict[str, Any]:
    try:
        relations = {**tables.relations, **_declared(example, document, spark)}
        _check_tables(example, document, tables, relations)
        views = _needed(project, example, relations, tables, spark)
        from headrace.engine.functions import functions_of
        from headrace.testing import Pipeline

        now, functions = _now(document, example.now, "now"), functions_of(project)
        with Pipeline.over(relations, views, project.settings, spark, now, functions) as pipeline:
            steps = [_stepped(pipeline, step, document, number) for number, step in enumerate(example.steps)]
    except HeadraceError as error:
        return {"passed": False, "steps": [], "error": error.as_dict()}
    return {"passed": all(step["passed"] for step in steps), "steps": steps, "error": None}


def _declared(example: Example, document: Document, spark: Any) -> dict[str, Relation]:
    from headrace.testing.tables import relations

    return _at(lambda: relations(spark, example.tables, example.keys), document, "tables")


def _check_tables(example: Example, document: Document, tables: _Tables, relations: Mapping[str, Relation]) -> None:
    for number, step in enumerate(example.steps):
        for transaction in step.given:
            for table in transaction:
                if table not in relations:
                    raise tables.unknown(table, document, "steps", str(number), "given", table)


def _needed(
    project: Project, example: Example, relations: Mapping[str, Relation], tables: _Tables, spark: Any
) -> list[ViewDefinition]:
    """The views that a test names, and those that they read."""
    from headrace.engine.compile import Compiler
    from headrace.engine.functions import functions_of
    from headrace.engine.plan import without_tables

    compilation = Compiler(spark, functions_of(project)).compile(relations, project.views, {})
    compilation = without_tables(compilation, tables.sources, tables.missing)
    wanted = {view for step in example.steps for view in (*step.expected, *step.failing)}
    pending = list(wanted)
    while pending:
        name = pending.pop()
        if name in compilation.refused:
            raise compilation.refused[name]
        above = [read for read in compilation.views[name].reads if read in compilation.views and read not in wanted]
        wanted |= set(above)
        pending += above
    return [view for view in project.views if view.name in wanted]


def _stepped(pipeline: Pipeline, step: ExampleStep, document: Document, number: int) -> dict[str, Any]:
    at = ("steps", str(number))
    if step.restart:
        pipeline.restart()
    now = _now(document, step.now, *at, "now")
    given = step.given or ({},)  # time may pass, or a failed view be tried again, without a row
    from headrace.testing.stepped import ClockSetBack

    try:
        _at(lambda: pipeline.steps(given, now=now), document, *at, "given")
    except ClockSetBack as back:
        raise document.invalid(
            f"'now' lies before what the clock has shown ({back})", *at, "now",
            next="each `now` is later than that before it; one at the top of the file is what the clock begins at",
        ) from back  # fmt: skip
    errors = pipeline.errors()
    views = []
    for view, rows in step.expected.items():
        found = _at(partial(pipeline.differences, view, rows), document, *at, "expect", view)
        error = None if view in step.failing else pipeline.failure(view)
        entry = {"view": view, "missing": _shown(found, -1), "unexpected": _shown(found, 1), "error": error}
        views.append({**entry, "passed": not found and error is None})
    for view in sorted(set(step.failing) | (errors.keys() - step.expected.keys())):
        if (view in step.failing) != (view in errors):
            why = pipeline.failure(view) or "its SQL throws on no row, though the test says so"
            views.append({"view": view, "missing": [], "unexpected": [], "error": why, "passed": False})
    line = document.place(*at)
    return {"step": step.name, "where": line, "passed": all(view["passed"] for view in views), "views": views}


def _shown(found: Sequence[Any], sign: int) -> list[dict[str, Any]]:
    from headrace.formats.types.spelled import value

    return [{"row": value(u.row), "times": abs(u.times)} for u in found if u.times * sign > 0][:FIRST]


def _now(document: Document, now: Any, *at: str) -> Any:
    """A time of the file as the test kit takes it."""
    from headrace.formats.types.arrow import to_arrow
    from headrace.formats.types.json import exact_rule

    try:
        return None if now is None else exact_rule(to_arrow("timestamp"))(now)
    except ValueError as error:
        raise document.invalid(f"'now' {error}", *at) from None


def _at(work: Callable[[], T], document: Document, *at: str) -> T:
    """Do it; an error gets the place in the test's file beside its own."""
    try:
        return work()
    except HeadraceError as error:
        where = ", ".join(part for part in (document.place(*at), error.where) if part)
        raise HeadraceError(error.code, error.what, where=where, why=error.why, next=error.next) from error
