"""headrace demo"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption

EPILOG = """
headrace demo                    # until Ctrl-C
headrace demo --seconds 30       # ends by itself
headrace demo --rate 200 --path /tmp/shop
"""
FOLDER = Path("var") / "demo"


def run(
    *,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", min=0, help="How long. Default: until Ctrl-C.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0.1, max=5000, help="Transactions a second. Default: 75.")
    ] = 75.0,
    path: Annotated[
        Path, typer.Option("--path", metavar="DIR", help=f"The project's folder, made anew. Default: {FOLDER}.")
    ] = FOLDER,
    keep: Annotated[bool, typer.Option("--keep", help="Go on with the project that an earlier demo left.")] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another seed is another shop. Default: 1.")] = 1,
    json: JsonOption = False,
) -> None:
    """Watch a small shop: transactions come in, four views follow.

    Starts `headrace up` on a project of its own, pushes orders, payments, clicks and impressions to it over HTTP,
    and shows the views, the rate and the latency. At the end every view is compared with Spark batch on the same
    log, and with the DuckDB file it was delivered to. Exit status 0 means: 0 differences.
    """
    from headrace.demo import run as demo

    try:
        summary = demo.run(demo.Options(path, keep, rate, seconds, seed, json))
    except KeyboardInterrupt:
        display.say("interrupted before the proof", error=True)
        raise typer.Exit(130) from None
    if json:
        display.emit(summary)
    else:
        _tell(summary, path)
    if not summary["ok"]:
        raise typer.Exit(1)


def _tell(summary: Mapping[str, Any], path: Path) -> None:
    """The proof as text: a line a view, then the verdict."""
    names = ("view", "rows", "verify", "duckdb_file", "subscriber")
    checks = ("differences", "duckdb_differences", "followed_differences")
    items = []
    for view in summary["views"]:
        found = {name: f"{view[check]:,} differences" for name, check in zip(names[2:], checks, strict=True)}
        items.append({"view": view["view"], "rows": view["rows"], **found})
    display.say("\nheadrace verify, and the same for the DuckDB file and for what a subscriber kept:\n")
    display.records(names, items)
    latency = summary["latency_ms"]
    display.say(
        f"\n{summary['transactions']:,} transactions with {summary['rows']:,} rows in {summary['seconds']:.0f} s"
        f" ({summary['rate']:.0f} a second); push to view p50 {latency['p50']} ms, p99 {latency['p99']} ms;"
        f" first view after {summary['first_view_s']} s"
    )
    rows = sum(view["rows"] for view in summary["views"])
    verdict = f"{display.counted(summary['differences'], 'difference')} in {rows:,} rows of {len(items)} views"
    if summary["missing"]:
        verdict += f"; not verified: {', '.join(summary['missing'])}"
    if summary["exit_status"] != 0:
        verdict += f"; `headrace up` ended with exit status {summary['exit_status']}"
    display.say(display.paint(verdict, "green" if summary["ok"] else "bold red"))
    display.say(f"look further: headrace up --project {path}")
