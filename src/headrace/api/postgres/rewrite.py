"""PostgreSQL's words for which DuckDB has others: schemas, casts to catalogue types, values of the connection.

Single tokens are replaced, never values: a statement means what it says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headrace.api.postgres.types import DECLARED, TEXT
from headrace.api.postgres.values import TEXT as AS_TEXT
from headrace.api.postgres.values import parameter
from headrace.model.errors import HeadraceError
from headrace.sql.lexer import Token

PUBLIC, CATALOGUE, INFORMATION = "public", "pg_catalog", "information_schema"
_NAMED = {each: f"to_{each}" for each in ("regclass", "regtype", "regnamespace", "regproc", "regrole")}
_ASKING = (INFORMATION, *_NAMED, "format_type", "obj_description", "current_setting", "set_config", "format")
_SYNONYMS = {"json_build_object": "json_object", "jsonb_build_object": "json_object", "jsonb_agg": "json_group_array",
             "json_agg": "json_group_array", "json_build_array": "json_array", "jsonb_build_array": "json_array",
             "to_jsonb": "to_json", "every": "bool_and"}  # fmt: skip
_FUNCTIONS_OF_TYPES = ("typinput", "typoutput", "typreceive", "typsend")  # columns, whose values are shown as names
_ROWS = ("unnest", "string_to_array")  # functions of one column that may stand in FROM
_CLAUSES = ("select", "from", "join", "on", "where", "group", "having", "order", "limit", "union", "values")
_AFTER_RELATION = ("", "join", "left", "right", "full", "cross", "inner", "natural", "with", *_CLAUSES)
_BEFORE_EXPRESSION = ("", "and", "or", "not", "when", "then", "else", *_CLAUSES)
_COMPARING = ("=", "<", ">", "!")
_SCHEMAS = (PUBLIC, CATALOGUE)
_BEFORE_RELATION = ("from", "join", "table", "only")
_HEXADECIMAL = re.compile(r"'\\x(?:[0-9a-fA-F]{2})*'")
_END = Token("symbol", "")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """SQL for DuckDB, and whether it asks of the catalogue. ``names``: its words in lower case, those of relations
    among them."""

    sql: str
    catalogue: bool
    names: frozenset[str] = frozenset()


def rewritten(
    statement: Sequence[Token], values: Mapping[str, str], declared: Sequence[int] = (), database: str = ""
) -> Rewritten:
    """``values``: SQL for ``current_user``, ``version()`` and the like; ``declared``: types of parameters, or 0."""
    return _Rewriting(statement, values, declared, database).run()


class _Rewriting:
    """One pass over the tokens, in the time of their number. A step writes SQL and gives the place to go on at."""

    def __init__(
        self, statement: Sequence[Token], values: Mapping[str, str], declared: Sequence[int], database: str
    ) -> None:
        self._parts = [token for token in statement if token.kind != "space"]
        self._spaces = _spaces(statement)
        self._values, self._declared, self._database = values, declared, database
        self._closing = _closings(self._parts)
        # Names that stand alone somewhere: all aliases and WITH queries are among them.
        self._alone = {part.name for at, part in enumerate(self._parts) if self._name(at) and self._text(at + 1) != "."}
        alone = (name.removesuffix("()") for name in values if name.endswith("()"))  # in FROM they are a row
        self._rows = _rows(self._parts, {*_ROWS, *alone})
        self._left_out: set[int] = set()
        self._after: dict[int, str] = {}  # what goes after what is at a place
        self._bare = -1  # the place of a name before which a schema, or the database, was left out

    def run(self) -> Rewritten:
        found, at = list[str](), 0
        while at < len(self._parts):
            begin = at
            if at in self._left_out:
                text, at = "", at + 1
            else:
                text, at = self._step(at, self._name(at))
            found += [self._spaces[begin], text, self._after.get(begin, "")]
        names = frozenset(part.name.lower() for part in self._parts if part.kind in ("word", "quoted"))
        return Rewritten("".join(found).strip(), any(map(self._asks, range(len(self._parts)))), names)

    def _asks(self, at: int) -> bool:
        name = self._name(at)
        return name.startswith(("pg_", "_pg_", "to_reg")) or name in _ASKING

    def _step(self, at: int, name: str) -> tuple[str, int]:
        follows = self._text(at + 1)
        if named := self._name_of_object(at):
            return named
        if name and follows == ".":
            if self._is_database(at, name):
                self._bare = at + 2
                return "", at + 2
            if name in _SCHEMAS and self._is_schema(at, name):
                self._bare = at + 2
                return "", at + 2
            if name == INFORMATION:
                return self._information(at + 2)
        elif name and follows == "(":
            return self._call(at, name)
        elif self._text(at) == "(" and (text := self._cast_of_expression(at)):
            return text, at + 1
        elif name == "select" and self._text(at - 1) == "(" and follows.lower() == "from":
            return "select 1", at + 1  # EXISTS (SELECT FROM ...)
        elif name == "collate" and (place := self._collation(at)):
            return "", place
        elif self._parts[at].kind in ("string", "parameter") and follows == "::":
            return self._cast(at)
        elif self._is_value(at) and name in self._values:
            return self._values[name], at + 1
        return self._among(at) or (self._plain(at), at + 1)

    def _information(self, at: int) -> tuple[str, int]:
        """``information_schema.columns``, which other parts of the statement call ``columns``."""
        name, follows = self._name(at), self._text(at + 1)
        if follows == ".":
            return f'"{name}"', at + 1
        alias = f' AS "{name}"' if follows != "(" and self._name(at + 1) in _AFTER_RELATION else ""
        return f"information_schema_{name}{alias}", at + 1

    def _name_of_object(self, at: int) -> tuple[str, int] | None:
        """``c.oid::regclass``, which is shown as a name: only beside a comparison it is the number."""
        begins = at == self._bare or self._text(at - 1) not in (".", "::")
        if not begins or self._parts[at].kind not in ("word", "quoted", "number") or self._name(at) in _SCHEMAS:
            return None
        end = at + 1
        while self._text(end) == "." and self._name(end + 1):
            end += 2
        operand = "".join(self._plain(place) for place in range(at, end))
        if self._name(end - 1) in _FUNCTIONS_OF_TYPES and self._is_shown(at, end):
            return f"headrace_name_regproc({operand})", end
        kind = end + 3 if self._name(end + 1) == CATALOGUE else end + 1
        if self._text(end) != "::" or self._name(kind) not in _NAMED or self._text(kind + 1) == "[":
            return None
        if self._text(at - 1) in _COMPARING or self._text(kind + 1) in _COMPARING or self._is_number(kind + 1):
            return None
        return f"headrace_name_{self._name(kind)}({operand})", kind + 1

    def _is_shown(self, at: int, end: int) -> bool:
        """Whether a column is selected as it is, or cast to text."""
        selected = self._text(at - 1).lower() in ("select", ",") and self._text(end).lower() in (",", "from", "as")
        return selected or (self._text(end) == "::" and self._name(end + 1) in ("text", "varchar"))

    def _is_number(self, at: int) -> bool:
        """Whether a cast to a number stands there."""
        named = self._name(at + 3) if self._name(at + 1) == CATALOGUE else self._name(at + 1)
        return self._text(at) == "::" and named not in ("text", "varchar", "name")

    def _among(self, at: int) -> tuple[str, int] | None:
        """``= ANY ('{10,11}')`` and ``<> ALL``: literals, which take the type of what they are compared with."""
        word, array = at + 1, at + 3
        if self._text(at) + self._text(at + 1) in ("<>", "!="):
            word, array = at + 2, at + 4
        fits = self._name(word) in (("any", "some") if word == at + 1 else ("all",)) and self._text(word + 1) == "("
        inner = int(self._text(array) == "(")  # in parentheses of its own: a driver's parameter
        array, end = array + inner, array + 2 * inner + 1
        if not fits or (word == at + 1 and self._text(at) != "=") or self._closing.get(word + 1) != end:
            return None
        elements = _elements(self._parts[array])
        if elements is None:
            return None
        begin = "IN" if word == at + 1 else "NOT IN"
        return f"{begin} ({', '.join(elements) or 'SELECT NULL WHERE false'})", end + 1

    def _is_database(self, at: int, name: str) -> bool:
        """Whether it is the database before a schema (``shop.public.orders``), and no relation of that name."""
        if name != self._database or self._text(at + 3) != "." or self._name(at + 2) not in (*_SCHEMAS, INFORMATION):
            return False
        return name not in self._alone or self._name(at - 1) in _BEFORE_RELATION

    def _is_schema(self, at: int, name: str) -> bool:
        """Whether it is the schema, and no relation that the statement calls so, whose columns follow."""
        longer = self._text(at + 3) in (".", "(")
        return name not in self._alone or longer or at == self._bare or self._name(at - 1) in _BEFORE_RELATION

    def _call(self, at: int, name: str) -> tuple[str, int]:
        end = self._closing.get(at + 1, len(self._parts) - 1)
        if name == "operator":  # OPERATOR(pg_catalog.~)
            symbols = [part.text for part in self._parts[at + 2 : end] if part.kind == "symbol" and part.text != "."]
            return f" {''.join(symbols)} ", end + 1
        if name == "cast" and self._name(end - 1) in _NAMED and self._name(end - 2) == "as":
            self._left_out |= {end - 2, end - 1}
            return _NAMED[self._name(end - 1)], at + 1
        if at in self._rows:
            alias = end + 2 if self._name(end + 1) == "as" else end + 1
            if self._name(alias) not in _AFTER_RELATION and self._text(alias + 1) != "(":
                self._after[alias] = f"({self._plain(alias)})"  # PostgreSQL calls the column as the relation
        if self._is_value(at):
            called = name + "".join(map(self._text, range(at + 1, end + 1))) if end - at <= 3 else ""
            if value := self._values.get(called):
                return f"(SELECT {value} AS {name})" if at in self._rows else value, end + 1
            return _SYNONYMS.get(name) or self._plain(at), at + 1
        return self._plain(at), at + 1

    def _cast(self, at: int) -> tuple[str, int]:
        """``'orders'::regclass``, ``'{a,b}'::text[]``, ``'\\x00ff'::bytea``."""
        place = at + 4 if self._name(at + 2) == CATALOGUE else at + 2
        kind = self._name(place)
        elements = _elements(self._parts[at]) if self._text(place + 1) == "[" else None
        if kind in _NAMED and elements is not None:
            return f"[{', '.join(f'{_NAMED[kind]}({each})' for each in elements)}]", place + 3
        if kind in _NAMED:
            found = f"{_NAMED[kind]}({self._plain(at)})"
            return f"headrace_name_{kind}({found})" if self._is_text(place + 1) else found, place + 1
        if elements is not None:
            return f"[{', '.join(elements)}]", at + 1
        if kind == "bytea" and _HEXADECIMAL.fullmatch(self._text(at)):
            return re.sub("..", r"\\x\g<0>", self._text(at)[3:-1]).join("''"), at + 1  # each byte as DuckDB writes it
        return self._plain(at), at + 1

    def _cast_of_expression(self, at: int) -> str:
        """How ``(schema || '.' || name)::regclass`` begins; "" where such a cast does not."""
        end = self._closing.get(at, at)
        kind = end + 4 if self._name(end + 2) == CATALOGUE else end + 2
        begins = self._name(at - 1) in _BEFORE_EXPRESSION and self._text(end + 1) == "::"
        if not begins or self._name(kind) not in _NAMED:
            return ""
        self._left_out |= set(range(end + 1, kind + 1))
        found = f"{_NAMED[self._name(kind)]}("
        if not self._is_text(kind + 1):
            return found
        self._after[end] = ")"
        return f"headrace_name_{self._name(kind)}({found}"

    def _is_text(self, at: int) -> bool:
        """Whether a cast to text stands there."""
        return self._text(at) == "::" and not self._is_number(at)

    def _collation(self, at: int) -> int:
        """The place after a collation that changes nothing; 0 for another one."""
        place = at + 3 if self._name(at + 1) == CATALOGUE else at + 1
        return place + 1 if self._name(place) in ("default", "C", "POSIX") else 0

    def _is_value(self, at: int) -> bool:
        """Whether a plain word stands where a value may: no part of a longer name, and not the name after AS."""
        before = self._parts[at - 1] if at else _END
        return self._parts[at].kind == "word" and (at == self._bare or (before.text != "." and before.name != "as"))

    def _plain(self, at: int) -> str:
        token = self._parts[at]
        if token.kind == "word":
            return token.text.lower()  # as PostgreSQL folds names: a column is called so
        if token.kind == "parameter":
            number = int(token.text[1:])
            kind = DECLARED.get(self._declared[number - 1]) if 0 < number <= len(self._declared) else None
            return f"CAST({token.text} AS {kind})" if kind else token.text
        return token.text

    def _name(self, at: int) -> str:
        return self._parts[at].name if 0 <= at < len(self._parts) and self._parts[at].kind in ("word", "quoted") else ""

    def _text(self, at: int) -> str:
        return self._parts[at].text if 0 <= at < len(self._parts) else ""


def _spaces(statement: Sequence[Token]) -> list[str]:
    """What is before each token that is no space: lines are kept, as errors name them."""
    found, space = list[str](), ""
    for token in statement:
        if token.kind == "space":
            space += "\n" * token.text.count("\n") or " "
        else:
            found.append(space)
            space = ""
    return found


def _closings(parts: Sequence[Token]) -> dict[int, int]:
    """The place of the parenthesis that closes each one."""
    found, opened = dict[int, int](), list[int]()
    for place, part in enumerate(parts):
        if part.text == "(":
            opened.append(place)
        elif part.text == ")" and opened:
            found[opened.pop()] = place
    return found


def _rows(parts: Sequence[Token], named: Collection[str]) -> set[int]:
    """The places of functions of these names, which give one column, where they are called in FROM."""
    found, clauses = set[int](), [""]
    for place, part in enumerate(parts):
        if part.text == "(":
            clauses.append("")
        elif part.text == ")" and len(clauses) > 1:
            clauses.pop()
        elif part.kind == "word" and part.name in _CLAUSES:
            clauses[-1] = part.name
        elif part.kind == "word" and part.name in named and clauses[-1] in ("from", "join"):
            found.add(place)
    return found


def _elements(array: Token) -> list[str] | None:
    """The literals that PostgreSQL's text of an array stands for; None for any other token."""
    if array.kind != "string" or not array.text.startswith("'{"):
        return None
    try:
        elements = parameter(array.value.encode(), TEXT.array_oid, AS_TEXT)
    except HeadraceError:
        return None
    return ["NULL" if each is None else "'" + str(each).replace("'", "''") + "'" for each in elements]
