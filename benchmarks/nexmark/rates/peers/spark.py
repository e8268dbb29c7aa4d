"""One query by Spark's own Structured Streaming, over the same Parquet files, all that is there in one batch.

python spark.py --data FOLDER --events N --query-text FILE. It imports nothing of this repository, so that no setting of
the product's is in it. The query is the product's own text; what Spark refuses to stream is said so. Its changes go
into Parquet files. Its time begins when the query does. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

RELATIONS = ("person", "auction", "bid")


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with person, auction and bid")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--query-text", type=Path, required=True)
    chosen = parser.parse_args()
    builder = (
        SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g").config("spark.ui.enabled", False)
    )
    spark = builder.config("spark.sql.shuffle.partitions", 2).config("spark.sql.session.timeZone", "UTC").getOrCreate()
    for name in RELATIONS:
        folder = str(chosen.data / name)
        spark.readStream.schema(spark.read.parquet(folder).schema).parquet(folder).createOrReplaceTempView(name)
    startup = time.monotonic() - began
    line = {"engine": "spark", "events": chosen.events, "startup_s": round(startup, 2)}
    try:
        began = time.monotonic()
        _run(spark.sql(chosen.query_text.read_text()))
        seconds = time.monotonic() - began
        print(json.dumps(line | {"seconds": round(seconds, 3), "per_second": round(chosen.events / seconds)}))
    except PySparkException as error:
        print(json.dumps(line | {"refused": error.getCondition() or str(error).partition("\n")[0]}))


def _run(frame: DataFrame) -> None:
    """Rows as they are found where they stay so, else each row again when it changes."""
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("append", "update"):
            writer = frame.writeStream.outputMode(mode).trigger(availableNow=True).foreachBatch(
                lambda changes, number: changes.write.parquet(f"{folder}/changes/{number}")
            )  # fmt: skip
            try:
                writer.option("checkpointLocation", f"{folder}/{mode}").start().awaitTermination()
                return
            except PySparkException:
                if mode == "update":
                    raise


if __name__ == "__main__":
    main()
