"""What is measured, in Prometheus's text format."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)  # upper bounds of requests
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Requests:
    """Requests by route, method and status, and how long until they were answered. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, str], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """``route``: with the names of its parameters, so that there are few of them."""
        with self._lock:
            key = (route, method, str(status))
            self._counts[key] = self._counts.get(key, 0) + 1
            buckets = self._buckets.setdefault(route, [0] * (len(SECONDS) + 1))
            buckets[next((n for n, bound in enumerate(SECONDS) if seconds <= bound), len(SECONDS))] += 1
            self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def lines(self) -> Iterator[str]:
        with self._lock:
            counts, seconds = dict(self._counts), dict(self._seconds)
            buckets = {route: list(of) for route, of in self._buckets.items()}
        yield from _family(
            "headrace_api_requests_total", "counter", "Requests that were answered",
            (({"route": route, "method": method, "status": code}, n) for (route, method, code), n in counts.items()),
        )  # fmt: skip
        name = "headrace_api_request_seconds"
        yield from (f"# HELP {name} How long until an answer began", f"# TYPE {name} histogram")
        for route, of in buckets.items():
            total = 0
            for bound, count in zip([*(f"{s:g}" for s in SECONDS), "+Inf"], of, strict=True):
                total += count
                yield _line(f"{name}_bucket", {"route": route, "le": bound}, total)
            yield _line(f"{name}_sum", {"route": route}, seconds[route])
            yield _line(f"{name}_count", {"route": route}, total)


def text(status: Mapping[str, Any], usage: Mapping[str, Any], requests: Requests, readers: int) -> str:
    """A status and what `top` tells, as one page. ``readers``: those that follow views."""
    views, sources, sinks = status["views"], status["sources"], status["sinks"]
    families: list[tuple[str, str, str, list[tuple[Labels, Any]]]] = [
        ("headrace_commits_total", "counter", "Commits of the log", [({}, status["commit"])]),
        ("headrace_frontier_commit", "gauge", "The commit that live views have reached", [({}, status["frontier"])]),
        ("headrace_steps_total", "counter", "Steps since the start", [({}, status["steps"])]),
        ("headrace_step_seconds", "gauge", "How long the last step took", [({}, status["step_seconds"])]),
        ("headrace_view_commit", "gauge", "The commit that a view has reached", _of(views, "view", "commit")),
        ("headrace_view_lag_seconds", "gauge", "Age of what a view lacks", _of(views, "view", "behind_s")),
        ("headrace_view_up", "gauge", "1 for a view that is live", _up(views, "view", "live")),
        ("headrace_source_rows_total", "counter", "Rows that a source brought", _of(sources, "source", "rows")),
        ("headrace_source_backlog_rows", "gauge", "Rows that wait to be taken", _of(sources, "source", "backlog")),
        ("headrace_source_queued_bytes", "gauge", "Bytes before the log", _of(sources, "source", "queued_bytes")),
        ("headrace_source_up", "gauge", "1 for a source that runs", _up(sources, "source", "running")),
        ("headrace_sink_commit", "gauge", "The commit that a sink has reached", _of(sinks, "sink", "frontier")),
        ("headrace_sink_lag_commits", "gauge", "Commits that a sink lacks", _of(sinks, "sink", "lag")),
        ("headrace_sink_lag_seconds", "gauge", "Age of what a sink lacks", _of(sinks, "sink", "behind_s")),
        ("headrace_sink_rows_total", "counter", "Rows that a sink was given", _of(sinks, "sink", "rows")),
        ("headrace_sink_up", "gauge", "1 for a sink that runs", _up(sinks, "sink", "running")),
        ("headrace_quarantine_rows", "gauge", "Entries of the quarantine", _quarantined(status)),
        ("headrace_stored_bytes", "gauge", "Bytes on the disk", _stored(usage["files"])),
        ("headrace_memory_bytes", "gauge", "Memory of processes, by their kind", _memory(usage["processes"])),
        ("headrace_jvm_heap_bytes", "gauge", "Used heap of the JVM", [({}, usage["jvm"]["heap"])]),
        ("headrace_live_readers", "gauge", "Who follows views", [({}, readers)]),
    ]  # fmt: skip
    lines = [line for family in families for line in _family(*family)]
    return "\n".join([*lines, *requests.lines()]) + "\n"


def _of(parts: Iterable[Mapping[str, Any]], label: str, value: str) -> list[tuple[Labels, Any]]:
    return [({label: part["name"]}, part[value]) for part in parts if isinstance(part.get(value), int | float)]


def _up(parts: Iterable[Mapping[str, Any]], label: str, state: str) -> list[tuple[Labels, Any]]:
    return [({label: part["name"]}, int(part["state"] == state)) for part in parts]


def _quarantined(status: Mapping[str, Any]) -> list[tuple[Labels, Any]]:
    """Of tables and views; of a sink with its name."""
    found: dict[tuple[str, str], tuple[Labels, int]] = {}
    for kind in ("sources", "views", "sinks"):
        for part in status[kind]:
            sink = {"sink": part["name"]} if kind == "sinks" else {}
            for name, count in (part.get("quarantined") or {}).items():
                found[sink.get("sink", ""), name] = ({"relation": name, **sink}, count)
    return list(found.values())


def _stored(folders: Iterable[Mapping[str, Any]]) -> list[tuple[Labels, Any]]:
    return [({"of": folder["name"]}, folder["bytes"]) for folder in folders]


def _memory(processes: Iterable[Mapping[str, Any]]) -> list[tuple[Labels, Any]]:
    found: dict[str, int] = {}
    for process in processes:
        found[process["name"]] = found.get(process["name"], 0) + process["own"]
    return [({"process": name}, size) for name, size in found.items()]


def _family(name: str, kind: str, meaning: str, values: Iterable[tuple[Labels, Any]]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        yield _line(name, labels, value)


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
