"""Definitions as the text of their files, and the files as they are written: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import Any

import yaml

from headrace.catalog.synced import synced
from headrace.model.errors import HeadraceError

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


@contextmanager
def written(path: Path, text: str, *, new: bool, private: bool) -> Iterator[None]:
    """The file has that text, on the disk, and keeps it unless the block fails: then it is the one that it was.

    Who reads meanwhile finds the text before, or this one. A file that is there keeps its mode; a new one that is
    ``private`` is for its owner alone. Raises ``definition.exists`` for one that is to be ``new`` and is there.
    """
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    before = partial.with_name(f"{partial.name}.before")
    with ExitStack() as ends:
        for left in (partial, before):
            left.unlink(missing_ok=True)  # of a process of that number that was killed
            ends.callback(left.unlink, missing_ok=True)
        _write(partial, text, None if new else S_IMODE(path.stat().st_mode), private=private)
        if new:
            _link(partial, path)
        else:
            os.link(path, before)
            partial.replace(path)
        synced(path.parent)
        try:
            yield
        except BaseException:
            if new:
                path.unlink(missing_ok=True)
            else:
                before.replace(path)
            raise


def _link(partial: Path, path: Path) -> None:
    """Over no other file, as a rename would be."""
    try:
        os.link(partial, path)
    except FileExistsError as error:
        raise HeadraceError(
            "definition.exists", "there is such a file already", where=f"{path.parent.name}/{path.name}",
            why="it has appeared meanwhile", next="look at it, then CREATE OR REPLACE",
        ) from error  # fmt: skip


def _write(path: Path, text: str, mode: int | None, *, private: bool) -> None:
    least = 0o600 if private or mode is not None else 0o666
    with open(path, "x", encoding="utf-8", newline="", opener=lambda name, flags: os.open(name, flags, least)) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


class _Representer(yaml.representer.SafeRepresenter):
    """A value that stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
