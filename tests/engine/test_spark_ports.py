"""Goal: who else is on the machine gets no further than Spark's ports. Method: another Spark, which has no secret or guesses one,
asks for endpoints of the session's; those are there for who has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark
STRANGER = """
import sys
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

port, secret, *names = sys.argv[1:]
spark = launch_gateway(SparkConf(loadDefaults=False)).jvm.org.apache.spark
conf = spark.SparkConf(False)
for name in ("spark.rpc.askTimeout", "spark.rpc.lookupTimeout", "spark.network.timeout"):
    conf.set(name, "20s")
if secret:
    conf.set("spark.authenticate", "true").set("spark.authenticate.secret", secret)
    conf.set("spark.network.crypto.enabled", "true").set("spark.network.crypto.cipher", "AES/GCM/NoPadding")
entry = getattr(getattr(spark.internal.config, "package$"), "MODULE$").AUTH_SECRET_FILE()
manager = spark.SecurityManager(conf, conf.getOption("spark.none"), entry)
manager.initializeAuth()
rpc = spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
for name in names:
    try:
        rpc.setupEndpointRef(spark.rpc.RpcAddress("127.0.0.1", int(port)), name)
        print(name)
    except Py4JJavaError:
        pass
"""


def reached(spark: Any, secret: str) -> list[str]:
    """The endpoints that a Spark with this secret finds."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    names = ["HeartbeatReceiver", "BlockManagerMaster", "MapOutputTracker"]
    asked = [sys.executable, "-c", STRANGER, spark.conf.get("spark.driver.port"), secret, *names]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.split()


def test_a_stranger_reaches_no_endpoint(spark: Any) -> None:
    assert reached(spark, "") == []
    assert reached(spark, "a guess") == []


def test_the_secret_is_no_setting_that_others_can_read(spark: Any) -> None:
    told = f"{spark.sparkContext.getConf().getAll()} {spark.sql('SET -v').collect()}"
    assert "spark.authenticate.secret" not in told
    assert "secret" not in Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/cmdline").read_text()
