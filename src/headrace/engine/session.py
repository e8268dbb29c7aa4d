"""The only maker of a SparkSession: every setting that prepared circuits and the laws depend on is pinned here."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.circuit.operators import REVISION
from headrace.circuit.operators.recursion import LEVELS
from headrace.engine.archive import place
from headrace.engine.bridge import remember_names
from headrace.engine.lost import quiet
from headrace.engine.scratch import folder, sockets
from headrace.engine.standard_error import without_noise
from headrace.model.definition import Settings

# Rules that would put into a plan what a circuit cannot step: shared sub-plans, Bloom filters, hints, sums of short
# decimals as those of integers (which wraps the function of a window). And one after which a correlated subquery comes
# between a LIMIT and its order, which Spark then drops: other rows are taken than the text says.
EXCLUDED_RULES = (
    "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",
    "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates",
    "org.apache.spark.sql.catalyst.optimizer.MergeSubplans",
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
    "org.apache.spark.sql.catalyst.optimizer.InjectRuntimeFilter",
    "org.apache.spark.sql.catalyst.optimizer.InferWindowGroupLimit",
)

PINNED: dict[str, str] = {
    # By its text an expression is told from others: all of it has to be there.
    "spark.sql.debug.maxToStringFields": "2147483647",
    # A cloned plan with a reused exchange or a broadcast answers with an older step's rows.
    "spark.sql.exchange.reuse": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.cbo.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(EXCLUDED_RULES),
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.optimizer.disableHints": "true",  # queries are planned here
    "spark.sql.join.asofJoin.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.cteRecursionLevelLimit": str(LEVELS),
    "spark.sql.cteRecursionRowLimit": "-1",
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Without Unix sockets every Python stage waits 40 ms for a delayed TCP acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "headrace.engine.daemon",
    # Its worker would import what lies in the folder that the command was begun in before what is installed.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    # What bounds a batch whose rows are short, see ``circuit/prepare``.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.shuffle.compress": "false",
    "spark.speculation": "false",
    # A row for which there is no room fails the view that it is in, not the process that all of them live in.
    "spark.executor.killOnFatalError.depth": "0",
    # Where in the source a column was made is asked of the JVM, and told to it, at every call of a function.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Others on the machine reach Spark's ports; no further without the secret, which each process makes of its own.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cleaner.periodicGC.interval": "2min",
    "spark.sql.legacy.allowNonEmptyLocationInCTAS": "false",
}


# The optimizing compiler drains a backlog in three quarters of the time; it takes what is ten times as hot as by
# default, since small steps share their two cores with its threads. By itself the JVM would set aside less room for
# compiled code than some dozens of views fill: what is in use would be thrown out and compiled anew. Arrow's Java would
# look at the bounds of each value that Spark's own readers and writers take and give: a seventh of their time. The heap
# would grow to all that it may have before the first whole collection; one every two minutes (of 70 MiB in use, a tenth
# of a second) gives back what it does not need.
JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=50"
    " -Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
OPTIMIZING = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000"
)
# Who plans, or runs a few rows, ends before optimized code has paid for its making: a third less of processor time.
QUICK = "-XX:TieredStopAtLevel=1"


def java_options(*, brief: bool = False) -> str:
    """Options of the driver's JVM; ``HEADRACE_JAVA_OPTIONS`` takes the place of the product's own."""
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    ours = f"{JAVA_OPTIONS} {QUICK if brief else OPTIMIZING}"
    options = f"{shlex.quote(f'-Djava.io.tmpdir={folder()}')} {os.environ.get('HEADRACE_JAVA_OPTIONS', ours)} {quiet}"
    writing = os.environ.get("HEADRACE_JAVA_ARCHIVE")
    if writing:
        return f"{options} -XX:ArchiveClassesAtExit={writing}"
    archive = place()
    return (
        f"{options} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
        if archive.exists()
        else options
    )


# What XML that is in a row may make its parser do: reach nothing, and make little of what it declares itself.
XML = {
    "javax.xml.accessExternalDTD": "",
    "javax.xml.accessExternalSchema": "",
    "javax.xml.accessExternalStylesheet": "",
    "jdk.xml.enableExtensionFunctions": "false",
    "jdk.xml.overrideDefaultParser": "false",
    "jdk.xml.entityExpansionLimit": "1000",
    "jdk.xml.totalEntitySizeLimit": "1000000",
    "jdk.xml.maxElementDepth": "1000",
}

_WORKERS = "spark.executorEnv."
# By itself the C library gives arrays of more than some hundred kilobytes back at once, and the kernel clears new pages
# for the next ones: up to a tenth of a large step. What a worker keeps so ``memory.give_back`` gives back.
KEPT = {
    f"{_WORKERS}MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that it takes
    f"{_WORKERS}MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
# Where memory is short a worker keeps nothing: Arrow's allocator alone would hold 100 MB for the next long rows.
GIVEN_BACK = {f"{_WORKERS}MIMALLOC_PURGE_DELAY": "0"}
SHORT_BYTES = 1 << 30

# Of the kernel's 20 degrees of politeness: a third of the time of one that has none, where both want all of it.
YIELDING = 5

# One process has no network to lose its executor over: a machine that slept must not be taken for one that died.
LOCAL = {"spark.network.timeout": "30d", "spark.rpc.askTimeout": "120s", "spark.rpc.lookupTimeout": "120s"}


def project_settings(settings: Settings) -> dict[str, str]:
    """What a project's settings mean to a session."""
    return {
        "spark.sql.session.timeZone": settings.time_zone,
        "spark.sql.ansi.enabled": str(settings.ansi).lower(),
        "spark.sql.shuffle.partitions": str(settings.partitions),
    }


