"""A project folder -> ``Project``: headrace.yaml, sources/*.yaml, views/*.sql, sinks/*.yaml, functions/*.py.

Nothing is connected to, no code is run and no secret is resolved here; a connector's own options stay as they were
written and are checked by the connector. Definitions are sorted by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import secrets
import zoneinfo
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headrace.catalog.api import read_api
from headrace.catalog.document import Document, did_you_mean, load, parse, read_text
from headrace.catalog.functions import FOLDER, read_functions
from headrace.catalog.psql import read_psql
from headrace.catalog.retention import read_audit, read_retention
from headrace.model.definition import Project, Settings, SinkDefinition, SourceDefinition, ViewDefinition
from headrace.model.errors import HeadraceError

FILE = "headrace.yaml"
STATE = ".headrace"  # everything that Headrace keeps of a project
HISTORY = "history"  # the file with what ``history`` gives
ADDRESS = Path(STATE) / "api.json"  # where a running project answers, and how often what does had to begin anew
DRIVER_BYTES_MIN = 500 << 20
ID_NAME = 20  # characters of a project's name in its identity: room is left for a source's name behind it
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_Read = TypeVar("_Read")
SOURCE_KEYS = ("type", "when_full", "max_backlog", "waits_for")
SINK_KEYS = ("type", "views", "searches", "keys")


def find(start: Path) -> Path:
    """The nearest folder with a headrace.yaml, from ``start`` upward; ``project.not_found`` when there is none."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder
    raise _not_found(start, f"there is no {FILE} here or in a folder above")


def at(folder: Path) -> Path:
    """``folder`` itself, made absolute, when it is a project; else ``project.not_found``."""
    folder = folder.resolve()
    if not (folder / FILE).is_file():
        raise _not_found(folder, f"there is no {FILE} in it" if folder.is_dir() else "there is no such folder")
    return folder


def read(folder: Path) -> Project:
    """The project in ``folder``.

    Raises ``HeadraceError``: ``project.not_found``, ``config.invalid``, ``config.unknown_key`` or
    ``view.unknown`` (a sink that names a view that is not there), each with file and line.
    """
    project, wrong = survey(folder)
    if wrong:
        raise wrong[0]
    return project


def survey(folder: Path) -> tuple[Project, list[HeadraceError]]:
    """All of the project in ``folder`` that can be read, and what is wrong with each file that cannot.

    Raises ``HeadraceError``: ``project.not_found``.
    """
    folder = at(folder)
    wrong: list[HeadraceError] = []

    def told(read: Callable[[], _Read], instead: _Read) -> _Read:
        try:
            return read()
        except HeadraceError as error:
            wrong.append(error)
            return instead

    def each(kind: str, suffix: str, one: Callable[[str, Path], _Read]) -> tuple[_Read, ...]:
        found = (told(partial(one, name, path), None) for name, path in files(folder, kind, suffix, wrong))
        return tuple(definition for definition in found if definition is not None)

    def shown(path: Path) -> str:
        return path.relative_to(folder).as_posix()

    views, sinks = ([name for name, _ in files(folder, *kind, [])] for kind in (("views", ".sql"), ("sinks", ".yaml")))
    project = Project(
        path=folder,
        settings=told(
            lambda: _settings(load(folder / FILE, folder), folder, sinks), Settings(name=folder.name or "headrace")
        ),
        sources=each("sources", ".yaml", lambda name, path: _source(load(path, folder), name, path, sinks)),
        views=each("views", ".sql", lambda name, path: _view(read_text(path, shown(path)), name, path, shown(path))),
        sinks=each("sinks", ".yaml", lambda name, path: _sink(load(path, folder), name, path, views)),
        functions=told(lambda: read_functions(files(folder, FOLDER, ".py"), folder), ()),
    )
    return project, wrong


