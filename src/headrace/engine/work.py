"""What each operator of each view did in a step: rows in, rows out, rows of kept state read, rows kept."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.circuit.work import Operator, Tally
from headrace.engine.compile import Compiled
from headrace.engine.kept import Kept
from headrace.engine.program import Frames, Program
from headrace.state.run import copies

Work = dict[str, dict[str, dict[str, int]]]


def work(views: Mapping[str, Compiled], program: Program, frames: Frames, tally: Tally, kept: Kept) -> Work:
    """View -> operator -> ``rows_in``, ``rows_out``, ``rows_probed``, ``state_rows``; what is below comes first.

    A view's operators are those of its tables, of the subqueries that it shares with others, and its own. Of equal
    names the second is ``NAME 2``, and so on. ``state_rows``: what the operator keeps or reads of what is kept, copies
    counted.
    """
    sizes = {name: sum(map(copies, paths)) for name, paths in kept.paths().items()}
    return {
        name: named([o for circuit in below(program, view.feed) for o in frames.operators[circuit]], tally, sizes)
        for name, view in views.items()
    }


def below(program: Program, feed: str) -> list[str]:
    """The circuits that make a view, in the order of the program; not those of views that it reads."""
    wanted, found = {feed}, list[str]()
    for circuit in reversed(program.circuits):
        if circuit.name in wanted:
            found.append(circuit.name)
            wanted |= {i for i in circuit.inputs if not program.circuit(i).is_view}
    return found[::-1]


def named(operators: list[Operator], tally: Tally, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for operator in operators:
        name, count = operator.name, 1
        while name in found:
            count += 1
            name = f"{operator.name} {count}"
        out = tally.passed[operator.key]
        found[name] = {
            "rows_in": sum(tally.passed[key] for key in operator.inputs) if operator.inputs else out,
            "rows_out": out,
            "rows_probed": tally.read[operator.key],
            "state_rows": sum(sizes.get(name, 0) for name in set(operator.arrangements)),
        }
    return found
