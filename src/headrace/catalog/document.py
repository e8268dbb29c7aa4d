"""One YAML file of a project: its values, and the line that each key stands on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.model.errors import HeadraceError

SIZE_LIMIT = 1_000_000  # bytes; a definition is written by hand
DEPTH_LIMIT = 40
_TEXT = "tag:yaml.org,2002:str"
_WORDS = ("on", "off", "yes", "no")  # which YAML 1.1 takes for true and false: as a key each is a word
PLACED_DEPTH = 6  # levels down to which the lines of keys and list entries are known


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping read from YAML. ``lines`` holds the line (from 1) of keys, and of list entries by number from 0."""

    shown: str
    values: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int]

    def place(self, *keys: str) -> str:
        """``sources/shop.yaml:3``: where that key stands, or the nearest one above it."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f"{self.shown}:{self.lines[keys]}" if keys else self.shown

    def invalid(self, what: str, *keys: str, why: str = "", next: str = "") -> HeadraceError:
        return HeadraceError("config.invalid", what, where=self.place(*keys), why=why, next=next)

    def unknown(self, key: str, known: Iterable[str], *at: str) -> HeadraceError:
        """The error for a key that nothing reads, with the nearest one that exists; ``at``: the keys down to it."""
        known = sorted(known)
        return HeadraceError(
            "config.unknown_key",
            f"unknown key '{key}'",
            where=self.place(*(at or (key,))),
            why="nothing reads it",
            next=did_you_mean(key, known) or f"known keys: {', '.join(known)}",
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` for the nearest known word, or nothing."""
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), folded, n=1)
    return f"did you mean '{folded[near[0]]}'?" if near else ""


def load(path: Path, root: Path) -> Document:
    """The document in ``path``: see ``parse``. Raises the same for a file that cannot be read or is not UTF-8."""
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return parse(read_text(path, shown), shown)


def parse(text: str, shown: str) -> Document:
    """The document of that text, of a file that is shown as ``shown``; an empty text is an empty mapping.

    Only plain YAML is taken (no tags that make objects). Raises ``HeadraceError`` (config.invalid) with
    file and line for text that is not YAML, for a key written twice and for a key that is no text.
    """
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)  # which looks through the text for what YAML cannot hold
        node = loader.get_single_node()
        if node is None:
            return Document(shown, {}, {})
        if not isinstance(node, yaml.MappingNode):
            raise HeadraceError("config.invalid", f"{shown} is not a list of 'key: value' lines", where=f"{shown}:1")
        places = _Places(shown)
        places.walk(node, ())
        values = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, shown) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise HeadraceError("config.invalid", f"{shown} is not YAML", where=shown, why=str(error)) from error
    finally:
        if loader is not None:
            loader.dispose()
    return Document(shown, values, places.lines)


def read_text(path: Path, shown: str) -> str:
    """The text of a file written by hand; errors say what is wrong with it."""
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise HeadraceError("config.invalid", f"{shown} is larger than {SIZE_LIMIT:,} bytes", where=shown)
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise HeadraceError(
            "config.invalid",
            f"{shown} is not UTF-8 text",
            where=f"{shown}, byte {error.start}",
            next="save it as UTF-8",
        ) from error
    except OSError as error:
        raise HeadraceError(
            "config.invalid", f"{shown} cannot be read", where=shown, why=error.strerror or str(error)
        ) from error


class _Places:
    """The lines of the keys; on the way it refuses what YAML would pass over in silence."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.lines: dict[tuple[str, ...], int] = {}
        self.seen: set[int] = set()  # an alias is the same node again: each is walked once

    def walk(self, node: yaml.Node, at: tuple[str, ...]) -> None:
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        if len(at) > DEPTH_LIMIT:
            raise HeadraceError("config.invalid", f"more than {DEPTH_LIMIT} levels", where=self.place(node))
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                entry = (*at, str(number))
                if len(at) < PLACED_DEPTH:
                    self.lines[entry] = item.start_mark.line + 1
                self.walk(item, entry)
        elif isinstance(node, yaml.MappingNode):
            self.keys(node, at)

    def keys(self, node: yaml.MappingNode, at: tuple[str, ...]) -> None:
        names: set[str] = set()
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise HeadraceError("config.invalid", "merge keys ('<<') are not taken", where=self.place(key))
            if key.tag == "tag:yaml.org,2002:bool" and key.value in _WORDS:
                key.tag = _TEXT
            if key.tag != _TEXT:
                written = key.value if isinstance(key, yaml.ScalarNode) else "(a list or mapping)"
                hint = f'write "{written}":'
                raise HeadraceError(
                    "config.invalid", f"the key {written} is not text to YAML", where=self.place(key), next=hint
                )
            if key.value in names:
                raise HeadraceError("config.invalid", f"the key '{key.value}' is written twice", where=self.place(key))
            names.add(key.value)
            if len(at) < PLACED_DEPTH:
                self.lines[(*at, key.value)] = key.start_mark.line + 1
            self.walk(value, (*at, key.value))

    def place(self, node: yaml.Node) -> str:
        return f"{self.shown}:{node.start_mark.line + 1}"


def _not_yaml(error: yaml.MarkedYAMLError, shown: str) -> HeadraceError:
    mark = error.problem_mark or error.context_mark
    where = f"{shown}:{mark.line + 1}:{mark.column + 1}" if mark else shown
    why = "; ".join(text for text in (error.context, error.problem) if text)
    hint = "indent with spaces, not tabs" if "\\t" in why else ""
    return HeadraceError("config.invalid", f"{shown} is not YAML", where=where, why=why, next=hint)