def with_definition(project: Project, kind: str, name: str, text: str) -> Project:
    """The project as it would be with that text as the file of a source, view or sink; nothing is written.

    Raises what ``read`` would of that file.
    """
    shown = place(kind, name)
    check_name(shown, name)
    made: SourceDefinition | ViewDefinition | SinkDefinition
    if kind == "view":
        made = _view(text, name, None, shown)
    elif kind == "source":
        made = _source(parse(text, shown), name, None, [sink.name for sink in project.sinks])
    else:
        made = _sink(parse(text, shown), name, None, [view.name for view in project.views])
    changed: dict[str, Any] = {
        f"{kind}s": tuple(
            sorted((*_of(without_definition(project, kind, name), kind), made), key=lambda each: each.name)
        )
    }
    return dataclasses.replace(project, **changed)


def without_definition(project: Project, kind: str, name: str) -> Project:
    """The project as it would be without the file of that source, view or sink."""
    changed: dict[str, Any] = {f"{kind}s": tuple(each for each in _of(project, kind) if each.name != name)}
    return dataclasses.replace(project, **changed)


def _of(project: Project, kind: str) -> tuple[Any, ...]:
    return {"source": project.sources, "view": project.views, "sink": project.sinks}[kind]


def place(kind: str, name: str) -> str:
    """Where a source, view or sink is defined, as seen from the project's folder."""
    return f"{kind}s/{name}{'.sql' if kind == 'view' else '.yaml'}"


def identity(project: Project) -> str:
    """``NAME_ID``: tells the project from all others, also from one of the same name, and stays when it is moved.

    The id is in ``.headrace/id``, made at the first call: it goes with what it names.
    """
    return f"{project.settings.name[:ID_NAME]}_{_made_once(project.path / STATE / 'id')}"


def history(project: Project) -> str:
    """What tells the commits of this log from those of any other; a project that is restored begins another one."""
    return _made_once(project.path / STATE / HISTORY)


