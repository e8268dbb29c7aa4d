"""headrace top"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.following import until_interrupted
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace top                      # again every two seconds
headrace top --once
headrace top --once --json | jq '[.processes[].own] | add'    # bytes of memory
"""
PROCESSES = (("process", "string"), ("pid", "string"), ("cpu", "double"), ("memory", "double"), ("of files", "double"))
FILES = (("files of", "string"), ("number", "bigint"), ("on the disk", "double"), ("in memory", "double"))


def run(
    *,
    every: Annotated[
        float, typer.Option("--every", metavar="S", min=0.1, max=3600, help="Seconds from look to look. Default: 2.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, over those seconds, and end.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show what the running project takes: processor, memory, page cache.

    Looks again and again, until Ctrl-C. Memory that processes share is divided among them, so that it adds up. What
    the page cache has of the log and of the state ("in memory") is the system's to take back when it needs it.

    With --json each look is one line. Needs a running `headrace up`.
    """
    from headrace.control import socket
    from headrace.control.top import between

    path = folder(project)
    with until_interrupted() as stop:
        before = socket.request(path, "top")
        while not stop.wait(every):
            after = socket.request(path, "top")
            answer = between(before, after)
            if json:
                display.emit(answer, line=not once)
            else:
                if sys.stdout.isatty() and not once:
                    display.console().clear()
                show(answer)
            if once:
                return
            before = after


def show(answer: Mapping[str, Any]) -> None:
    """One look as text."""
    machine, jvm = answer["machine"], answer["jvm"]
    own = sum(process["own"] for process in answer["processes"])
    cached = sum(of["cached"] for of in answer["files"])
    display.say(
        f"process {answer['pid']}: commit {answer['commit']:,}, views at {answer['frontier']:,};"
        f" {answer['rows_s']:,.0f} rows, {answer['commits_s']:,.1f} commits, {answer['steps_s']:,.1f} steps a second,"
        f" the last step {1000 * answer['step_seconds']:,.0f} ms"
    )
    display.say(
        f"memory {display.size(own)}, and {display.size(cached)} of its files in the page cache;"
        f" the machine has {display.size(machine['memory'])}, {display.size(machine['available'])} of it available,"
        f" and {display.counted(machine['cores'], 'core')}, load {machine['load']:.2f}\n"
    )
    columns = [{"name": name, "type": kind} for name, kind in PROCESSES]
    display.table(columns, [_process(process) for process in answer["processes"]])
    display.say(
        f"\nJVM: heap {display.size(jvm['heap'])} in use of {display.size(jvm['heap_now'])},"
        f" at most {display.size(jvm['heap_max'])} (driver_memory: {display.plain(machine['driver_memory'])});"
        f" Arrow {display.size(jvm['arrow'])}, other buffers {display.size(jvm['buffers'])},"
        f" classes and code {display.size(jvm['code'])}; garbage collection {100 * jvm['gc']:.1f} % of the time\n"
    )
    columns = [{"name": name, "type": kind} for name, kind in FILES]
    display.table(columns, [_files(of) for of in answer["files"]])


def _process(process: Mapping[str, Any]) -> list[str]:
    cpu = "" if process["cpu"] is None else f"{100 * process['cpu']:.1f} %"
    sizes = [display.size(process[name]) for name in ("own", "mapped")]
    return [display.plain(process["name"]), str(process["pid"]), cpu, *sizes]


def _files(of: Mapping[str, Any]) -> list[str]:
    return [of["name"], f"{of['files']:,}", display.size(of["bytes"]), display.size(of["cached"])]
