"""A failing program made smaller: the one view, fewer steps, fewer changes, less SQL, and fewer changes again."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from histories import History, Schedule, StepPlan, Table, history_document, read_history, without
from pieces import Piece, piece, smaller
from programs import Failure, Generated, Running, compile_views

REGRESSIONS = Path(
    os.environ.get("HEADRACE_LAWS_REGRESSIONS", Path(__file__).resolve().parent.parent / "laws" / "regressions")
)
TOGETHER = 12  # queries tried as views of one program
SECONDS = float(os.environ.get("HEADRACE_GENERATED_SHRINK_S", "300"))


@dataclass
class Shrinking:
    """Bound to a session and a folder; gives up when its seconds are over, with what it has by then."""

    spark: Any
    folder: Path
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds
        self.places = (self.folder / f"shrink{n}" for n in itertools.count())

    def smallest(self, program: Generated, failure: Failure) -> tuple[Generated, Failure]:
        """The smallest program found that still fails at that view, and how it fails; itself if none smaller does."""
        if failure.view not in program.views:  # a sub-query of several views: which they are is left to the reader
            return program, failure
        kept = None
        for smaller_program in (upto(program, failure.commit), program):
            trial = replace(smaller_program, views=upstream(program, failure.view))
            shown = self.fails(trial, failure.view)
            if shown is not None:
                kept = (trial, shown)
                break
        if kept is None:
            kept = self.fewer_views(program, failure)
        whole, began = self.until, time.monotonic()
        self.until = began + (whole - began) * 0.5
        kept = self.less_sql(*kept)
        self.until = whole
        kept = self.fewer_changes(*kept)
        return self.fewer_changes(*self.less_sql(*kept))

    def fewer_views(self, program: Generated, failure: Failure) -> tuple[Generated, Failure]:
        """Without as many of the other views as can go, when it does not fail alone: halves, quarters, one by one."""
        program = replace(program, compilation=None)
        needed = upstream(program, failure.view)
        parts = 2
        while time.monotonic() < self.until:
            others = [n for n in program.views if n not in needed]
            gone = False
            for part in range(min(parts, len(others))):
                out = set(others[part * len(others) // parts : (part + 1) * len(others) // parts])
                out |= {n for n in others if out & upstream(program, n).keys()}
                trial = replace(program, views={n: p for n, p in program.views.items() if n not in out})
                shown = self.fails(trial, failure.view) if out else None
                if shown is not None:
                    program, failure, gone = trial, shown, True
                    break
            if not gone and parts >= len(others):
                break
            parts = parts if gone else parts * 2
        return program, failure

    def running(self, program: Generated) -> Running:
        compilation = compile_views(self.spark, program.tables, program.views)
        return Running(self.spark, program.tables, compilation, next(self.places))

    def fails(self, program: Generated, view: str) -> Failure | None:
        return self.shown(self.running(program), view, program.plan, program.steps)

    def shown(self, running: Running, view: str, plan: Schedule, steps: History) -> Failure | None:
        return next((f for f in running.run(plan, steps, last=True).failures if f.view == view), None)

    # -- history --------------------------------------------------------------------------------------------

    def fewer_changes(self, program: Generated, failure: Failure) -> tuple[Generated, Failure]:
        """Cuts in the history and its schedule, with the plans made once."""
        running = self.running(program)
        unread = only(program.steps, {t for view in running.views.values() for t in view.reads})
        shown = self.shown(running, failure.view, program.plan, unread)
        if shown is not None:
            program, failure = replace(program, steps=unread), shown
        again = True
        while again and time.monotonic() < self.until:
            again = False
            for plan, steps in cuts(program.plan, program.steps):
                if time.monotonic() > self.until:
                    break
                shown = self.shown(running, failure.view, plan, steps)
                if shown is not None:
                    program, failure, again = replace(program, plan=plan, steps=steps), shown, True
                    break
        used = {c.table for transactions in program.steps for changes in transactions for c in changes}
        words = " ".join(map(str, program.views.values())).split()
        return replace(program, tables=tuple(t for t in program.tables if t.name in used or t.name in words)), failure

    # -- SQL ------------------------------------------------------------------------------------------------

    def less_sql(self, program: Generated, failure: Failure) -> tuple[Generated, Failure]:
        """Cuts in the text of each view, the failing one first; many candidates are views of one program."""
        for name in [failure.view, *(n for n in program.views if n != failure.view)]:
            again = True
            while again and time.monotonic() < self.until:
                again = False
                candidates = smaller(program.views[name])
                for start in range(0, len(candidates), TOGETHER):
                    if time.monotonic() > self.until:
                        break
                    found = self.first(program, failure.view, name, candidates[start : start + TOGETHER])
                    if found is not None:
                        program, failure = found
                        again = True
                        break
        alone = replace(program, views=upstream(program, failure.view))
        shown = self.fails(alone, failure.view) if len(alone.views) < len(program.views) else None
        return (program, failure) if shown is None else (alone, shown)

    def first(
        self, program: Generated, view: str, name: str, candidates: list[Piece]
    ) -> tuple[Generated, Failure] | None:
        """The first candidate for the text of view ``name`` with which ``view`` still fails."""
        if name != view:
            return next(filter(None, (self.tried(program, view, name, c) for c in candidates)), None)
        others = {n: p for n, p in program.views.items() if n != view}
        if others.keys() - upstream(program, view).keys():  # what stands beside it matters: one at a time
            return next(filter(None, (self.tried(program, view, name, c) for c in candidates)), None)
        made = {f"{view}_{n}": candidate for n, candidate in enumerate(candidates)}
        try:
            trial = self.running(replace(program, views={**others, **made}))
            outcome = trial.run(program.plan, program.steps, last=True)
        except Exception:
            return next(filter(None, (self.tried(program, view, name, c) for c in candidates)), None)
        if outcome.throwing or any("@" in f.view or f.view not in made for f in outcome.failures):
            return next(filter(None, (self.tried(program, view, name, c) for c in candidates)), None)
        for n, candidate in made.items():
            for failure in outcome.failures:
                if failure.view == n:
                    return replace(program, views={**others, view: candidate}), replace(failure, view=view)
        return None

    def tried(self, program: Generated, view: str, name: str, text: Piece) -> tuple[Generated, Failure] | None:
        trial = replace(program, views={**program.views, name: text})
        try:
            failure = self.fails(trial, view)
        except Exception:
            return None
        return None if failure is None else (trial, failure)


def upstream(program: Generated, view: str) -> dict[str, Piece]:
    """The view and those it reads, in the program's order."""
    wanted = {view}
    for name in reversed(list(program.views)):
        if name in wanted:
            words = set(str(program.views[name]).replace("(", " ").split())
            wanted |= {n for n in program.views if n in words}
    return {n: p for n, p in program.views.items() if n in wanted}