def _made_once(path: Path) -> str:
    """The random word in that file, which is made when it is missing."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            partial.write_text(secrets.token_hex(4) + "\n", encoding="ascii")
            with contextlib.suppress(FileExistsError):  # another command of the same moment was first
                path.hardlink_to(partial)
        finally:
            partial.unlink(missing_ok=True)
    return path.read_text(encoding="ascii").strip()


def _not_found(folder: Path, why: str) -> HeadraceError:
    return HeadraceError(
        "project.not_found",
        f"{folder} is not a Headrace project",
        where=str(folder),
        why=why,
        next="`headrace init DIR` makes a project; `--project DIR` names one that exists",
    )


def files(folder: Path, kind: str, suffix: str, wrong: list[HeadraceError] | None = None) -> Iterator[tuple[str, Path]]:
    """(name, path) of every definition of that kind; what looks like one but would not be read is refused.

    With ``wrong`` what is refused is added to it, and the others are given all the same.
    """
    names: dict[str, str] = {}
    room = folder / kind
    for path in sorted(room.iterdir()) if room.is_dir() else []:
        try:
            if _defines(path, kind, suffix, names):
                yield path.stem, path
        except HeadraceError as error:
            if wrong is None:
                raise
            wrong.append(error)


def _defines(path: Path, kind: str, suffix: str, names: dict[str, str]) -> bool:
    """Whether the file is a definition; ``names``: those before it, lower case, to which its own is added."""
    shown = f"{kind}/{path.name}"
    if path.name.startswith("."):
        return False
    if path.is_dir():
        if any(path.glob(f"**/*{suffix}")):
            raise HeadraceError(
                "config.invalid", f"files in {shown}/ are not read", where=shown, next=f"move them to {kind}/"
            )
        return False
    if path.suffix == ".yml" or (path.suffix != suffix and path.suffix.lower() == suffix):
        raise HeadraceError(
            "config.invalid", f"{shown} is not read", where=shown, next=f"rename it to {path.stem}{suffix}"
        )
    if path.suffix != suffix:
        return False
    check_name(shown, path.stem, suffix)
    if path.stem.lower() in names:
        raise HeadraceError(
            "config.invalid",
            f"{shown} and {names[path.stem.lower()]} have the same name",
            where=shown,
            why="names in SQL do not tell upper from lower case",
        )
    names[path.stem.lower()] = shown
    return True


def check_name(where: str, name: str, suffix: str = "") -> None:
    """Raises ``HeadraceError`` (config.invalid) for what cannot be the name of a view, a table or a connector."""
    if _NAME.fullmatch(name) is None:
        raise HeadraceError(
            "config.invalid",
            f"'{name}' cannot be a name",
            where=where,
            why="a name has letters, digits and '_', starts with no digit and has at most 63 characters",
            next=f"rename it, e.g. to {_as_name(name)}{suffix}",
        )


def _as_name(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:60] or "name"
    return f"_{word}" if word[0].isdigit() else word


def _view(sql: str, name: str, path: Path | None, shown: str) -> ViewDefinition:
    # A comment without an end takes the rest: it is looked through once.
    if not re.sub(r"--[^\n]*|/\*(?:.*?\*/|.*)", "", sql, flags=re.DOTALL).strip().rstrip(";").strip():
        raise HeadraceError("config.invalid", f"{shown} has no SQL", where=shown, next="write one SELECT, or remove it")
    return ViewDefinition(name, sql, path)


def _source(document: Document, name: str, path: Path | None, sinks: list[str]) -> SourceDefinition:
    kind = _type(document, SOURCE_KEYS)
    when_full, most = document.values.get("when_full", "wait"), document.values.get("max_backlog")
    if when_full not in ("wait", "refuse", "drop"):
        hint = did_you_mean(str(when_full), ["wait", "refuse", "drop"]) or "when_full: wait"
        raise document.invalid("'when_full' must be wait, refuse or drop", "when_full", next=hint)
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise document.invalid("'max_backlog' must be a number of changes above 0", "max_backlog")
    waits_for = _words(document, "waits_for") if "waits_for" in document.values else ()
    if waits_for and most is None:
        raise document.invalid("'waits_for' needs a bound", "waits_for", next="max_backlog: 1000000")
    for sink in waits_for:
        if sink not in sinks:
            hint = did_you_mean(sink, sinks) or f"sinks: {', '.join(sinks) or 'none'}"
            raise document.invalid(f"'waits_for' names the sink '{sink}', which is not there", "waits_for", next=hint)
    options = {key: value for key, value in document.values.items() if key not in SOURCE_KEYS}
    return SourceDefinition(name, kind, options, path, when_full, most, waits_for)


def _sink(document: Document, name: str, path: Path | None, views: list[str]) -> SinkDefinition:
    kind = _type(document, SINK_KEYS)
    taken: tuple[str, ...] | None = None
    if document.values.get("views") is not None:
        taken = tuple(_known_view(document, view, views, "views") for view in _words(document, "views"))
        if not taken or len(set(taken)) != len(taken):
            problem = "names a view twice" if taken else "names no view"
            raise document.invalid(f"'views' {problem}", "views", next="without 'views' the sink takes all of them")
    searches = _searches(document)
    if searches:
        taken = ()
    keys = document.values.get("keys") or {}
    if not isinstance(keys, dict):
        raise document.invalid("'keys' must be a mapping", "keys", next="keys:\n  my_view: [column, column]")
    declared: dict[str, tuple[str, ...]] = {}
    for view in keys:
        known = _known_view(document, view, views, "keys", view)
        if taken is not None and known not in taken:
            raise document.invalid(f"'keys' names the view '{view}', which 'views' leaves out", "keys", view)
        declared[known] = _words(document, "keys", view)  # an empty list: a multiset, whatever the SQL says
    options = {key: value for key, value in document.values.items() if key not in SINK_KEYS}
    return SinkDefinition(name, kind, taken, declared, options, path, searches)


def _searches(document: Document) -> tuple[str, ...]:
    """The stored queries whose matches a sink takes. Whether they are there is seen when they are matched."""
    if document.values.get("searches") is None:
        return ()
    names = _words(document, "searches")
    if not names or len(set(names)) != len(names):
        problem = "names a query twice" if names else "names no query"
        raise document.invalid(
            f"'searches' {problem}", "searches", next="`headrace queries ls` shows those that there are"
        )
    for key in ("views", "keys"):
        if document.values.get(key) is not None:
            raise document.invalid(
                f"'{key}' and 'searches' do not go together", key,
                why="what a stored query matches are rows of its view, told apart by that view's key",
                next="views and stored queries each with a sink of their own" if key == "views" else "leave 'keys' out",
            )  # fmt: skip
    return names


def _type(document: Document, known: tuple[str, ...]) -> str:
    kind = document.values.get("type")
    if isinstance(kind, str) and kind:
        return kind
    if "type" in document.values:
        raise document.invalid("'type' must be the name of a connector", "type")
    for key in document.values:
        if did_you_mean(key, ["type"]):
            raise document.unknown(key, known)
    raise document.invalid("'type' is missing", next="name the connector, e.g. `type: postgres`")


def _words(document: Document, *keys: str) -> tuple[str, ...]:
    """A list of names under that key; one name may stand without the brackets."""
    value: Any = document.values
    for key in keys:
        value = value[key]
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) and word for word in words):
        raise document.invalid(f"'{'.'.join(keys)}' must be a list of names", *keys, next=f"{keys[-1]}: [name, name]")
    return tuple(words)


def _known_view(document: Document, view: str, views: list[str], *keys: str) -> str:
    if view in views:
        return view
    near = did_you_mean(view, views)
    raise HeadraceError(
        "view.unknown",
        f"there is no view '{view}'",
        where=document.place(*keys),
        why=f"there is no file views/{view}.sql",
        next=near or (f"views: {', '.join(views)}" if views else "add the view, or remove its name here"),
    )


def _settings(document: Document, folder: Path, sinks: list[str]) -> Settings:
    """headrace.yaml against ``Settings``: its fields are the keys, their types the types."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(Settings)}
    values: dict[str, Any] = {"name": folder.name or "headrace"}
    for key, value in document.values.items():
        if key not in fields:
            raise document.unknown(key, fields)
        if key == "retention":
            values[key] = read_retention(document, sinks)
        elif key == "audit":
            values[key] = read_audit(document)
        elif key == "api":
            values[key] = read_api(document)
        elif key == "psql":
            values[key] = read_psql(document)
        else:
            values[key] = _setting(document, key, value, fields[key])
    return Settings(**values)


