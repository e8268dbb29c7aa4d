"""headrace version"""

from __future__ import annotations

import platform

from headrace import __version__
from headrace.cli import display
from headrace.cli.options import JsonOption

EPILOG = """
headrace version --json
"""
PACKAGES = ("pyspark", "pyarrow", "duckdb", "psycopg")


def run(json: JsonOption = False) -> None:
    """Show the versions that a report of a fault needs."""
    from importlib.metadata import version

    versions = {"headrace": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in PACKAGES}
    if json:
        display.emit(versions)
        return
    for name, text in versions.items():
        display.say(f"{name:<9} {text}")
