"""JVMs that are warm already, for the processes of the product that tests start.

A JVM's start, and all that it does before its code is compiled, is most of what a short run of `headrace up` takes. The
keeper, one process for a run of the tests, keeps those that it once started, and lends each to one process after the
other: with SPARK_HOME so set, PySpark begins warm_spark/bin/spark-submit in the place of Spark's own, which tells it of a
JVM of the keeper's. Sessions are made and stopped in it as in a new one; what a killed process left is stopped by the
keeper. That a product with a JVM of its own does the same is for the tests that ask for one (``own_jvm``), and for all
of them in `make test-all`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PLACE = "HEADRACE_WARM_JVMS"
HOME = Path(__file__).with_name("warm_spark")
LOANS_MAX = 60  # of one JVM: each session leaves some classes behind
Kind = tuple[str, ...]


@contextlib.contextmanager
def kept() -> Iterator[dict[str, str]]:
    """The environment in which a process of the product is lent a JVM, while the keeper is there."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        place = str(Path(folder, "keeper"))
        keeper = subprocess.Popen(
            [sys.executable, "-P", __file__, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert keeper.stdout is not None
        keeper.stdout.readline()  # it listens
        try:
            yield {"SPARK_HOME": str(HOME), PLACE: place}
        finally:
            keeper.communicate()  # it ends with its standard input


def own_jvm() -> dict[str, str]:
    """The environment in which a process of the product begins a JVM of its own, as with a user."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}


class Machine:
    """A JVM and a connection to it. It ends with the keeper, or after so many loans."""

    def __init__(self, kind: Kind, environment: Mapping[str, str], folder: str) -> None:
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        self.kind, self.loans = kind, 0
        conf = SparkConf(loadDefaults=False)
        for setting in kind:
            conf.set(*setting.split("=", 1))
        os.environ.clear()
        os.environ.update(environment)
        conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.python.unix.domain.socket.dir", folder)
        self.gateway: Any = launch_gateway(conf, {"cwd": folder, "stderr": subprocess.DEVNULL})
        self.process: Any = self.gateway.proc
        self.keep_to_its_own_sockets()

    def keep_to_its_own_sockets(self) -> None:
        """Where answers leave a JVM it decides once: else it would be in the folder of its first user, who removes it."""
        java, lang = self.gateway, self.gateway.jvm.java.lang
        decides = lang.Class.forName("org.apache.spark.api.python.PythonRDD$")
        decided = decides.getDeclaredMethod("authHelper", java.new_array(lang.Class, 0))
        decided.setAccessible(True)
        decided.invoke(decides.getField("MODULE$").get(None), java.new_array(lang.Object, 0))

    def tidy(self) -> bool:
        """Stop what its last user left; whether it can be lent again."""
        if self.loans >= LOANS_MAX or self.process.poll() is not None:
            self.end()
            return False
        left = getattr(getattr(self.gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$").getActive()
        if left.isDefined():
            left.get().stop()
        return True

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


class Keeper:
    def __init__(self, folder: str) -> None:
        self.folder, self.free = folder, list[Machine]()
        self.changing = threading.Lock()  # of the environment, in which a JVM begins, and of what is free

    def answer(self, connection: socket.socket) -> None:
        """Lend a JVM until the connection ends; it ends by us if the JVM does."""
        with connection, connection.makefile("rw") as lines:
            asked = json.loads(lines.readline())
            machine = self.lent(asked)
            gone = threading.Thread(target=self.watch, args=(machine, connection), daemon=True)
            gone.start()
            parameters = machine.gateway.java_parameters
            with contextlib.suppress(OSError):
                lines.write(json.dumps({"port": parameters.port, "secret": parameters.auth_token}) + "\n")
                lines.flush()
                connection.recv(1)
        if machine.tidy():
            with self.changing:
                self.free.append(machine)

    def lent(self, asked: Mapping[str, Any]) -> Machine:
        kind = tuple(sorted(_of_the_jvm(asked["arguments"], asked["environment"], self.folder)))
        with self.changing:
            machine = next((each for each in self.free if each.kind == kind), None)
            if machine is None:
                machine = Machine(kind, {**os.environ, **asked["environment"]}, self.folder)
            else:
                self.free.remove(machine)
            machine.loans += 1
        return machine

    def watch(self, machine: Machine, connection: socket.socket) -> None:
        machine.process.wait()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _of_the_jvm(arguments: list[str], environment: Mapping[str, str], folder: str) -> Iterator[str]:
    """The settings that a JVM cannot change once it runs. Its temporary files are in the keeper's folder."""
    for name, value in environment.items():
        yield f"spark.tests.{name}={value}"
    for setting in arguments:
        name, _, value = setting.partition("=")
        if name == "spark.driver.extraJavaOptions":
            options = [each for each in shlex.split(value) if not each.startswith("-Djava.io.tmpdir=")]
            yield f"{name}={shlex.join([*options, f'-Djava.io.tmpdir={folder}'])}"
        elif name == "spark.driver.memory":
            yield setting


def serve(place: str) -> None:
    os.environ.pop("SPARK_HOME", None)
    with tempfile.TemporaryDirectory(prefix="warm-jvm-") as folder, socket.socket(socket.AF_UNIX) as listening:
        keeper = Keeper(folder)
        listening.bind(place)
        listening.listen()
        print(flush=True)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=keeper.answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.read()
        listening.shutdown(socket.SHUT_RDWR)
        for machine in keeper.free:
            machine.end()


if __name__ == "__main__":
    serve(sys.argv[1])
