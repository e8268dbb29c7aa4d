"""What this machine lacks for running a project: Python, Java, Spark, memory, space on its disks. Changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from headrace.catalog.project import STATE
from headrace.engine import archive
from headrace.model.definition import Settings
from headrace.model.finding import MISSING, OK, WARNING, Finding

JAVA_MIN = 17  # of Spark 4
PYTHON_MIN = (3, 11)
FREE_BYTES_MIN = 1 << 30  # for the log and for what views keep
TEMPORARY_BYTES_MIN = 100 << 20  # for what Spark sets down while it sorts
# What runs beside the driver's heap: the rest of its Java process, our own, and the Python workers.
BESIDE_BYTES = 1 << 30
_UNARCHIVED = "its classes are read and verified anew each time, which takes some seconds"
_JAVA_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # of a container


def examine(path: Path, settings: Settings) -> Iterator[Finding]:
    """Of the project in ``path``."""
    yield python(sys.version_info[:2])
    yield java(_java_command())
    yield from _spark()
    yield memory(settings, memory_bytes())
    yield disk(path / STATE if (path / STATE).exists() else path, FREE_BYTES_MIN, "move the project's folder")
    yield temporary(os.environ.get("TMPDIR"), Path(tempfile.gettempdir()))


def python(version: tuple[int, ...]) -> Finding:
    spelled = ".".join(map(str, version))
    if version < PYTHON_MIN:
        least = ".".join(map(str, PYTHON_MIN))
        return Finding(MISSING, f"Python {spelled} is too old", f"install Python {least} or later")
    return Finding(OK, f"Python {spelled}")


def _java_command() -> str:
    """The one that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else "java"


def java(command: str) -> Finding:
    advice = (
        f"install Java {JAVA_MIN} or later (apt-get install openjdk-{JAVA_MIN}-jre-headless), or set JAVA_HOME to one"
    )
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(MISSING, f"Java cannot be started: {command} ({type(error).__name__})", advice)
    found = _JAVA_VERSION.search(done.stderr + done.stdout)
    if found is None:
        return Finding(MISSING, f"{command} -version tells no version", advice)
    version = int(found[2] or 0) if found[1] == "1" else int(found[1])  # Java 8 calls itself 1.8
    if version < JAVA_MIN:
        return Finding(MISSING, f"Java {version} is too old", advice)
    return Finding(OK, f"Java {version}")


def _spark() -> Iterator[Finding]:
    try:
        yield Finding(OK, f"PySpark {metadata.version('pyspark')}")
    except metadata.PackageNotFoundError:
        yield Finding(MISSING, "PySpark is not installed", "pip install headrace")
        return
    if archive.place().exists():
        yield Finding(OK, "Spark starts with a class archive")
    else:
        advice = f"{sys.executable} -m {archive.__name__}"
        yield Finding(WARNING, "Spark starts without a class archive", advice, why=_UNARCHIVED)


def memory_bytes() -> int:
    """What this process may use: of the machine, or of the container that it runs in."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _LIMITS:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return min(limits)


def memory(settings: Settings, there: int) -> Finding:
    """``there``: bytes of memory."""
    text = f"driver_memory is {settings.driver_memory}, the memory of this machine {_gigabytes(there)}"
    where, fits = "headrace.yaml", max(1, (there - BESIDE_BYTES) >> 30)
    advice = f"write into headrace.yaml: driver_memory: {fits}g"
    if settings.driver_bytes >= there:
        return Finding(MISSING, text, advice, where, why="the kernel would end Spark's Java process when it fills")
    if settings.driver_bytes + BESIDE_BYTES > there:
        why = f"about {_gigabytes(BESIDE_BYTES)} more are needed beside it"
        return Finding(WARNING, text, advice, where, why=why)
    return Finding(OK, text)


def disk(folder: Path, least: int, otherwise: str) -> Finding:
    """Whether ``folder`` can be written, with ``least`` bytes free; ``otherwise``: what else helps."""
    if not os.access(folder, os.W_OK):
        return Finding(MISSING, f"{folder} cannot be written", f"chmod u+w {folder}, or run as its owner")
    free = shutil.disk_usage(folder).free
    text = f"{_gigabytes(free)} are free for {folder}"
    if free < least:
        return Finding(MISSING, text, f"free some space: at least {_gigabytes(least)}; or {otherwise}")
    return Finding(OK, text)


def _gigabytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GB"


def temporary(asked: str | None, used: Path) -> Finding:
    """Whether the folder ``used`` for what is set down meanwhile has room; Python passes over one that was ``asked``
    for by TMPDIR and cannot be written."""
    if asked and Path(asked).absolute() != used:
        why = f"no file can be written there, so that {used} is used"
        return Finding(WARNING, f"TMPDIR is {asked}", f"mkdir -p {asked}, or unset TMPDIR", why=why)
    return disk(used, TEMPORARY_BYTES_MIN, "set TMPDIR to a folder of a larger disk")
