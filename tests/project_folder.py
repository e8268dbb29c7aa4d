"""A project on disk for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class ProjectFolder:
    """A project on disk that a test fills piece by piece; each method writes one file and returns its path."""

    path: Path

    def settings(self, **values: Any) -> Path:
        return self.write("headrace.yaml", yaml.safe_dump({"name": self.path.name, **values}))

    def source(self, name: str, type: str, **options: Any) -> Path:
        return self._define("sources", name, {"type": type, **options})

    def view(self, name: str, sql: str) -> Path:
        return self.write(f"views/{name}.sql", sql.strip() + "\n")

    def sink(self, name: str, type: str, **options: Any) -> Path:
        return self._define("sinks", name, {"type": type, **options})

    def write(self, file: str, text: str) -> Path:
        place = self.path / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        return place

    def _define(self, folder: str, name: str, values: Mapping[str, Any]) -> Path:
        return self.write(f"{folder}/{name}.yaml", yaml.safe_dump(dict(values), sort_keys=False))