def _setting(document: Document, key: str, value: Any, kind: str) -> Any:
    """A checked value of one setting; ``kind`` is its type as ``Settings`` writes it."""
    accepted, words = _KINDS[kind]
    fits = isinstance(value, accepted) and (kind == "bool" or not isinstance(value, bool))
    if not fits:
        raise document.invalid(f"'{key}' must be {words}, not {value!r}", key)
    if kind in ("int", "float") and not 0 < value < math.inf:
        raise document.invalid(f"'{key}' must be greater than 0, not {value}", key)
    if kind == "str" and not value.strip():
        raise document.invalid(f"'{key}' is empty", key)
    if key in _CHECKS and (problem := _CHECKS[key](value)):
        raise document.invalid(f"'{key}' is {value!r}", key, why=problem[0], next=problem[1])
    return float(value) if kind == "float" else value


def _time_zone(value: str) -> tuple[str, str] | None:
    zones = zoneinfo.available_timezones()
    if not zones or value in zones or re.fullmatch(r"[+-]\d\d:\d\d", value):
        return None  # a machine without a zone table leaves the check to Spark
    return "there is no such time zone", did_you_mean(value, zones) or "a name like Europe/Berlin, or UTC"


def _memory(value: str) -> tuple[str, str] | None:
    if not re.fullmatch(r"[1-9]\d*[kmgt]b?", value, re.IGNORECASE):
        return "it is a number with a unit", "driver_memory: 1g"
    if Settings(driver_memory=value).driver_bytes < DRIVER_BYTES_MIN:
        return "Spark does not start with less than 500m", "driver_memory: 1g"
    return None


def _master(value: str) -> tuple[str, str] | None:
    good = re.match(r"local(\[|-cluster\[|$)|spark://|yarn$|k8s://", value)
    return None if good else ("it is not a Spark master", "master: local[2]  (or spark://HOST:PORT, yarn, k8s://URL)")


def _transactions(value: str) -> tuple[str, str] | None:
    if value in ("grouped", "each"):
        return None
    return "it is `grouped` or `each`", did_you_mean(value, ["grouped", "each"]) or "transactions: each"


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "text"),
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
}
_CHECKS: dict[str, Callable[[str], tuple[str, str] | None]] = {
    "time_zone": _time_zone,
    "driver_memory": _memory,
    "master": _master,
    "transactions": _transactions,
}
