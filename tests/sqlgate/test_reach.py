"""Goal: no function that a query may call reaches the network, a file or the environment, whatever it is given.

Method: each text in Spark's own examples of each function becomes, one after the other, an address, a path, a document that
names one. Spark evaluates the calls in the driver's JVM, as it does with constants in a query, and aggregates over rows.
Something listens at the address, the kernel tells of each opening of the file, and the environment holds a word.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.engine.batch import Batch
from headrace.model.errors import HeadraceError
from headrace.sql.admit import admit
from headrace.sql.functions import AGGREGATES, CANONICALISED, CLOCKS, GENERATORS, LAMBDAS, RANKINGS, SCALARS
from sampled import sampled

pytestmark = pytest.mark.spark

WORD = "canary-5b1c7f"
TEXT = re.compile(r"'(?:[^'\\]|\\.)*'")
IN_OPEN, IN_NONBLOCK = 0x20, 0o4000


class Canaries:
    """``address``: where connections are counted; ``file`` and ``jar``: whose openings are."""

    def __init__(self, folder: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.file, self.jar = folder / "secret.dtd", folder / "secret.jar"
        self.file.write_text(f"<!ENTITY word '{WORD}'>")
        with ZipFile(self.jar, "w") as jar:
            jar.writestr("secret.dtd", f"<!ENTITY word '{WORD}'>")
        self.connections = self.openings_seen = 0
        threading.Thread(target=self._accept, daemon=True).start()
        libc = ctypes.CDLL(None, use_errno=True)
        self.openings = libc.inotify_init1(IN_NONBLOCK)
        for path in (self.file, self.jar):
            assert libc.inotify_add_watch(self.openings, bytes(path), IN_OPEN) >= 0

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                connection = self.listener.accept()[0]
                self.connections += 1  # before who has come goes on
                connection.close()

    def opened(self) -> int:
        with suppress(BlockingIOError):
            return len(os.read(self.openings, 1 << 16)) // struct.calcsize("iIII")
        return 0

    def reached(self) -> tuple[int, int]:
        self.openings_seen += self.opened()
        return self.connections, self.openings_seen

    def tells(self, made: str) -> bool:
        """Whether it has what is in the file, or in the environment."""
        return WORD in made or os.environ["PATH"] in made

    def close(self) -> None:
        self.listener.close()
        os.close(self.openings)

    def texts(self) -> list[str]:
        net, file, jar = f"http://{self.address}/x", f"file://{self.file}", f"jar:file://{self.jar}!/secret.dtd"
        places = [net, file, str(self.file), jar, f"jar:{net}!/x", f"ftp://{self.address}/x"]
        documents = [
            part
            for place in places
            for part in (
                f'<!DOCTYPE a SYSTEM "{place}"><a>b</a>',
                f'<!DOCTYPE a [<!ENTITY x SYSTEM "{place}">]><a>&x;</a>',
                f'<!DOCTYPE a [<!ENTITY % x SYSTEM "{place}"> %x;]><a>&word;</a>',
                f'<a xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{place}" parse="text"/></a>',
                f'<a xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:noNamespaceSchemaLocation="{place}"/>',
                f'document("{place}")',
                f'{{"$ref": "{place}"}}',
            )
        ]
        lookups = [f"${{jndi:ldap://{self.address}/x}}", f"ldap://{self.address}/x", "${env:PATH}"]
        lookups += ["${PATH}", "$PATH", 'java:java.lang.System.getenv("PATH")']
        return [*places, *documents, *lookups]


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    found = Canaries(tmp_path_factory.mktemp("canaries"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> Batch:
    return Batch(spark)


def examples(batch: Batch, name: str) -> list[str]:
    """Calls with texts that Spark's documentation evaluates of the function; where it has none, with one text and with two."""
    session: Any = batch.spark
    catalog = session._jsparkSession.sessionState().catalog()
    identifier = session._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
    shown = str(catalog.lookupFunctionInfo(identifier).getExamples())
    found = [text for text in re.findall(r"> SELECT (.*?);", shown, re.DOTALL) if " FROM " not in text]
    found = [text for text in found if TEXT.search(text)]
    return [*found[:1], *sampled(found[1:], 4, name)] or [f"{name}('a')", f"{name}('a', 'b')"]


