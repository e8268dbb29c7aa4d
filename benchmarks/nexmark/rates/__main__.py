"""Every query of Nexmark by itself, from files to its last change: the product, and neighbours on the same files.

python -m benchmarks.nexmark.rates [--events 1000000] [--queries q0 q4] [--peers flink,pathway,spark,dbsp]
    [--rounds 1] [--keep FILE] [--cold]

Before each run the page cache is filled (``benchmarks.cached``), for neighbours as for us. A neighbour is installed
from its registry the first time, into an environment of its own beside the data. Each answer of ours is held to
DuckDB's over the same files before its figure counts; that of a neighbour is too, once for each query, and its line
says whether it is ``equal``. With ``--keep`` a race of hours may be run in parts: runs that the file has are not made
again, nor is a neighbour that has failed or that refuses the query. One JSON line a run; the last line tells the
geometric mean of the ratios and the slowest of ours, the one before it the same as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import cached
from benchmarks.nexmark.rates import stream, texts
from benchmarks.nexmark.rates.folded import compared
from benchmarks.nexmark.rates.neighbours import PEERS, YARDSTICK, commands
from benchmarks.report import commit
from benchmarks.watched import run

NO_FIGURE = {"failed", "refused"}
AS_TEXT = "strftime({0}, '%Y-%m-%d %H:%M:%S.%g') AS {0}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--queries", nargs="*", default=texts.names())
    parser.add_argument("--peers", default="", help=f"with commas: {','.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many runs")
    parser.add_argument("--keep", type=Path, help="file of JSON lines with the runs that were made, of any query")
    parser.add_argument("--cold", action="store_true", help="leave free memory free before a run")
    parser.add_argument("--folder", type=Path, default=Path("build/nexmark"), help="where data and neighbours lie")
    chosen = parser.parse_args()
    peers = [name for name in chosen.peers.split(",") if name]
    if unknown := set(peers) - PEERS.keys():
        parser.error(f"no neighbour is called {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if unknown := set(chosen.queries) - set(texts.names()):
        parser.error(f"no query is called {', '.join(sorted(unknown))}; there are {', '.join(texts.names())}")
    data = chosen.folder / str(chosen.events)
    stream.write(data, chosen.events)
    _answers(data, chosen.queries)
    if {"flink", "pathway", "dbsp"}.intersection(peers):
        _as_csv(data)
    kept = _kept(chosen.keep, chosen.events, chosen.queries, chosen.cold)
    for line in kept:
        print(json.dumps(line), flush=True)
    wrong, changes = 0, chosen.folder / "changes"
    for number in range(chosen.rounds):
        for query in chosen.queries:
            for engine, command in commands(query, data, chosen.events, peers, chosen.folder, changes):
                made = [line for line in kept if (line["query"], line["engine"]) == (query, engine)]
                if len(made) > number or (engine != "headrace" and any(line.keys() & NO_FIGURE for line in made)):
                    continue
                if not chosen.cold:
                    cached.fill(chosen.folder)
                line = {"benchmark": "nexmark", "query": query, "engine": engine} | _raced(command, changes)
                if engine != "headrace" and not any("equal" in line for line in made):
                    line |= compared(line, changes, data / "answers" / f"{query}.parquet")
                print(json.dumps(line), flush=True)
                wrong += bool(line.get("wrong"))
                if not line.get("wrong"):
                    told = {
                        "events": chosen.events,
                        "cold": chosen.cold,
                        "commit": commit(),
                        "date": f"{datetime.now(UTC):%F %T}",
                    }
                    kept.append(line | told)
                    _keep(chosen.keep, kept[-1])
    rates = {e: {q: _rates(kept, q, e) for q in chosen.queries} for e in ("headrace", *peers)}
    medians = {e: {q: statistics.median(r) for q, r in of.items() if r} for e, of in rates.items()}
    summary = _summary(medians, peers)
    print(json.dumps({"benchmark": "nexmark ratio", "events": chosen.events, "wrong": wrong} | summary), flush=True)
    print(_told(summary))
    return 1 if wrong else 0


def _kept(file: Path | None, events: int, queries: Collection[str], cold: bool) -> list[dict[str, Any]]:
    """The runs of these queries, in their order, at this size and with such a cache, that a file has."""
    if file is None or not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        line
        for query in queries
        for line in lines
        if (line["events"], line["cold"], line["query"]) == (events, cold, query)
    ]


def _keep(file: Path | None, line: dict[str, Any]) -> None:
    if file is not None:
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")


def _rates(lines: list[dict[str, Any]], query: str, engine: str) -> list[float]:
    made = (line for line in lines if (line["query"], line["engine"]) == (query, engine))
    return [line["per_second"] for line in made if "per_second" in line]


def _answers(data: Path, queries: list[str]) -> None:
    """What each view must hold, as DuckDB has it."""
    (data / "answers").mkdir(exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        for name in stream.RELATIONS:
            connection.execute(f"CREATE VIEW {name} AS FROM '{data}/{name}/*.parquet'")
        for query in queries:
            file = data / "answers" / f"{query}.parquet"
            if not file.exists():
                made = file.with_suffix(".tmp")
                connection.execute(f"COPY ({texts.text('duckdb', query)}) TO '{made}' (FORMAT parquet)")
                made.rename(file)


def _as_csv(data: Path) -> None:
    """The same files for who reads no Parquet: without a header for Flink, with one and milliseconds for the others."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        for file in sorted(data.glob("*/part-*.parquet")):
            columns = ["date_time", "expires"] if file.parent.name == "auction" else ["date_time"]
            # Pathway keeps the name ``id`` for itself.
            renamed = "" if file.parent.name == "bid" else " RENAME (id AS id_)"
            for kind, header, form in (("flink", "false", AS_TEXT), ("pathway", "true", "epoch_ms({0}) AS {0}")):
                into = data / kind / file.parent.name / f"{file.stem}.csv"
                if into.exists():
                    continue
                into.parent.mkdir(parents=True, exist_ok=True)
                changed = ", ".join(form.format(column) for column in columns)
                named = renamed if kind == "pathway" else ""
                rows = f"SELECT * REPLACE ({changed}){named} FROM '{file}'"
                connection.execute(f"COPY ({rows}) TO '{into}' (FORMAT csv, HEADER {header})")


