"""docs/reference/benchmarks.md from the runs that were kept; nothing on it is written by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workload import Figure, Workload
from benchmarks.workloads import WORKLOADS

HEAD = """# Benchmarks

<!-- Written by `make bench` from what it measured; edit benchmarks/workloads.py, not this page. -->

Each figure is of one machine, by the command under its table: where rounds are told there, the median of so many runs
of it, with the least and the most beside. "Load" is the number of processes that wanted a core when a line was printed:
beside other work what the clock says is worse than the machine is, what a processor's time says hardly. A goal is
judged at the size that it is asked for and at no other; one of at most 0 has to hold in every round.
[Figures](figures.md) has what was measured one by one, and why it is so."""
OURS = "headrace"
EQUAL, UNTOLD = "the answer equals DuckDB's", "the answer was not compared"


@dataclass(frozen=True)
class Run:
    """One run of a program, as it is kept: ``exit`` is its status, ``date`` when it began (UTC)."""

    workload: str
    command: str
    commit: str
    date: str
    cores: int
    exit: int
    lines: Sequence[Mapping[str, Any]]


def command(workload: Workload, arguments: Sequence[str] | None = None) -> str:
    """As somebody would type it; ``arguments`` in place of the workload's own."""
    module, *own = workload.command
    return " ".join(["python", "-m", module, *(own if arguments is None else arguments)])


def newest(runs: Sequence[Run]) -> dict[str, Run]:
    """The run of each workload that counts: the last one at its own size, or else the last one."""
    found: dict[str, Run] = {}
    for workload in WORKLOADS:
        every = sorted((run for run in runs if run.workload == workload.name), key=lambda run: run.date)
        whole = [run for run in every if run.command == command(workload)]
        if every:
            found[workload.name] = (whole or every)[-1]
    return found


def page(runs: Sequence[Run], plotted: Collection[str] = ()) -> str:
    """``plotted``: workloads that have a drawing, beside the page in ``benchmarks/NAME.svg``."""
    counting, parts = newest(runs), [HEAD]
    for workload in WORKLOADS:
        if workload.name in counting:
            parts.append("\n".join(_section(workload, counting[workload.name], workload.name in plotted)))
    missing = [w for w in WORKLOADS if w.name not in counting]
    if missing:
        parts.append("## Not measured yet\n\n" + "\n".join(f"- {w.title}: `{command(w)}`" for w in missing))
    return "\n\n".join(parts) + "\n"


def _section(workload: Workload, run: Run, plotted: bool) -> Iterator[str]:
    whole = run.command == command(workload)
    yield f"## {workload.title}\n"
    if not whole:
        asked = command(workload)
        yield f"**Not at that size:** these are figures of `{run.command}`; what is asked for is `{asked}`.\n"
    if run.exit:
        yield f"**The program ended with status {run.exit}: something was wrong, and no goal is met.**\n"
    if workload.figures:
        yield "| figure | measured | goal | |\n|---|---|---|---|"
        yield from (_row(f, run, whole) for f in workload.figures if _judged(f) or found(f, run))
    else:
        yield "| line | printed |\n|---|---|"
        yield from (_printed(line) for line in run.lines)
    if workload.pivot:
        yield from _pivot(*workload.pivot, run.lines)
    if workload.note:
        yield f"\n{workload.note}"
    if plotted:
        yield f"\n![{workload.title}](benchmarks/{workload.name}.svg)"
    loads = sorted({line["load"] for line in run.lines if "load" in line})
    load = f", load {' to '.join(f'{each:g}' for each in dict.fromkeys((loads[0], loads[-1])))}" if loads else ""
    rounds = f", {len(_rounds(run))} rounds" if len(_rounds(run)) > 1 else ""
    yield f"\n`{run.command}`{rounds}, {run.cores} cores{load}, {_when(run)}."


def _when(run: Run) -> str:
    """The commits that were measured and the days; of lines that were kept, those that they tell themselves."""
    commits = dict.fromkeys(line.get("commit", run.commit) for line in run.lines if "engine" in line) or [run.commit]
    days = sorted({line.get("date", run.date)[:10] for line in run.lines if "engine" in line} or {run.date[:10]})
    return f"commit {', '.join(commits)}, {' to '.join(dict.fromkeys((days[0], days[-1])))}"