def cuts(plan: Schedule, steps: History) -> Iterator[tuple[Schedule, History]]:
    """Smaller schedules and histories: without a step, a transaction, an emptying; plainer steps; fewer changes."""
    total = sum(len(changes) for transactions in steps for changes in transactions)
    if total > 8:
        for parts in (2, 4, 8, 16):
            for part in range(parts):
                yield plan, _without_part(steps, part * total // parts, (part + 1) * total // parts)
    for n in reversed(range(len(plan))):
        if len(plan) > 1:
            yield (*plan[:n], *plan[n + 1 :]), (*steps[:n], *steps[n + 1 :])
    for n, step in enumerate(plan):
        for simpler in _plainer(step):
            yield (*plan[:n], simpler, *plan[n + 1 :]), steps
        for k in range(len(step.truncates)):
            if len(step.truncates) > 1:
                fewer = replace(step, truncates=(*step.truncates[:k], *step.truncates[k + 1 :]))
                transactions = (*steps[n][:k], *steps[n][k + 1 :])
                yield (*plan[:n], fewer, *plan[n + 1 :]), (*steps[:n], transactions, *steps[n + 1 :])
    for smaller_steps in without(steps):
        yield plan, smaller_steps


def only(steps: History, tables: Collection[str]) -> History:
    """Without the changes of other tables."""
    return tuple(tuple(tuple(c for c in tx if c.table in tables) for tx in transactions) for transactions in steps)


def _without_part(steps: History, start: int, stop: int) -> History:
    """Without the changes of these numbers, counted through the whole history."""
    numbers = itertools.count()
    return tuple(
        tuple(tuple(c for c in changes if not start <= next(numbers) < stop) for changes in transactions)
        for transactions in steps
    )


def upto(program: Generated, commit: int) -> Generated:
    """The program's history as far as a commit; all of it for commit 0."""
    plan, steps, left = [], [], commit or sum(len(step.truncates) for step in program.plan)
    for step, transactions in zip(program.plan, program.steps, strict=True):
        if left > 0:
            plan.append(replace(step, truncates=step.truncates[:left]))
            steps.append(transactions[:left])
        left -= len(step.truncates)
    return replace(program, plan=tuple(plan), steps=tuple(steps))


def _plainer(step: StepPlan) -> Iterator[StepPlan]:
    if any(before or after for before, after in step.truncates):
        yield replace(step, truncates=tuple(((), ()) for _ in step.truncates))
    if step.wide:
        yield replace(step, wide=False)
    if step.instants == "each":
        yield replace(step, instants="one")


# -- kept failures --------------------------------------------------------------------------------------------


def described(program: Generated, failure: Failure, seed: str) -> str:
    """A failing program as a person reads it."""
    lines = [f"HEADRACE_SEED={seed}: {failure.what}"]
    for table in program.tables:
        columns = ", ".join(f"{n} {t}" for n, t in table.columns.items())
        lines.append(f"  table {table.name}({columns}){f' key {table.key}' if table.key else ''}")
    lines += [f"  view {name}: {text}" for name, text in program.views.items()]
    for number, (step, transactions) in enumerate(zip(program.plan, program.steps, strict=True)):
        lines.append(f"  step {number}: {'wide' if step.wide else 'narrow'}, instants {step.instants}")
        for k, ((before, after), changes) in enumerate(zip(step.truncates, transactions, strict=True)):
            lines += [f"    {k}: TRUNCATE {name}" for name in before]
            lines += [f"    {k}: {c.table} {c.operation} {c.row} {sorted(c.left_out) or ''}" for c in changes]
            lines += [f"    {k}: TRUNCATE {name}" for name in after]
    lines.append(f"  view {failure.view} after commit {failure.commit}:")
    lines += [f"    only in batch: {row}" for row in failure.expected[:8]]
    lines += [f"    only in the view: {row}" for row in failure.found[:8]]
    return "\n".join(lines)


def save(program: Generated, failure: Failure, seed: str) -> Path:
    """Keep a failing program, to be run before anything random from now on."""
    document = {
        "seed": seed,
        "query": failure.view,
        "what": failure.what.rstrip().splitlines()[-1],  # of a traceback the error: it is full of paths
        "tables": {
            t.name: {"columns": dict(t.columns), "key": list(t.key)}
            for t in program.tables
        },
        "views": {name: str(text) for name, text in program.views.items()},
        "schedule": [asdict(step) for step in program.plan],
        "history": history_document(program.steps),
    }  # fmt: skip
    text = json.dumps(document, indent=1)
    REGRESSIONS.mkdir(parents=True, exist_ok=True)
    path = REGRESSIONS / f"generated.{blake2b(text.encode(), digest_size=4).hexdigest()}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read(path: Path) -> Generated:
    """A kept program."""
    document: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    tables = tuple(
        Table(name, table["columns"], {}, tuple(table["key"]), cased=False)
        for name, table in document["tables"].items()
    )
    plan = tuple(
        StepPlan(s["wide"], s["instants"], tuple((tuple(b), tuple(a)) for b, a in s["truncates"]))
        for s in document["schedule"]
    )
    views = {name: piece("query", sql) for name, sql in document["views"].items()}
    return Generated(tables, views, plan, read_history(document["history"], tables))
