"""A circuit in words: each operator's rule, what it keeps, what bounds that, and what a step costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.circuit import node
from headrace.circuit.appended import AppendAggregate, AppendSessions, AppendTopK
from headrace.circuit.moments import OF_ONE, OF_TWO
from headrace.circuit.operators import OPERATORS, join_operator, recursion, rejoined
from headrace.circuit.spelled import Names, Spelling

COSTS = {
    node.Join: "the change x its partners",
    node.Aggregate: "the change and its groups",
    node.OrderedAggregate: "the change, its groups and the logarithm of their values",
    AppendAggregate: "the change and its groups",
    node.Regroup: "the change and the rows of its groups",
    node.Loop: "the change, at each level it reaches",
    node.Sessions: "the change and the rows of its other group keys",
    AppendSessions: "the change and the sessions it meets",
    node.Window: "the change and the rows of its partitions",
    node.TopK: "the change x k",
    AppendTopK: "the change and the k rows of its partitions",
    node.Running: "the change x the reach of its frames",
    node.AsOf: "the change and the left rows from a changed right row to the next one",
    node.Limit: "the change and the rows up to the limit",
    node.Threshold: "the change and the rows that the compared value passes",
}
STATISTICS = frozenset({*OF_ONE, *OF_TWO})

NAMES = {
    node.Loop: "recursion",
    node.Feed: "read",
    node.Shared: "read",
    node.Regroup: "regroup",
    node.OrderedAggregate: "ordered aggregate",
    AppendAggregate: "aggregate of distinct values that only come",
    AppendSessions: "sessions of what only comes",
    node.TopK: "top-k",
    AppendTopK: "top-k of what only comes",
    node.Running: "running window",
    node.AsOf: "as-of join",
    node.Threshold: "filter by a value",
}


def operators(root: node.Node) -> list[str]:
    """Names of a view's operators in the order rows pass them, each once."""
    return list(dict.fromkeys(name(n) for n in root.walk()))


def name(of: node.Node) -> str:
    """The operator of a node, as people call it."""
    if isinstance(of, node.Join):
        return f"{of.kind} join" if of.left_keys else f"{of.kind} join of every pair"
    if isinstance(of, node.Aggregate) and not of.accumulations:
        return "distinct"
    return NAMES.get(type(of), type(of).__name__.lower())


def rule(of: node.Node) -> tuple[str, str]:
    """(delta rule, state) as the operator's own module states them."""
    if isinstance(of, node.Loop):
        text = recursion.__doc__ or ""
    elif isinstance(of, node.Join):
        text = join_operator(of).__doc__ or ""
    else:
        kind = node.Feed if isinstance(of, node.Feed) else type(of)
        text = sys.modules[OPERATORS[kind].__module__].__doc__ or ""
    first = text.strip().splitlines()[0] + exactness(of)
    _, _, after = text.partition("State:")
    state = " ".join(after.split("\n\n")[0].partition("See ``")[0].split())
    if isinstance(of, node.Join) and of.left_keys:
        state = rejoined.chosen(of, state)
    return first, state or "none."


def cost(of: node.Node) -> str:
    """What a step's work follows."""
    if isinstance(of, node.Join) and not of.left_keys:
        return "the change x the other side"
    if isinstance(of, node.Regroup) and not of.keys:
        return "all rows of its input, whenever one changes"
    if isinstance(of, node.Window) and not of.keys:
        return "all rows of its input, whenever one changes (on_change: recompute)"
    if isinstance(of, node.Running) and of.growing:
        return "the change and the rows after it in its partitions"
    return COSTS.get(type(of), "the change")


def bound(of: node.Node) -> str:
    """What bounds the state of an operator."""
    if not of.stateful:
        return "none"
    if isinstance(of, node.Threshold) and of.passes:
        return "the rows that the clock has yet to pass"
    groups = isinstance(of, node.Aggregate) and not isinstance(of, node.OrderedAggregate)
    return "its groups" if groups else "its input"


