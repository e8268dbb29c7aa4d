"""Stands for the JVM that a process of the product starts: lends it one of tests/warm_jvm.py, until either ends."""

import json
import os
import select
import socket
import struct
import sys
from pathlib import Path

NAMED = ("PYTHONPATH", "TZ", "PATH")  # what Spark's Python workers have of their JVM's environment

with socket.socket(socket.AF_UNIX) as keeper:
    keeper.connect(os.environ["HEADRACE_WARM_JVMS"])
    environment = {name: os.environ[name] for name in NAMED if name in os.environ}
    keeper.sendall(json.dumps({"arguments": sys.argv[1:], "environment": environment}).encode() + b"\n")
    answer = keeper.makefile().readline()
    if not answer:
        sys.exit(1)
    lent = json.loads(answer)
    secret = lent["secret"].encode()
    told = Path(os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"])
    written = told.with_suffix(".new")
    written.write_bytes(struct.pack(">ii", lent["port"], len(secret)) + secret)
    written.rename(told)
    ended, _, _ = select.select([keeper, sys.stdin], [], [])
    sys.exit(int(keeper in ended))
