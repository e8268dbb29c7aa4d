"""What the operators of a running project have done so far: rows of the last step and of all, and their state.

Each step's tally is added up here as it comes, and put together with a view's operators only where somebody asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.circuit.build import TABLE
from headrace.circuit.explain import inputs
from headrace.circuit.levels import over
from headrace.circuit.node import Expand, Loop, Node, Project, Union
from headrace.circuit.work import Operator, Tally
from headrace.engine.program import SHARED, Frames, Program
from headrace.engine.unroll import LOOP, as_feed, named, without_loops
from headrace.engine.work import below

Size = tuple[int, int, int]  # of an arrangement: runs, rows, bytes
Rows = dict[str, int | None]  # "last" and "sum"
UNKNOWN: Rows = {"last": None, "sum": None}


@dataclass(slots=True)
class Counter:
    """Rows of one operator: ``last`` of step ``step``; None where Spark made them uncounted, for good in the sum."""

    step: int = 0
    last: int | None = 0
    sum: int | None = 0

    def add(self, step: int, rows: int | None) -> None:
        self.step, self.last = step, rows
        self.sum = None if rows is None or self.sum is None else self.sum + rows


@dataclass(slots=True)
class Counted:
    """Written by the engine's thread, read by any. ``since``: circuit -> the commit from which on it is counted."""

    passed: dict[str, Counter] = field(default_factory=dict)
    read: dict[str, Counter] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)  # circuit -> the last step that it ran in

    def add(self, step: int, after: int, tally: Tally) -> None:
        """Work: an addition for each operator that had rows."""
        for into, rows in ((self.passed, tally.passed), (self.read, tally.read)):
            for key, count in rows.items():
                into.setdefault(key, Counter()).add(step, count)
        for key in tally.unseen:
            self.passed.setdefault(key, Counter()).add(step, None)
        for circuit in {key.rsplit("/", 2)[0] for key in tally.passed}:
            self.steps[circuit] = step
            self.since.setdefault(circuit, after)

    def keep_only(self, circuits: Iterable[str]) -> None:
        """Let go of what has been counted of any other circuit."""
        there = frozenset(circuits)
        for of in (self.since, self.steps):
            for circuit in of.keys() - there:
                del of[circuit]
        for counters in (self.passed, self.read):
            for key in [key for key in counters if key.rsplit("/", 2)[0] not in there]:
                del counters[key]


def counted(
    root: Node, feed: str, program: Program, frames: Frames, counts: Counted, sizes: Mapping[str, Size]
) -> tuple[int | None, list[dict[str, Any]]]:
    """(the commit from which on a view is counted, for each node of ``root.walk()`` its ``rows`` and ``arrangements``).

    ``rows``: ``in``, ``out`` and ``read``, each with ``last`` and ``sum``. A recursive query's are those of all levels.
    """
    circuits = below(program, feed)
    made: dict[str, list[Operator]] = defaultdict(list)
    for circuit in circuits:
        for operator in frames.operators[circuit]:
            made[operator.key.rsplit("/", 2)[1]].append(operator)
    since = counts.since.get(feed)
    step = max((counts.steps.get(circuit, 0) for circuit in circuits), default=0)
    entries, outs = list[dict[str, Any]](), list[Rows]()
    children = inputs(root)
    for place, (node, forms) in enumerate(formed(root, frames.operators.keys())):
        operators = [operator for form in forms for operator in taken(form, made)]
        below_it = [outs[child] for child in children[place]]
        given = total(below_it)
        out = total(_rows(counts.passed.get(o.key), step) for o in operators)
        if isinstance(node, Project | Union):  # these pass on what they get, counted or not
            out = given
        elif isinstance(node, Expand):
            out = {name: rows and rows * len(node.projections) for name, rows in given.items()}
        outs.append(out)
        read = total(_rows(counts.read.get(o.key), step) for o in operators)
        rows = {"in": given if children[place] else out, "out": out, "read": read}
        names = dict.fromkeys(name for operator in operators for name in operator.arrangements)
        entries.append({
            "rows": rows if since is not None else dict.fromkeys(rows, UNKNOWN),
            "arrangements": [_arrangement(name, feed, frames.owners, sizes[name]) for name in names if name in sizes],
        })  # fmt: skip
    return since, entries


def formed(root: Node, circuits: Iterable[str]) -> Iterator[tuple[Node, list[Node]]]:
    """Each node of ``root.walk()`` as circuits have it: with feeds in the place of loops, once for each level it is of.

    ``circuits``: the names of those there are.
    """
    there = frozenset(circuits)

    def walk(node: Node, forms: list[Node]) -> Iterator[tuple[Node, list[Node]]]:
        if isinstance(node, Loop):
            loops = [form for form in forms if isinstance(form, Loop)]
            yield from walk(node.anchor, [loop.anchor for loop in loops])
            levels = [over(loop.body, level) for loop in loops for level in levels_before(loop, there)]
            yield from walk(node.body, levels)
        else:
            for place, child in enumerate(node.children):
                yield from walk(child, [form.children[place] for form in forms])
        yield node, [without_loops(form) for form in forms]

    yield from walk(root, [root])


def levels_before(loop: Loop, circuits: frozenset[str]) -> Iterator[str]:
    """The levels of a loop that its next levels read."""
    name, level = as_feed(loop).relation.rpartition(":")[0], 1
    while named(name, level) in circuits:
        yield named(name, level - 1)
        level += 1


def taken(form: Node, made: Mapping[str, list[Operator]]) -> list[Operator]:
    """The operator of a node; what was made for equal nodes is taken in turn, of a shared one where it is made."""
    found = made.get(form.fingerprint, [])
    shared = [o for o in found if o.key.startswith(f"{SHARED}{form.fingerprint}/")]
    if shared or len(found) < 2:
        return shared or found
    found.append(found.pop(0))
    return found[-1:]


def total(rows: Iterable[Rows]) -> Rows:
    every = list(rows)
    return {name: None if any(of[name] is None for of in every) else sum(of[name] or 0 for of in every)
            for name in ("last", "sum")}  # fmt: skip


def _rows(counter: Counter | None, step: int) -> Rows:
    """``step``: the last one that reached the view."""
    if counter is None:
        return {"last": 0, "sum": 0}
    return {"last": counter.last if counter.step == step else 0, "sum": counter.sum}


def _arrangement(name: str, feed: str, owners: Mapping[str, str], size: Size) -> dict[str, Any]:
    runs, rows, length = size
    owner = owners.get(name, "")
    if name.startswith(TABLE):
        of = f"table {name.removeprefix(TABLE)}"
    elif owner.startswith(SHARED):
        of = "a shared subquery"
    elif owner.startswith(LOOP):
        of = "a recursive query"
    else:
        of = "this view" if owner in (feed, "") else f"view {owner.rpartition('@')[0]}"
    return {"name": name, "rows": rows, "bytes": length, "runs": runs, "of": of}
