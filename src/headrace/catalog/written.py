"""Definitions as the text of their files, and the files as they are written: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

WIDTH = 120  # columns, of a line that has spaces to be broken at


def connector_text(type: str, options: Mapping[str, Any]) -> str:
    """``sources/NAME.yaml`` or ``sinks/NAME.yaml``: a line for each option, and what has no inner level on one line."""
    innermost: Any = None  # what yaml calls the style that has innermost mappings and lists on one line
    node: Any = _Representer(default_flow_style=innermost, sort_keys=False).represent_data({"type": type, **options})
    node.flow_style = False
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=WIDTH)
    return text


def view_text(sql: str, settings: Mapping[str, str]) -> str:
    """``views/NAME.sql``: ``settings`` are the comments that it begins with, e.g. ``on_error``."""
    return "".join(f"-- {name}: {value}\n" for name, value in settings.items()) + sql.strip() + "\n"


def write(path: Path, text: str) -> None:
    """On the disk once it returns; who reads meanwhile finds the text before, or this one."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _Representer(yaml.representer.SafeRepresenter):
    """A value that stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
