"""What is measured, how, and what is asked of it: ``benchmarks.report`` runs this list and writes its page from it."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.workload import Figure, Workload

ANEW = (
    Figure("DuckDB computing all of it anew", "duckdb_ms", "ms"),
    Figure("that to a step", "duckdb_to_step", "times"),
)
STEPS = (Figure("median step", "step_p50_ms", "ms"), Figure("99 of 100 steps", "step_p99_ms", "ms"))
LEAVES = {
    "python": "a stage that maps the log, as a step does",
    "jvm": "Spark's scan of Parquet, handed to a stage",
    "alone": "that scan, added up by Spark",
    "stage": "a stage that reads nothing",
    "job": "no stage",
}
LATENCY = (
    Figure("rate that was reached", "rate", "events a second"),
    Figure("append acknowledged to published, median", "p50_ms", "ms"),
    Figure("append acknowledged to published, 99 of 100", "p99_ms", "ms"),
    Figure("the longest", "max_ms", "ms"),
    Figure("appointed time to published, 99 of 100", "due_p99_ms", "ms"),
    Figure("steps", "steps"),
    Figure("median step", "step_ms", "ms"),
    Figure("99 of 100, the last window to the first", "p99_ratio"),
    Figure("memory of its own, the last window to the first", "own_ratio"),
    Figure("memory with the pages of mapped files, the last window to the first", "memory_ratio"),
    Figure("peak memory of all processes", "peak_mib", "MiB"),
    Figure("state", "state_bytes", "bytes"),
    *ANEW,
    Figure("rows of the view that differ from DuckDB's", "wrong", most=0),
)


def _asked(figures: tuple[Figure, ...], **goals: Mapping[str, float]) -> tuple[Figure, ...]:
    """The figures, those named by their keys with goals."""
    return tuple(Figure(f.label, f.key, f.unit, f.where, **goals[f.key]) if f.key in goals else f for f in figures)


def _refresh(share: float, spark: float | None = None, duckdb: float | None = None) -> tuple[Figure, ...]:
    """What a refresh of that share of the rows costs; ``spark``, ``duckdb``: how often it must go into theirs."""
    where, part = {"benchmark": "tpch refresh", "share": share}, f"{share:.2%} of the rows"
    return (
        Figure(f"refresh of {part}", "seconds", "s", where),
        Figure(f"Spark anew, as often as a refresh of {part}", "spark_to_step", "times", where, least=spark),
        Figure(f"the same in time of a processor, {part}", "processor_spark_to_step", "times", where),
        Figure(f"DuckDB anew, as often as a refresh of {part}", "duckdb_to_step", "times", where, least=duckdb),
    )


LOAD, STATE = {"benchmark": "tpch load"}, {"benchmark": "tpch state"}
DEFINED = Figure("defining to Spark batch, cold", "define_to_spark_cold", "times", LOAD, most=2)
AT_THE_END = (
    Figure("peak memory of all processes", "peak_mib", "MiB", STATE),
    Figure("views that differ from Spark batch", "wrong", "", STATE, most=0),
)


def _at_scale(scale: int, memory: str) -> Workload:
    """TPC-H where memory does not hold the rows."""
    sized = ("--scale", str(scale), "--shares", "0.001", "--steps", "3", "--memory", memory)
    return Workload(
        f"tpch-{scale}",
        f"TPC-H at scale {scale}, all 22 views in one pipeline",
        ("benchmarks.tpch.cost", *sized, "--mapped", "--rounds", "1", "3"),
        None,
        (
            Figure("rows of the tables", "rows", "", LOAD),
            Figure("defining the views over filled tables", "define_s", "s", LOAD),
            Figure("the same by Spark batch, cold", "spark_cold_s", "s", LOAD),
            DEFINED,
            *_refresh(0.001, duckdb=1),
            Figure("state", "state_bytes", "bytes", STATE),
            *AT_THE_END,
        ),
        note="Spark computes all of it once, cold; at scale 1 the best of three rounds counts, and of DuckDB here too.",
    )


BULK, NEXMARK, CHAINED = ({"benchmark": name} for name in ("bulk", "nexmark ratio", "chained ratio"))
RACED = (
    "Medians, events a second, and how many times ours is. Flink, Pathway and DBSP read CSV, ours and Spark Parquet;"
    " before each run memory is full of cached files (`benchmarks/cached.py`). What a neighbour's changes come to is"
    " compared with DuckDB's answer after its clock has stopped, once for each query. Without a cell: Flink cannot plan"
    " q6; Pathway has no form of q6, q10, q11, q19 and q21; circuits in Rust are there for eleven queries. q12 asks"
    " the clock and q13 a table that lies elsewhere: their rows are no answer that can be compared."
)


def _race(events: int, peers: str, rounds: int) -> tuple[str, ...]:
    kept = ("--keep", "benchmarks/nexmark/runs.jsonl")
    return "benchmarks.nexmark.rates", "--events", str(events), "--peers", peers, "--rounds", str(rounds), *kept


WORKLOADS = (
    Workload(
        "latency",
        "A steady 10,000 events a second through a join and an aggregate",
        ("benchmarks.latency", "--rate", "10000", "--seconds", "60"),
        ("--rate", "10000", "--seconds", "15", "--warm", "5"),
        _asked(LATENCY, rate={"least": 9900}, p50_ms={"most": 150}, p99_ms={"most": 500}),
        rounds=5,
    ),
    Workload(
        "soak",
        "Thirty minutes at half the peak rate",
        ("benchmarks.latency", "--share", "0.5", "--seconds", "1800", "--window", "300", "--warm", "300"),
        None,
        (
            Figure("peak rate", "peak_per_second", "events a second"),
            *_asked(LATENCY, p99_ratio={"most": 1.2}, own_ratio={"most": 1.05}),
        ),
        note="Pages of mapped files are the kernel's to take back: they are told, and memory of its own is judged.",
    ),
    Workload(
        "pgbench",
        "From a commit in PostgreSQL to a reader of another one, beside pgbench",
        ("examples.pgbench.run", "--json", "--kills", "0", "--rate", "200", "--seconds", "60"),
        ("--json", "--kills", "0", "--rate", "50", "--seconds", "15", "--scale", "1"),
        (
            Figure("transactions of pgbench", "rate", "a second"),
            Figure("committed to seen in the sink, median", "latency_ms.p50", "ms", most=250),
            Figure("committed to seen in the sink, 99 of 100", "latency_ms.p99", "ms"),
            Figure("the longest", "latency_ms.max", "ms"),
            Figure("state", "state_bytes", "bytes"),
            Figure("looks at the sink", "reads"),
            Figure("looks that saw half a transaction", "torn", most=0),
            Figure("looks that saw an earlier state than the one before", "backwards", most=0),
        ),
        rounds=5,
    ),
    Workload(
        "many",
        "100 views over the same five tables, 100 changes a step",
        ("benchmarks.many", "--views", "10", "100", "--steps", "20"),
        ("--views", "10", "30", "--steps", "5", "--orders", "5000"),
        (
            Figure("median step of 10 views", "median_ms", "ms", {"benchmark": "many", "views": 10}),
            Figure("median step of 100 views", "median_ms", "ms", {"benchmark": "many", "views": 100}),
            Figure("time of a processor, 10 views", "processor_ms", "ms", {"benchmark": "many", "views": 10}),
            Figure("time of a processor, 100 views", "processor_ms", "ms", {"benchmark": "many", "views": 100}),
            Figure("99 of 100 steps of 100 views", "p99_ms", "ms", {"benchmark": "many", "views": 100}),
            Figure("state of 100 views", "state_bytes", "bytes", {"benchmark": "many", "views": 100}),
            Figure("the most views to the fewest", "ratio", "times", {"benchmark": "many ratio"}, most=5),
            Figure("peak memory of all processes", "peak_mib", "MiB", {"benchmark": "many ratio"}),
            Figure("views that differ from Spark batch", "wrong", "", {"benchmark": "many ratio"}, most=0),
        ),
        rounds=5,
    ),
    Workload(
        "tpch",
        "TPC-H at scale 1, all 22 views in one pipeline",
        ("benchmarks.tpch.cost", "--scale", "1"),
        None,
        (
            Figure("defining the views over filled tables", "define_s", "s", LOAD),
            Figure("the same by Spark batch, cold", "spark_cold_s", "s", LOAD),
            Figure("the same by Spark batch, warm", "spark_warm_s", "s", LOAD),
            DEFINED,
            Figure(
                "a view's first contents to its query by Spark, cold, median of 22",
                "median_view_to_spark_cold",
                "times",
                LOAD,
                most=2,
            ),
            Figure("the most of a view", "most_view_to_spark_cold", "times", LOAD),
            Figure("the view of that", "slowest_view", "", LOAD),
            *_refresh(0.0001),
            *_refresh(0.001, spark=30),
            *_refresh(0.01),
            Figure("state to Parquet", "state_to_parquet", "times", STATE, most=3),
            *AT_THE_END,
        ),
        note="What the state is, and what else would keep less of it: [0024](../decisions/0024-what-state-takes.md).",
        rounds=5,
    ),
    _at_scale(3, "5g"),
    _at_scale(10, "6g"),
    Workload(
        "ctr",
        "Click-through rates of 1,000,000 events, from files to the last change",
        ("benchmarks.ctr", "--events", "1000000", "--peers", "flink"),
        ("--events", "200000"),
        (
            Figure("rate", "per_second", "events a second"),
            *STEPS,
            Figure("time of a processor", "processor_seconds", "s"),
            Figure("peak memory of all processes", "peak_mib", "MiB"),
            Figure("state", "state_bytes", "bytes"),
            *ANEW,
            Figure("ours to Flink SQL", "to_flink", "times"),
            Figure("Flink SQL", "per_second", "events a second", {"engine": "flink"}),
            Figure("peak memory of all its processes", "peak_mib", "MiB", {"engine": "flink"}),
            Figure("rows of the view that differ from DuckDB's", "wrong", most=0),
        ),
        rounds=5,
    ),
    Workload(
        "bulk",
        "Large steps through a join and an aggregate while the state grows",
        ("benchmarks.bulk",),
        ("--changes", "2000000", "--narrow"),
        (
            Figure("rate", "per_second", "changes a second", BULK),
            *STEPS,
            Figure("peak memory of all processes", "peak_mib", "MiB", BULK),
            Figure("state", "state_bytes", "bytes", BULK),
            *ANEW,
            Figure("rows of the view that differ from DuckDB's", "wrong", "", BULK, most=0),
        ),
        rounds=5,
    ),
    Workload(
        "chained",
        "Three tables joined by one key: what is kept, and a step, beside the same where every input is kept",
        ("benchmarks.chained",),
        ("--orders", "100000", "--steps", "5"),
        (
            Figure("state, joined anew", "state_bytes", "bytes", {"benchmark": "chained", "way": "rejoined"}),
            Figure("state, everything kept", "state_bytes", "bytes", {"benchmark": "chained", "way": "kept"}),
            Figure("state, joined anew to kept", "state_bytes", "times", CHAINED, most=1),
            Figure("first contents, joined anew to kept", "first_s", "times", CHAINED),
            Figure("median step, joined anew to kept", "p50_ms", "times", CHAINED),
            Figure("rows of the view that differ from DuckDB's", "wrong", "", {"benchmark": "chained"}, most=0),
        ),
        rounds=5,
    ),
    Workload(
        "constant",
        "A step of a single changed row with 100,000, 1,000,000 and 10,000,000 rows of state",
        ("benchmarks.constant",),
        ("--states", "100000", "1000000", "--steps", "100"),
        (
            *(
                Figure(f"{label}, {state:,} rows of state", key, "ms", {"benchmark": "constant", "state": state})
                for state in (100_000, 1_000_000, 10_000_000)
                for key, label in (("median_ms", "median step"), ("p99_ms", "99 of 100 steps"))
            ),
            *(
                Figure(f.label + f", {state:,} rows of state", f.key, f.unit, {"benchmark": "constant", "state": state})
                for state in (100_000, 1_000_000, 10_000_000)
                for f in ANEW
            ),
            Figure("most state to least, median", "ratio", "times", {"benchmark": "constant ratio"}, most=1.5),
            Figure("most state to least, 99 of 100", "p99_ratio", "times", {"benchmark": "constant ratio"}, most=1.5),
            Figure("rows of the view that differ from DuckDB's", "wrong", "", {"benchmark": "constant ratio"}, most=0),
        ),
        rounds=5,
    ),
    Workload(
        "beyond_memory",
        "State ten times as large as all the memory that there is",
        ("benchmarks.beyond_memory",),
        None,
        (
            Figure("memory, page cache included", "memory_mib", "MiB"),
            Figure("state", "state_bytes", "bytes"),
            Figure("state to memory", "times", "times", least=10),
            Figure("rows", "rows"),
            Figure("100 rows, pushed to published, median", "p50_ms", "ms"),
            Figure("100 rows, pushed to published, 99 of 100", "p99_ms", "ms"),
            Figure("processes ended for want of memory", "killed", most=0),
            Figure("groups that differ", "wrong", most=0),
        ),
    ),
    Workload(
        "refresh",
        "From a commit in PostgreSQL to a reader of another one, beside REFRESH MATERIALIZED VIEW",
        ("benchmarks.refresh",),
        ("--orders", "100000", "--rounds", "5"),
        tuple(
            Figure(f"{label}, {changes:,} changed rows of 1,000,000", key, unit, {"changes": changes}, most)
            for changes in (1, 100, 10_000)
            for key, label, unit, most in (
                ("seen_ms", "committed to seen in the sink, median", "ms", None),
                ("seen_p99_ms", "committed to seen in the sink, 99 of 100", "ms", None),
                ("refresh_ms", "REFRESH MATERIALIZED VIEW, median", "ms", None),
                ("refresh_to_seen", "REFRESH to ours", "times", None),
                ("wrong", "rows that differ", "", 0),
            )
        ),
        note="Ours ends when a reader of another database sees the change, REFRESH when the view in its own is made.",
        rounds=5,
    ),
    Workload(
        "nexmark",
        "Nexmark, 10,000,000 events, each query by itself from files into a changelog",
        _race(10_000_000, "flink,pathway,dbsp", 5),
        ("--events", "200000", "--queries", "q0", "q3", "q5", "--cold"),
        (
            Figure("ours to Flink SQL, geometric mean", "to_flink", "times", NEXMARK, least=3),
            Figure("ours to Pathway, geometric mean", "to_pathway", "times", NEXMARK, least=1),
            Figure(
                "ours to circuits of DBSP in Rust, in memory, geometric mean", "to_dbsp", "times", NEXMARK, least=0.5
            ),
            Figure("ours to circuits of DBSP in Rust, least", "least_dbsp", "times", NEXMARK, least=0.5),
            Figure("the query of that", "least_dbsp_query", "", NEXMARK),
            Figure("ours to the faster neighbour, least", "least", "times", NEXMARK, least=1),
            Figure("the query of that", "least_query", "", NEXMARK),
            *(
                Figure(f"events a second, {query}", f"median.{query}", "", NEXMARK, least=1_500_000)
                for query in ("q0", "q1", "q2")
            ),
            Figure("answers that differ from DuckDB's", "wrong", "", NEXMARK, most=0),
        ),
        ("query", "engine", "per_second"),
        RACED,
    ),
    Workload(
        "nexmark-1m",
        "Nexmark, 1,000,000 events, each query by itself from files into a changelog",
        _race(1_000_000, "flink,pathway,spark", 1),
        None,
        (
            *(
                figure
                for peer, label in (("flink", "Flink SQL"), ("pathway", "Pathway"), ("spark", "Structured Streaming"))
                for figure in (
                    Figure(f"ours to {label}, geometric mean", f"to_{peer}", "times", NEXMARK),
                    Figure(f"ours to {label}, least", f"least_{peer}", "times", NEXMARK),
                    Figure("the query of that", f"least_{peer}_query", "", NEXMARK),
                )
            ),
            Figure("ours, geometric mean", "mean", "events a second", NEXMARK),
            Figure("answers that differ from DuckDB's", "wrong", "", NEXMARK, most=0),
        ),
        ("query", "engine", "per_second"),
        RACED,
    ),
    Workload(
        "serving",
        "Reads of a view of 1,000,000 rows over HTTP while 20 transactions a second change it",
        ("benchmarks.serving",),
        ("--rows", "20000", "--seconds", "5", "--reads", "100"),
        (
            Figure("rows by key, 500 asked a second", "reads_per_s", "a second"),
            Figure("a row by key, median", "read_p50_ms", "ms"),
            Figure("a row by key, 99 of 100", "read_p99_ms", "ms", most=10),
            Figure("the first aggregate of all rows by SQL, which reads them", "sql_first_ms", "ms", most=300),
            Figure("an aggregate of all rows by SQL, median", "sql_p50_ms", "ms", most=300),
            Figure("an aggregate of all rows by SQL, the longest", "sql_max_ms", "ms", most=300),
            Figure("published to seen by a subscriber, median", "seen_p50_ms", "ms"),
            Figure("published to seen by a subscriber, 99 of 100", "seen_p99_ms", "ms", most=100),
            Figure("peak memory of all processes", "peak_mib", "MiB"),
            Figure("state", "state_bytes", "bytes"),
            Figure("wrong answers", "wrong", most=0),
        ),
    ),
    Workload(
        "subscribers",
        "1,000 subscribers of one view, one in ten of which stands still",
        ("benchmarks.subscribers", "--readers", "1000", "--steps", "60", "--reads", "100"),
        ("--readers", "50", "--steps", "10", "--reads", "20"),
        (
            Figure("published to received, median", "p50_ms", "ms"),
            Figure("published to received, 99 of 100", "p99_ms", "ms"),
            Figure("readers that did not get all", "starved", most=0),
            Figure("readers that got something else", "wrong", most=0),
            Figure("memory of the server, a reader", "mib_a_reader", "MiB"),
        ),
    ),
    Workload(
        "parts",
        "256 subscribers, each of another part of one view",
        ("benchmarks.subscribers", "--readers", "284", "--parts", "256", "--steps", "60", "--reads", "100"),
        ("--readers", "40", "--parts", "30", "--steps", "10", "--reads", "20"),
        (
            Figure("published to received, median", "p50_ms", "ms"),
            Figure("published to received, 99 of 100", "p99_ms", "ms"),
            Figure("readers that did not get all", "starved", most=0),
            Figure("readers that got something else", "wrong", most=0),
        ),
    ),
    Workload(
        "console",
        "The page of a project of 100 views, in a real browser",
        ("benchmarks.console",),
        ("--views", "10", "--seconds", "3"),
        (
            Figure("the overview, asked for to first painted", "painted_ms", "ms", most=1_000),
            Figure("the overview, asked for to its data shown", "shown_ms", "ms", most=1_000),
            Figure("the lineage of all views, asked for to drawn", "lineage_ms", "ms", most=1_000),
            Figure("layout that moves by itself while these load", "shift", most=0.01),
            Figure("layout that moves by itself while rows come", "live_shift", most=0.01),
            Figure("errors in the browser's console", "errors", most=0),
            Figure("requests to another origin", "elsewhere", most=0),
        ),
    ),
    Workload(
        "search",
        "Search of 1,000,000 rows, and 10,000 stored queries",
        ("benchmarks.search",),
        ("--rows", "20000", "--queries", "1000", "--steps", "5"),
        (
            Figure("the index is made", "seconds", "s", {"benchmark": "search made"}),
            Figure("a rare word", "median_ms", "ms", {"query": "a rare word"}, most=200),
            Figure("two words of most rows", "median_ms", "ms", {"query": "two words of most rows"}, most=200),
            Figure(
                "a phrase of a third of the rows",
                "median_ms",
                "ms",
                {"query": "a phrase of a third of the rows"},
                most=200,
            ),
            Figure(
                "the beginning of most words", "median_ms", "ms", {"query": "the beginning of most words"}, most=200
            ),
            Figure("a word and a range", "median_ms", "ms", {"query": "a word and a range"}, most=200),
            Figure(
                "10,000 stored queries, steps of 10 changes: times the cost of none",
                "ratio",
                "",
                {"queries": 10_000, "changes": 10},
                most=2,
            ),
            Figure(
                "10,000 stored queries, steps of 1,000 changes: times the cost of none",
                "ratio",
                "",
                {"queries": 10_000, "changes": 1_000},
                most=2,
            ),
        ),
    ),
    Workload(
        "stored",
        "10,000 stored queries told of and watched, 20 transactions a second",
        ("benchmarks.stored",),
        ("--queries", "1000", "--rows", "5000", "--seconds", "5"),
        (
            Figure("committed to published without queries, median", "without_p50_ms", "ms"),
            Figure("committed to published with them, median", "p50_ms", "ms"),
            Figure("that to none", "ratio", "times", most=2),
            Figure("committed to published without queries, 99 of 100", "without_p99_ms", "ms"),
            Figure("committed to published with them, 99 of 100", "p99_ms", "ms"),
            Figure("commits that the sink is behind in the end", "sink_behind", most=0),
            Figure("peak memory of all processes", "peak_mib", "MiB"),
            Figure("matches that the watcher was told otherwise", "differ", most=0),
        ),
    ),
    Workload(
        "leaf",
        "A step's rows read in Python, and handed to it by the JVM, milliseconds",
        ("benchmarks.leaf",),
        ("--rows", "100", "100000", "--rounds", "5"),
        (
            *(
                Figure(f"{rows:,} rows, {label}", "ms", "ms", {"rows": rows, "plan": plan})
                for rows in (100, 1_000_000)
                for plan, label in LEAVES.items()
            ),
            Figure("sums that are wrong", "wrong", most=0),
        ),
        note="What follows of it: [0035](../decisions/0035-where-rows-enter.md).",
    ),
    Workload("log", "The log alone", ("benchmarks.log", "--rounds", "3")),
    Workload("recovery", "Opening a log of 10 GiB after a kill", ("benchmarks.recovery",)),
    Workload("restart", "A start after SIGKILL beside 5,000,000 rows of state", ("benchmarks.restart",)),
    Workload("pgoutput", "PostgreSQL's changes to Arrow", ("benchmarks.pgoutput",)),
    Workload("binlog", "MariaDB's binary log to Arrow", ("benchmarks.binlog",)),
    Workload("each", "A backlog of small transactions from PostgreSQL to PostgreSQL", ("benchmarks.each",)),
    Workload("ranking", "One changed row in a large ranking", ("benchmarks.ranking",)),
    Workload(
        "backpressure",
        "A source ten times faster than its sink, for ten minutes",
        ("benchmarks.backpressure",),
        None,
        (
            Figure("changes a second, the sink at its own speed", "source_per_s"),
            Figure("changes a second, the sink at a tenth of that", "slowed_per_s"),
            Figure("the source waited", "waited_s", "s"),
            Figure("changes in the log that the sink lacks, at most", "most.backlog", most=250_000),
            Figure("waiting to be logged, at most", "most.queued_bytes", "bytes", most=4 << 20),
            Figure("memory of the driver after two minutes", "early.driver_mib", "MiB"),
            Figure("memory of the driver, at most", "most.driver_mib", "MiB"),
            Figure("memory of the JVM after two minutes", "early.jvm_mib", "MiB"),
            Figure("memory of the JVM, at most", "most.jvm_mib", "MiB"),
            Figure("memory of Python workers after two minutes", "early.python_mib", "MiB"),
            Figure("memory of Python workers, at most", "most.python_mib", "MiB"),
        ),
    ),
    Workload("endurance", "100,000 small steps", ("benchmarks.endurance",)),
)
