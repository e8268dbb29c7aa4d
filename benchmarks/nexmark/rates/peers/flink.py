"""One query by Apache Flink SQL: its local cluster, two slots, streaming, state on the heap, mini-batches; its changes
go into files, as Debezium's JSON, the only form of files that Flink has for changes.

FLINK_PYTHON flink.py --data FOLDER --events N --query-text FILE --changes FOLDER. Runs in Flink's own environment, so
it imports nothing of this repository. Its time is the job's net run time: start-up is told beside it. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

WATERMARK = "WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND"
COLUMNS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING,"
    f" date_time TIMESTAMP(3), extra STRING, {WATERMARK}",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,"
    f" date_time TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING, {WATERMARK}",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3),"
    f" extra STRING, {WATERMARK}",
    "impressions": "id BIGINT, campaign BIGINT, shown TIMESTAMP(3)",
    "clicks": "impression BIGINT, clicked TIMESTAMP(3)",
}
SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "execution.runtime-mode": "STREAMING",
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.network.max": "128mb",
    "taskmanager.memory.managed.size": "256mb",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}


def main() -> None:
    began = time.time()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="with a folder for each table")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--query-text", type=Path, required=True)
    parser.add_argument("--changes", type=Path, required=True, help="folder where its changes go")
    parser.add_argument("--format", default="csv")
    parser.add_argument("--heap-mb", type=int, default=6000)
    chosen = parser.parse_args()
    os.environ["TZ"] = "UTC"
    os.environ["FLINK_ENV_JAVA_OPTS"] = f"-Xmx{chosen.heap_mb}m"
    os.environ.setdefault("FLINK_LOG_DIR", tempfile.mkdtemp())
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in SETTINGS.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    for name, columns in COLUMNS.items():
        tables.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH"
            f" ('connector'='filesystem', 'path'='file://{chosen.data.resolve()}/{name}', 'format'='{chosen.format}')"
        )
    query = chosen.query_text.read_text()
    schema = tables.sql_query(query)._j_table.getResolvedSchema()
    found = [schema.getColumns().get(place) for place in range(schema.getColumnCount())]
    declared = ", ".join(
        f"`{c.getName()}` {c.getDataType().getLogicalType().copy(True).asSerializableString()}" for c in found
    )
    sink = f"'connector'='filesystem', 'path'='file://{chosen.changes.resolve()}', 'format'='debezium-json'"
    tables.execute_sql(f"CREATE TABLE sink ({declared}) WITH ({sink})")
    job = tables.execute_sql(f"INSERT INTO sink {query}").get_job_client().get_job_execution_result().result()
    seconds = job.get_net_runtime() / 1000
    print(json.dumps({
        "engine": "flink", "events": chosen.events, "startup_s": round(time.time() - began - seconds, 2),
        "seconds": round(seconds, 3), "per_second": round(chosen.events / seconds),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
