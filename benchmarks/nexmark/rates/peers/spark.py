"""One query by Spark's own Structured Streaming, over the same Parquet files, all that is there in one batch, which is
its fastest mode; its state is in RocksDB, its changes go into Parquet files.

python spark.py --data FOLDER --events N --query-text FILE --changes FOLDER. It imports nothing of this repository, so
that no setting of the product's is in it. A query that asks for windows of time tells each when the watermark, four
seconds behind the newest event, has passed it: the last ones stay untold (``watermark``). What Spark refuses to stream
is said so. Its time begins when the query does. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

RELATIONS = ("person", "auction", "bid")
LATE = "4 seconds"
SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with person, auction and bid")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--query-text", type=Path, required=True)
    parser.add_argument("--changes", type=Path, required=True, help="folder where its changes go")
    chosen = parser.parse_args()
    spark = SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate()
    for name in RELATIONS:
        folder = str(chosen.data / name)
        stream = spark.readStream.schema(spark.read.parquet(folder).schema).parquet(folder)
        stream.withWatermark("date_time", LATE).createOrReplaceTempView(name)
    text = chosen.query_text.read_text()
    startup = time.monotonic() - began
    line: dict[str, Any] = {"engine": "spark", "events": chosen.events, "startup_s": round(startup, 2)}
    try:
        with tempfile.TemporaryDirectory() as checkpoint:
            seconds, told = _run(spark.sql(text), chosen.changes, Path(checkpoint))
        rate = {"seconds": round(seconds, 3), "per_second": round(chosen.events / seconds)}
        print(json.dumps(line | rate | told | {"watermark": re.search(r"window\(", text) is not None}))
    except PySparkException as error:
        print(json.dumps(line | {"refused": str(error).partition("\n")[0]}))


def _run(frame: DataFrame, changes: Path, checkpoint: Path) -> tuple[float, dict[str, Any]]:
    """(seconds, figures); rows as they are found where they stay so, else each row again when it changes."""

    def written(rows: DataFrame, number: int) -> None:
        rows.write.parquet(f"{changes}/{number}")

    for mode in ("append", "update"):
        writer = frame.writeStream.outputMode(mode).trigger(availableNow=True).foreachBatch(written)
        began = time.monotonic()
        try:
            query = writer.option("checkpointLocation", f"{checkpoint}/{mode}").start()
            query.awaitTermination()
        except PySparkException:
            if mode == "update":
                raise
            continue
        seconds = time.monotonic() - began
        state = sum(file.stat().st_size for file in checkpoint.glob(f"{mode}/state/**/*") if file.is_file())
        return seconds, {"mode": mode, "steps": len(query.recentProgress), "state_bytes": state}
    raise AssertionError("no mode was left")


if __name__ == "__main__":
    main()