def hostile(example: str, texts: list[str]) -> Iterator[list[str]]:
    """The example with one of its texts replaced by each of these, and then the next one."""
    for place in TEXT.finditer(example):
        quoted = ["'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in texts]
        yield [example[: place.start()] + text + example[place.end() :] for text in quoted]


def computed(batch: Batch, calls: list[str]) -> list[str] | None:
    """What Spark makes of these constants, "" where one throws; None: it refuses one before it is computed."""
    text = f"SELECT {', '.join(calls)}"
    try:
        admit(batch.catalyst, text, ())
        frame: Any = batch.spark.sql(text)
    except (HeadraceError, PySparkException, Py4JError):
        return None
    optimizer: Any = batch.catalyst.jvm.org.apache.spark.sql.catalyst.optimizer
    rule = getattr(getattr(optimizer, "ReplaceExpressions$"), "MODULE$")
    plan = rule.apply(frame._jdf.queryExecution().analyzed())
    return [value(expression) for expression in batch.catalyst.items(plan.expressions())]


def value(expression: Any) -> str:
    with suppress(PySparkException, Py4JError):  # it throws, or is no constant
        return str(expression.child().eval(None))
    return ""


def over_rows(batch: Batch, call: str) -> str:
    with suppress(PySparkException, Py4JError):
        return str(batch.spark.sql(f"SELECT {call} FROM hostile").collect())
    return ""


def named(*lists: str) -> list[str]:
    return [name for names in lists for name in names.split()]


def test_the_canaries_are_seen(canaries: Canaries) -> None:
    canaries.opened()
    before = canaries.connections
    canaries.file.read_text()
    with socket.create_connection(canaries.listener.getsockname()) as one:
        one.recv(1)
    assert (canaries.opened(), canaries.connections - before) == (1, 1)


def test_the_calls_are_computed(batch: Batch) -> None:
    assert computed(batch, ["upper('x')", "to_date('no date')", "xpath_string('<a>b</a>', 'a')"]) == ["X", "", "b"]
    assert computed(batch, ["upper('x')", "upper(1, 2)"]) is None


@pytest.mark.parametrize("name", named(SCALARS, LAMBDAS, CLOCKS[0]))
def test_a_function_of_a_row_reaches_nothing(name: str, batch: Batch, canaries: Canaries) -> None:
    before = canaries.reached()
    for example in examples(batch, name):
        for calls in hostile(example, sampled(canaries.texts(), 4, name)):
            plain, refused = [c for c in calls if "${" not in c], [c for c in calls if "${" in c]
            made = computed(batch, plain)
            if made is None:  # one of them at least: each by itself
                each = [computed(batch, [call]) for call in sampled(plain, 9, name)]
                made = [one for some in each for one in some or ()]
            assert all(computed(batch, [call]) is None for call in refused)
            assert not [one for one in made if canaries.tells(one)]
    assert canaries.reached() == before


@pytest.mark.parametrize("name", named(GENERATORS, AGGREGATES, RANKINGS, *(names for names, _ in CANONICALISED)))
def test_a_function_of_many_rows_reaches_nothing(name: str, batch: Batch, canaries: Canaries) -> None:
    rows = [(text,) for text in canaries.texts()]
    batch.spark.createDataFrame(rows, "h string").createOrReplaceTempView("hostile")
    before = canaries.reached()
    for call in (f"{name}(h)", f"{name}(h, h)", f"{name}(h, 'a')"):
        assert not canaries.tells(over_rows(batch, call))
    assert canaries.reached() == before