def _pivot(rows: str, columns: str, cells: str, lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table of the medians of what lines with all three keys say, and how many times the first column is of each;
    below it whose answers were equal, and what was refused."""
    of_row: dict[Any, dict[Any, list[Mapping[str, Any]]]] = {}
    for line in _ours_first(lines, columns):
        if line.keys() >= {rows, columns}:
            of_row.setdefault(line[rows], {}).setdefault(line[columns], []).append(line)
    heads = list(dict.fromkeys(column for of in of_row.values() for column in of))
    yield f"\n| {rows} | {' | '.join(heads)} |\n|---{'|---:' * len(heads)}|"
    for name, of in sorted(of_row.items(), key=lambda item: (len(item[0]), item[0])):  # q2, then q10
        yield f"| {name} | {' | '.join(_raced(of, head, heads[0], cells) for head in heads)} |"
    for head in heads[1:]:
        column = {name: of[head] for name, of in of_row.items() if head in of}
        yield f"\n{head}: {'; '.join(_answered(column, cells))}."


def _ours_first(lines: Sequence[Mapping[str, Any]], engine: str) -> list[Mapping[str, Any]]:
    """The lines in their order, ours before those of others; ``engine``: the key that says whose they are."""
    return sorted(lines, key=lambda line: line.get(engine) != OURS)


def _raced(of: Mapping[Any, Sequence[Mapping[str, Any]]], head: Any, first: Any, cells: str) -> str:
    lines = of.get(head, ())
    values, firsts = ([line[cells] for line in of.get(column, ()) if cells in line] for column in (head, first))
    if not values:
        return "" if not lines else "refused" if any("refused" in line for line in lines) else "failed"
    times = f" ({median(firsts) / median(values):.2f})" if head != first and firsts else ""
    differs = ", **differs**" if any(line.get("equal") is False for line in lines) else ""
    return f"{median(values):,.0f}{times}{differs}"


def _answered(column: Mapping[Any, Sequence[Mapping[str, Any]]], cells: str) -> Iterator[str]:
    """Which rows of a column have answers that equal DuckDB's, and why others have not."""
    told: dict[str, list[str]] = {}
    for name, lines in column.items():
        said = [line["equal"] for line in lines if "equal" in line]
        why = next((line["why"] for line in lines if "why" in line), "")
        if refused := next((line["refused"] for line in lines if "refused" in line), ""):
            told.setdefault(f"refused, {refused.partition('. ')[0].rstrip('.;')}", []).append(name)
        elif False in said or True in said:
            told.setdefault("**the answer differs from DuckDB's**" if False in said else EQUAL, []).append(name)
        elif any(cells in line for line in lines):
            told.setdefault(f"the answer cannot be held to DuckDB's, {why}" if said else UNTOLD, []).append(name)
    for verdict in sorted(told, key=lambda verdict: (verdict != EQUAL, verdict)):
        names = f"all {len(told[verdict])}" if len(told) == 1 else ", ".join(told[verdict])
        yield f"{names}: {verdict}"


def found(figure: Figure, run: Run) -> list[Any]:
    """The figure's value in the last line that has it, of each round that has one. Of a list or table: how many."""
    return [value for lines in _rounds(run) if (value := _value(figure, lines)) is not None]


def _rounds(run: Run) -> list[list[Mapping[str, Any]]]:
    """The lines of each round."""
    of_round: dict[int, list[Mapping[str, Any]]] = {}
    for line in run.lines:
        of_round.setdefault(line.get("round", 1), []).append(line)
    return list(of_round.values())


def _value(figure: Figure, lines: Sequence[Mapping[str, Any]]) -> Any:
    for line in reversed(lines):
        value: Any = line
        for key in figure.key.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and all(line.get(key) == wanted for key, wanted in figure.where.items()):
            return value
    return None


def met(figure: Figure, value: float) -> bool:
    """Whether a value is within the figure's goal."""
    return (figure.most is None or value <= figure.most) and (figure.least is None or value >= figure.least)


def _judged(figure: Figure) -> bool:
    return figure.most is not None or figure.least is not None


def _row(figure: Figure, run: Run, whole: bool) -> str:
    values = found(figure, run)
    bounds = (("at most", figure.most), ("at least", figure.least))
    goal = ", ".join(f"{word} {shown(bound, figure.unit)}" for word, bound in bounds if bound is not None)
    if not values:
        return f"| {figure.label} | not measured | {goal} | **not measured** |"
    if any(isinstance(value, str) for value in values):
        return f"| {figure.label} | {', '.join(dict.fromkeys(values))} |  |  |"
    counts = max(values) if figure.most == 0 else round(median(values), 3)
    verdict = "" if not goal else "not judged at this size"
    if goal and (whole or run.exit):
        verdict = "met" if met(figure, counts) and not run.exit else "**missed**"
    least, most = (shown(value, figure.unit).partition(" ")[0] for value in (min(values), max(values)))
    spread = f" ({least} to {most})" if least != most else ""
    return f"| {figure.label} | {shown(counts, figure.unit)}{spread} | {goal} | {verdict} |"


def shown(value: float, unit: str = "") -> str:
    """A number as a reader wants it, bytes in MiB."""
    if unit == "bytes":
        value, unit = round(value / (1 << 20), 1), "MiB"
    return f"{value:,} {unit}".strip()


def _printed(line: Mapping[str, Any]) -> str:
    name = line.get("benchmark") or line.get("name") or ""
    scalars = {k: v for k, v in line.items() if isinstance(v, int | float | str) and v != name and k != "load"}
    return (
        f"| {name} | {', '.join(f'{k} {v:,}' if not isinstance(v, str) else f'{k} {v}' for k, v in scalars.items())} |"
    )


def draw(runs: Sequence[Run], folder: Path) -> list[str]:
    """A drawing of the last round of each workload that has one, as ``folder/NAME.svg``; the names of those."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "headrace", "figure.constrained_layout.use": True, "font.size": 9}
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, run in newest(runs).items():
        if run.exit or name not in DRAWINGS:
            continue
        figure, axes = pyplot.subplots(figsize=(6, 2.8))
        DRAWINGS[name](axes, run)
        axes.set_ylim(bottom=0 if axes.get_yscale() == "linear" else None)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        pyplot.close(figure)
        drawn.append(name)
    return drawn


def _over_time(axes: Any, run: Run) -> None:
    seconds, median, most = zip(*run.lines[-1]["series"], strict=True)
    axes.plot(seconds, most, label="99 of 100")
    axes.plot(seconds, median, label="median")
    axes.set(xlabel="second", ylabel="ms, acknowledged to published")
    axes.legend()


def _by_views(axes: Any, run: Run) -> None:
    lines = [line for line in _rounds(run)[-1] if line["benchmark"] == "many"]
    axes.bar([str(line["views"]) for line in lines], [line["median_ms"] for line in lines])
    axes.set(xlabel="views", ylabel="ms, median step")


def _by_share(axes: Any, run: Run) -> None:
    lines = [line for line in _rounds(run)[-1] if line["benchmark"] == "tpch refresh"]
    axes.bar([f"{line['share']:.2%}" for line in lines], [line["seconds"] for line in lines])
    for engine, style in (("spark", "-"), ("duckdb", ":")):
        axes.axhline(lines[-1][f"{engine}_s"], linestyle=style, color="black", label=f"{engine} anew")
    axes.set(xlabel="share of all rows that a refresh changes", ylabel="s", yscale="log")
    axes.legend()


def _by_query(axes: Any, run: Run) -> None:
    lines = [line for line in _ours_first(run.lines, "engine") if "per_second" in line]
    for engine, mark in zip(dict.fromkeys(line["engine"] for line in lines), "o^sD", strict=False):
        points = [(line["query"], line["per_second"]) for line in lines if line["engine"] == engine]
        axes.plot(*zip(*points, strict=True), mark, label=engine, markersize=4)
    axes.set(ylabel="events a second", yscale="log")
    axes.tick_params(axis="x", labelrotation=90)
    axes.legend()


DRAWINGS = {
    "latency": _over_time,
    "soak": _over_time,
    "many": _by_views,
    "tpch": _by_share,
    "nexmark": _by_query,
    "nexmark-1m": _by_query,
}