def exactness(of: node.Node) -> str:
    """What an aggregate of floating-point numbers means, where that is not what plain Spark answers."""
    if isinstance(of, node.Running):
        accumulations = tuple(g.accumulation for g in of.growing if g.accumulation is not None)
    else:
        accumulations = of.accumulations if isinstance(of, node.Aggregate) else ()
    rounded = [
        a.function for a in accumulations
        if a.function in STATISTICS
        or (a.function.removeprefix("try_") in ("sum", "avg") and a.arguments[0].type in ("float", "double"))
    ]  # fmt: skip
    names = ", ".join(dict.fromkeys(rounded))
    return f" {names}: the exact result over its rows, rounded once." if names else ""


def explain(
    view: str, sql: str, root: node.Node, sizes: Mapping[str, tuple[int, int, int]], relations: Mapping[str, Names],
    done: Sequence[Mapping[str, Any]] = (), since: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """``operators`` from the leaves up, each with the places of its ``inputs`` among them, and ``text`` as a tree.

    ``sizes``: arrangement -> (runs, rows, bytes); ``relations``: the column names of each feed that the view reads;
    ``done``: for each operator its ``rows`` and ``arrangements``, counted from the commit ``since`` on, see
    ``headrace.engine.counted``.
    """
    spelling = Spelling(relations)
    root = spelling.told_apart(root)
    entries, children = [], inputs(root)
    for place, of in enumerate(root.walk()):
        law, state = rule(of)
        entries.append(
            {
                "id": place,
                "inputs": children[place],
                "name": name(of),
                "detail": spelling.detail(of),
                "rule": law,
                "state": state if of.stateful else "none",
                "bound": bound(of),
                "cost": cost(of),
                **(done[place] if done else {}),
            }
        )
    rows, size = sum(r for _, r, _ in sizes.values()), sum(b for _, _, b in sizes.values())
    rest = "An operator without a rule of its own keeps nothing and costs the change."
    if since is not None:
        rest += f" Rows are those of the last step, in brackets of all steps after commit {since:,}."
    kept = f"All views together keep {rows:,} rows, {size:,} bytes."
    return {
        "view": view,
        "sql": sql,
        "operators": entries,
        "state": {"rows": rows, "bytes": size},
        "counted_from": since,
        "text": "\n".join([*tree(root, spelling, entries, len(entries) - 1, 0), "", f"{rest} {kept}"]),
    }


def inputs(root: node.Node) -> list[list[int]]:
    """For each node of ``root.walk()`` the places of its children there."""
    found = list[list[int]]()

    def walk(of: node.Node) -> int:
        below = [walk(child) for child in of.children]
        found.append(below)
        return len(found) - 1

    walk(root)
    return found


def tree(
    of: node.Node, spelling: Spelling, entries: Sequence[Mapping[str, Any]], place: int, depth: int
) -> list[str]:  # fmt: skip
    """An operator, with rule, state and cost where it keeps something, and below it those that it reads.

    Of each that is known: its rows of the last step and, in brackets, of all steps since they are counted.
    """
    law, state = rule(of)
    keeps = state if "ounded by" in state else f"{state} Bounded by {bound(of)}."
    told = [("rule", law), ("keeps", keeps), ("costs", cost(of))] if of.stateful else []
    told += done(entries[place])
    indent = "  " * depth
    lines = [f"{indent}{name(of)}  {spelling.detail(of)}".rstrip(), *(f"{indent}  | {k:<5}  {v}" for k, v in told)]
    for child, below in zip(of.children, entries[place]["inputs"], strict=True):
        lines += tree(child, spelling, entries, below, depth + 1)
    return lines


def done(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What an operator did and holds, where that is known."""
    lines = []
    if "rows" in entry and entry["rows"]["in"]["sum"] is not None:
        told = (f"{way} {_count(of['last'])} ({_count(of['sum'])})" for way, of in entry["rows"].items())
        lines.append(("rows", ", ".join(told)))
    for held in entry.get("arrangements", ()):
        lines.append(("holds", f"{held['rows']:,} rows, {held['bytes']:,} bytes, of {held['of']}"))
    return lines


def _count(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"