def _raced(command: list[str], changes: Path) -> dict[str, Any]:
    """A run with its ``changes`` in an empty folder, where they stay until the next one."""
    shutil.rmtree(changes, ignore_errors=True)
    changes.mkdir(parents=True)
    return run(command)


def _summary(rates: dict[str, dict[str, float]], peers: list[str]) -> dict[str, Any]:
    """``mean``: our geometric mean, events a second; ``to_PEER``: of the ratios, ``least_PEER`` the least of them and
    ``least_PEER_query`` which; ``least``: that of all neighbours."""
    ours = rates.get("headrace", {})
    if not ours:
        return {}
    slowest = min(ours, key=lambda q: ours[q])
    told: dict[str, Any] = {
        "mean": round(_mean(ours.values())),
        "slowest": round(ours[slowest]),
        "slowest_query": slowest,
        "median": {query: round(rate) for query, rate in ours.items()},
    }
    ratios = {peer: {q: ours[q] / r for q, r in rates.get(peer, {}).items() if q in ours} for peer in peers}
    for peer, of in ratios.items():
        if of:
            least, query = min((ratio, query) for query, ratio in of.items())
            told |= {f"to_{peer}": round(_mean(of.values()), 2), f"least_{peer}": round(least, 2)}
            told[f"least_{peer}_query"] = query
    every = [(ratio, query) for peer, of in ratios.items() if peer != YARDSTICK for query, ratio in of.items()]
    if every:
        told |= {"least": round(min(every)[0], 2), "least_query": min(every)[1]}
    return told


def _mean(values: Collection[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _told(summary: dict[str, Any]) -> str:
    if not summary:
        return "no figure counts"
    if "least" not in summary:
        return "geometric mean {mean:,} events a second; slowest {slowest_query} {slowest:,}".format_map(summary)
    parts = [f"{summary[f'to_{peer}']:.2f}x {peer}" for peer in PEERS if f"to_{peer}" in summary]
    return f"geometric mean {', '.join(parts)}; slowest {summary['least_query']} {summary['least']:.2f}x"


if __name__ == "__main__":
    sys.exit(main())