def freed(settings: Settings) -> dict[str, str]:
    """What workers do with memory that they have freed, as their allocators read it when they start."""
    return GIVEN_BACK if settings.driver_bytes < SHORT_BYTES else KEPT


# The settings that decide what a query gives.
MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")


def computed_by(session: SparkSession) -> str:
    """What decides, beside its nodes, what a view holds and keeps: Spark, its settings, and the operators' revision."""
    text = repr((session.version, [session.conf.get(key) for key in MEANING], REVISION))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def settled(session: SparkSession, settings: Settings) -> SparkSession:
    """The session, made as ``open_session`` makes one as far as that can be done later."""
    for key, value in {**PINNED, **project_settings(settings)}.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return _quick(session)


def _quick(session: SparkSession) -> SparkSession:
    jvm: Any = session.sparkContext._jvm
    remember_names(jvm)
    for key, value in XML.items():  # said to the JVM itself: what it was started with does not count
        jvm.java.lang.System.setProperty(key, value)
    quiet(session)
    _end_at_once(session)
    return session


def _end_at_once(session: SparkSession) -> None:
    """Spark's server of accumulators, which nothing here uses, looks once a second whether to end: not waited for."""
    server: Any = session.sparkContext._accumulatorServer
    if "shutdown" in vars(server):
        return
    shutdown = server.shutdown

    def begin() -> None:
        if isinstance(server.server_address, str):
            Path(server.server_address).unlink(missing_ok=True)  # the process may end before the server does
        threading.Thread(target=shutdown, name="headrace-accumulators", daemon=True).start()

    server.shutdown = begin


def open_session(settings: Settings, *, brief: bool = False, yielding: bool = False) -> SparkSession:
    """The session of this process, made on first use; about 3 s for the JVM.

    ``brief``: the process plans, or runs a few rows, and ends. ``yielding``: where processors are short, Spark's
    processes give way to others, such as those that answer readers.
    """
    _forget_ended()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    local = LOCAL if settings.master.startswith("local") else {}
    conf = SparkConf(loadDefaults=False).setMaster(settings.master).setAppName("headrace")
    conf.setAll([*PINNED.items(), *local.items(), *freed(settings).items(), *project_settings(settings).items()])
    conf.set("spark.driver.memory", settings.driver_memory)
    conf.set("spark.python.unix.domain.socket.dir", str(sockets(folder())))
    conf.set("spark.driver.extraJavaOptions", java_options(brief=brief))
    builder = SparkSession.builder.config(conf=conf)
    if SparkSession.getActiveSession() is not None:
        return _quick(builder.getOrCreate())
    with without_noise():
        if yielding and SparkContext._gateway is None:
            _launch_yielding(conf)
        context = SparkContext.getOrCreate(conf)
        jvm: Any = context._jvm
        made = jvm.org.apache.spark.sql.classic.SparkSession.builder().config(dict(conf.getAll()))
        with _without_providers(jvm):
            session = made.getOrCreate()
        return _quick(SparkSession(context, session))


def _forget_ended() -> None:
    """PySpark keeps what leads to its Java process for the life of this one: where it has ended, another one begins."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None or process.poll() is None:
        return
    with contextlib.suppress(Exception):  # nobody is at its other end
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextlib.contextmanager
def _without_providers(jvm: Any) -> Iterator[None]:
    """Inside, a session that is made looks for no extensions on the class path, which nothing here admits in SQL.

    Those of MLlib, the only ones that Spark has itself, take half of the time in which a session is made.
    """
    thread = jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    thread.setContextClassLoader(jvm.java.lang.ClassLoader.getPlatformClassLoader())
    try:
        yield
    finally:
        thread.setContextClassLoader(loader)


def _launch_yielding(conf: SparkConf) -> None:
    """Begin the JVM in a thread of less priority, which it and its Python workers have from who began them."""
    with ThreadPoolExecutor(1, initializer=_yield) as thread:
        SparkContext._ensure_initialized(gateway=thread.submit(launch_gateway, conf).result())


def _yield() -> None:
    with contextlib.suppress(OSError):  # where threads have no priority of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), YIELDING)
