"""Statements about definitions: CREATE and DROP of a source, a view or a sink, SHOW and EXPLAIN; what stands for them.

A statement says what the file would: record docs/decisions/0028-definitions-as-sql.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from headrace.catalog.written import connector_text, view_text
from headrace.model.errors import HeadraceError
from headrace.sql.lexer import Token, joined
from headrace.sql.words import Words

KINDS = ("source", "view", "sink")
VIEW_SETTINGS = ("on_error", "on_change")
NUMBER_CHARS = 400  # of a number; that of a greater one would not be finite
_BEGIN = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*+(\w+)", re.DOTALL)
_FIRST = ("create", "drop", "alter", "show", "explain", "begin", "start")
_NUMBER = re.compile(r"\d+")
_INSTEAD = {
    "table": "CREATE SOURCE name FROM http (tables = (name = (key = [id])))",
    "index": "a view is read by its key without one; `headrace search` searches words",
    "function": "functions/NAME.py, with `code: true` in headrace.yaml",
    "user": "headrace token create NAME --role ROLE",
    "role": "headrace token create NAME --role ROLE",
}


@dataclass(frozen=True, slots=True)
class Create:
    """``text``: of the definition's file. ``replace``: OR REPLACE; ``missing_only``: IF NOT EXISTS."""

    kind: str
    name: str
    text: str
    replace: bool = False
    missing_only: bool = False

    @property
    def tag(self) -> str:
        return f"CREATE {self.kind.upper()}"


@dataclass(frozen=True, slots=True)
class Drop:
    """``existing_only``: IF EXISTS."""

    kind: str
    name: str
    existing_only: bool = False

    @property
    def tag(self) -> str:
        return f"DROP {self.kind.upper()}"


@dataclass(frozen=True, slots=True)
class List:
    """SHOW SOURCES, VIEWS, SINKS or TABLES: ``what`` in lower case."""

    what: str


@dataclass(frozen=True, slots=True)
class ShowCreate:
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """Of a view or a table."""

    name: str


@dataclass(frozen=True, slots=True)
class Explain:
    """How a view is maintained: one that there is, or with ``sql`` one that its SELECT would be."""

    view: str | None = None
    sql: str | None = None


Change = Create | Drop
Look = List | ShowCreate | ShowColumns | Explain


def begins(text: str) -> bool:
    """Whether the text begins like a statement about definitions; a SELECT, in Spark's SQL, is not lexed for it."""
    found = _BEGIN.match(text)
    return found is not None and found[1].lower() in _FIRST


def read(statement: Sequence[Token]) -> Change | Look | None:
    """The statement of these tokens; None for one about other things. Raises ``sql.syntax``, ``sql.refused``."""
    words = Words(statement)
    first = words.take()
    if first == "create":
        return _create(words)
    if first == "drop":
        return _drop(words)
    if first == "show":
        return _show(words)
    if first == "explain":
        return _explain(words)
    if first == "alter":
        raise HeadraceError(
            "sql.refused", "ALTER is not taken: a definition is replaced as a whole",
            next="SHOW CREATE VIEW name, then CREATE OR REPLACE VIEW name AS SELECT ...",
        )  # fmt: skip
    return None


def _create(words: Words) -> Create:
    replace = words.accept("or")
    if replace:
        words.need("replace")
    kind = _kind(words, "CREATE")
    missing_only = words.accept("if")
    if missing_only:
        words.need("not")
        words.need("exists")
        if replace:
            raise HeadraceError("sql.syntax", "OR REPLACE and IF NOT EXISTS contradict each other", next="one of them")
    name = words.name()
    text = {"view": _view, "source": _source, "sink": _sink}[kind](words)
    return Create(kind, name, text, replace, missing_only)


def _kind(words: Words, verb: str) -> str:
    kind = words.take()
    if kind == "materialized":
        kind = words.need("view")
    if kind not in KINDS:
        raise HeadraceError(
            "sql.refused", f"{verb} {kind.upper()} is not taken".replace("  ", " "),
            why="a project is made of sources, views and sinks",
            next=_INSTEAD.get(kind, f"{verb} SOURCE, {verb} VIEW or {verb} SINK") if verb == "CREATE"
            else f"{verb} SOURCE, {verb} VIEW or {verb} SINK",
        )  # fmt: skip
    return kind


def _view(words: Words) -> str:
    if words.peek() == "(":
        raise HeadraceError(
            "sql.refused", "a list of columns behind a view's name is not taken",
            next="name them in the SELECT: SELECT expression AS column",
        )  # fmt: skip
    settings = _options(words) if words.accept("with") else {}
    for setting, value in settings.items():
        if setting not in VIEW_SETTINGS or not isinstance(value, str) or value.splitlines() != [value]:
            raise HeadraceError(
                "sql.syntax", f"a view has no setting {setting} = {value!r}",
                next="WITH (on_error = 'set_aside'), or WITH (on_change = 'recompute')",
            )  # fmt: skip
    words.need("as")
    return view_text(_query(words), settings)


