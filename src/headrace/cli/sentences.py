"""What a pipeline tells, as sentences for people; with ``--json`` an event is as it was told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.cli import display

# event -> its sentence; an event that has a text of its own is told by that.
SENTENCES = {
    "engine.failed": "the engine has failed",
    "log.retained": "the log begins with commit {first:,} now",
    "sink.anew": "sink {sink} gets all views anew: {reason}",
    "sink.failed": "sink {sink} fails",
    "sink.left_behind": "sink {sink} gets its views anew: it stood at commit {commit:,}, the log begins with {first:,}",
    "sink.quarantined": "sink {sink} cannot hold all rows of {view}: {rows:,} are set aside in its store",
    "sink.recovered": "sink {sink} goes on",
    "sink.repaired": "sink {sink} is repaired, rows: {rows:,}",
    "source.failed": "source {source} fails",
    "source.quarantined": "source {source} could not read rows of {table}, {rows:,} of {place}: {reason}",
    "source.recovered": "source {source} goes on",
    "source.started": "source {source} has started",
    "state.anew": "{reason}",
    "table.quarantined": "table {table} could not take changes by commit {commit:,}; in the quarantine: {rows:,}",
    "view.built": "view {view} is built, version {version}, rows: {rows:,}, in {seconds:.1f} s",
    "view.healed": "view {view} is back at commit {commit:,}, rows: {rows:,}",
    "view.quarantined": "view {view} goes on without a row of commit {commit:,}, {row}: {reason}",
    "view.refused": "view {view} is refused",
}


def sentence(event: Mapping[str, Any]) -> str:
    """The event's own text, its sentence, or its name and values: ``discover.failed: source=shop``."""
    name = str(event.get("event", "event"))
    if event.get("text"):
        return display.plain(event["text"])
    if name in SENTENCES:
        return display.plain(SENTENCES[name].format_map(event))
    values = {key: value for key, value in event.items() if key not in ("event", "error")}
    words = [f"{key}={', '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in values.items()]
    return display.plain(": ".join(part for part in (name, " ".join(words)) if part))
