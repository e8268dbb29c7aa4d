"""The neighbours, each from its registry into an environment of its own, and the commands that race them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from benchmarks.nexmark.rates import texts

PEERS = {
    "flink": "apache-flink==2.3.0",
    "pathway": "pathway==0.33.0",
    "spark": "pyspark==4.3.0",
    "dbsp": "dbsp==0.349.0",
}
# Circuits by hand, all in memory and of nothing but their query: what there is to come near to.
YARDSTICK = "dbsp"
RUNNERS = Path(__file__).with_name("peers")


def commands(
    query: str, data: Path, events: int, peers: Collection[str], folder: Path, changes: Path
) -> list[tuple[str, list[str]]]:
    """(engine, command) of the product and of each of the neighbours that has a form of the query; where a neighbour's
    ``changes`` go is told here."""
    answer = data / "answers" / f"{query}.parquet"
    module = [sys.executable, "-m", "benchmarks.nexmark.rates.ours"]
    told, out = ["--events", str(events)], ["--changes", str(changes)]
    made = [("headrace", [*module, "--data", str(data), *told, "--query", query, "--answer", str(answer)])]
    if "flink" in peers and texts.text("flink", query):
        text = texts.FOLDER / "flink" / f"{query}.sql"
        made.append(("flink", flink_command(folder, data / "flink", events, text, changes)))
    if "spark" in peers:
        runner = [sys.executable, str(RUNNERS / "spark.py")]  # the one that the product brings
        own = texts.text("spark-streaming", query)
        text = texts.FOLDER / ("spark-streaming" if own else "spark") / f"{query}.sql"
        made.append(("spark", [*runner, "--data", str(data), *told, "--query-text", str(text), *out]))
    of_pathway = ["--data", str(data / "pathway"), *told, "--query", query]
    if "pathway" in peers and _has("pathway_queries.py", rf"def {query}\b"):
        runner = [_python(folder, "pathway"), str(RUNNERS / "pathway_queries.py")]
        made.append(("pathway", [*runner, *of_pathway, *out]))
    if "dbsp" in peers and _has("dbsp/src/main.rs", f'"{query}" =>'):
        made.append(("dbsp", [_built(folder), *of_pathway]))
    return made


def flink_command(folder: Path, data: Path, events: int, text: Path, changes: Path) -> list[str]:
    """Of a query in Flink SQL over CSV files, a folder a table, in ``data``."""
    runner = [_python(folder, "flink"), str(RUNNERS / "flink.py"), "--data", str(data), "--events", str(events)]
    return [*runner, "--query-text", str(text), "--changes", str(changes)]


def _has(runner: str, form: str) -> bool:
    return re.search(form, (RUNNERS / runner).read_text()) is not None


def _python(folder: Path, peer: str) -> str:
    """The interpreter of a neighbour's environment, which is made when there is none."""
    python = folder / "peers" / peer / "bin" / "python"
    if not python.exists():
        print(f"installing {PEERS[peer]}", file=sys.stderr, flush=True)
        subprocess.check_call([sys.executable, "-m", "venv", str(python.parent.parent)])
        subprocess.check_call([str(python), "-m", "pip", "install", "-q", PEERS[peer]])
    return str(python.absolute())


def _built(folder: Path) -> str:
    """The program of circuits in Rust, which is built when there is none: minutes, with Rust's cargo."""
    program = folder / "peers" / "dbsp" / "release" / "dbsp-nexmark"
    if not program.exists():
        print(f"building {PEERS['dbsp']}", file=sys.stderr, flush=True)
        manifest = str(RUNNERS / "dbsp" / "Cargo.toml")
        target = str(program.parent.parent.absolute())
        subprocess.check_call(
            ["cargo", "build", "-q", "--release", "--manifest-path", manifest, "--target-dir", target]
        )
    return str(program.absolute())
