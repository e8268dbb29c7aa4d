"""What a project needs and has not: at its sources, its sinks and on this machine. Changes nothing; needs no Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.catalog.project import STATE, read
from headrace.engine import connectors
from headrace.model.definition import Project, SinkDefinition, SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.model.finding import MISSING, OK, WARNING, Finding

JAVA_MIN = 17  # of Spark 4
PYTHON_MIN = (3, 11)
FREE_BYTES_MIN = 1 << 30  # for the log and for what views keep
_JAVA_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


def run(path: Path) -> dict[str, Any]:
    """``{"missing", "warnings", "examined": [{"kind", "name", "findings": [{"state", "what", "next"}]}]}``.

    Raises ``HeadraceError`` where the project's files cannot be read as a whole.
    """
    project = read(path)
    examined = [("machine", "", list(_machine(path)))]
    examined += [("source", d.name, list(_told(_source(d, project)))) for d in project.sources]
    examined += [("sink", d.name, list(_told(_sink(d, project)))) for d in project.sinks]
    states = [finding.state for _, _, findings in examined for finding in findings]
    return {
        "missing": states.count(MISSING),
        "warnings": states.count(WARNING),
        "examined": [
            {
                "kind": kind,
                "name": name,
                "findings": [{"state": f.state, "what": f.what, "next": f.next} for f in findings],
            }
            for kind, name, findings in examined
        ],
    }


def _told(findings: Iterator[Finding]) -> Iterator[Finding]:
    """With what ends them as the last one."""
    try:
        yield from findings
    except HeadraceError as error:
        yield Finding.of(error)


def _source(definition: SourceDefinition, project: Project) -> Iterator[Finding]:
    source = connectors.make_source(definition, project)
    yield from source.examine(lambda table: _mentioned(table, (view.sql for view in project.views)))


def _sink(definition: SinkDefinition, project: Project) -> Iterator[Finding]:
    yield from connectors.make_sink(definition, project).examine()


def _mentioned(table: str, texts: Iterable[str]) -> bool:
    """Whether a query may read the table: who does must name it."""
    word = re.compile(rf"(?<!\w){re.escape(table)}(?!\w)", re.IGNORECASE)
    return any(word.search(text) for text in texts)


# --- this machine ---------------------------------------------------------------------------------------------------


def _machine(path: Path) -> Iterator[Finding]:
    yield _python(sys.version_info[:2])
    yield _java(_java_command())
    yield _spark()
    yield _disk(path)


def _python(version: tuple[int, ...]) -> Finding:
    spelled = ".".join(map(str, version))
    if version < PYTHON_MIN:
        least = ".".join(map(str, PYTHON_MIN))
        return Finding(MISSING, f"Python {spelled} is too old", f"install Python {least} or later")
    return Finding(OK, f"Python {spelled}")


def _java_command() -> str:
    """The one that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else "java"


def _java(command: str) -> Finding:
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
    return (
        Finding(MISSING, f"Java {version} is too old", advice) if version < JAVA_MIN else Finding(OK, f"Java {version}")
    )


def _spark() -> Finding:
    try:
        return Finding(OK, f"PySpark {metadata.version('pyspark')}")
    except metadata.PackageNotFoundError:
        return Finding(MISSING, "PySpark is not installed", "pip install headrace")


def _disk(path: Path) -> Finding:
    folder = path / STATE if (path / STATE).exists() else path
    if not os.access(folder, os.W_OK):
        return Finding(MISSING, f"{folder} cannot be written", f"chmod u+w {folder}, or run as its owner")
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GB are free for {folder}"
    if free < FREE_BYTES_MIN:
        return Finding(
            MISSING, text, f"free some space: at least {FREE_BYTES_MIN >> 30} GB, or move the project's folder"
        )
    return Finding(OK, text)