def _query(words: Words) -> str:
    """A view's SELECT as written, comments before it too; or what stands between $$ where Spark's strings need it."""
    rest = words.rest()
    if any(token.kind == "parameter" for token in rest):
        raise HeadraceError("sql.refused", "a definition takes no parameters", next="write the value into the SELECT")
    parts = [token for token in rest if token.kind != "space"]
    if len(parts) == 1 and parts[0].kind == "string" and parts[0].text[0] == "$":
        quote = parts[0].text[: parts[0].text.index("$", 1) + 1]
        return parts[0].text[len(quote) : -len(quote)]
    if not parts:
        raise HeadraceError("sql.syntax", "a view without its SELECT", next="CREATE VIEW name AS SELECT ...")
    return joined(rest)


def _source(words: Words) -> str:
    words.need("from")
    return _connector(words, {})


def _sink(words: Words) -> str:
    views = []
    if words.accept("from"):
        views.append(words.name())
        while words.accept(","):
            views.append(words.name())
    words.need("into")
    return _connector(words, {"views": views} if views else {})


def _connector(words: Words, first: Mapping[str, Any]) -> str:
    type = words.name()
    words.accept("with")
    options = _options(words) if words.peek() == "(" else {}
    words.end()
    if taken := sorted({"type", "views"} & options.keys()):
        raise HeadraceError(
            "sql.syntax", f"'{taken[0]}' is no option of a statement: it stands before the parenthesis",
            next="CREATE SOURCE name FROM type (...), CREATE SINK name FROM view, view INTO type (...)",
        )  # fmt: skip
    return connector_text(type, {**first, **options})


def _options(words: Words) -> dict[str, Any]:
    """``(name = value, ...)``, one to one a mapping of YAML."""
    words.need("(")
    found: dict[str, Any] = {}
    while not words.accept(")"):
        token = words.token()
        name = token.value if token.kind == "string" else token.name
        if token.kind not in ("word", "quoted", "string"):
            raise HeadraceError("sql.syntax", f"'{token.text}' is no name of an option", next="(name = value, ...)")
        if name in found:
            raise HeadraceError("sql.syntax", f"the option '{name}' is written twice", next="keep one of them")
        words.need("=")
        found[name] = _value(words, name)
        if words.peek() != ")":
            words.need(",")
    return found


def _value(words: Words, option: str) -> Any:
    """A string, a number, a word, TRUE, FALSE, NULL; ``(name = value, ...)`` a mapping, ``[value, ...]`` a list."""
    if words.peek() == "(":
        return _options(words)
    if words.accept("["):
        values = []
        while not words.accept("]"):
            values.append(_value(words, option))
            if words.peek() != "]":
                words.need(",")
        return values
    sign = "-" if words.accept("-") else ""
    token = words.token()
    if token.kind == "number" and len(token.text) <= NUMBER_CHARS and isfinite(float(token.text)):
        return int(sign + token.text) if _NUMBER.fullmatch(token.text) else float(sign + token.text)
    if token.kind == "string" and token.text[0] == "'" and not sign:
        return token.value
    if token.kind == "word" and not sign:
        return {"true": True, "false": False, "null": None}.get(token.name, token.text)
    raise HeadraceError(
        "sql.syntax", f"the value of '{option}' cannot be read",
        next="'text', 12, true, [a, b] for a list, (name = value) for a mapping",
    )  # fmt: skip


def _drop(words: Words) -> Drop:
    kind = _kind(words, "DROP")
    existing_only = words.accept("if")
    if existing_only:
        words.need("exists")
    name = words.name()
    if words.accept("cascade"):
        raise HeadraceError(
            "sql.refused", "CASCADE is not taken: each that goes is named", next=f"DROP {kind.upper()} {name}"
        )
    words.accept("restrict")
    words.end()
    return Drop(kind, name, existing_only)


def _show(words: Words) -> Look | None:
    what = words.take()
    if what in ("sources", "views", "sinks", "tables"):
        words.end()
        return List(what)
    if what == "create":
        shown: Look = ShowCreate(_kind(words, "SHOW CREATE"), words.name())
    elif what == "columns":
        words.need("from", "in")
        shown = ShowColumns(words.name())
    else:
        return None
    words.end()
    return shown


def _explain(words: Words) -> Explain | None:
    if words.peek() in ("analyze", "verbose", "("):
        return None
    if words.accept("create"):
        made = _create(words)
        if made.kind != "view":
            raise HeadraceError("sql.syntax", f"a {made.kind} has no plan", next="EXPLAIN CREATE VIEW name AS SELECT")
        return Explain(sql=made.text)
    if words.peek() in ("select", "with", "values"):
        return Explain(sql=_query(words))
    words.accept("view")
    view = words.name()
    words.end()
    return Explain(view)
