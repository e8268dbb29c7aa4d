"""Where Spark reads the clock without saying so: texts that become dates and timestamps.

- A typed literal (``timestamp'now'``, ``date'today UTC'``) is already a constant when the parser returns, and a
  constant text cast to a date or timestamp becomes one in the optimizer: now, today, tomorrow, yesterday.
- A time without a date (``'12:34'``, ``'T7'``) cast to a timestamp is completed with today's date, constant or not.

Constants are refused here; for columns the canonical form makes such a text malformed (headrace.sql.canonical).
"""

from __future__ import annotations

import re
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.catalyst import Catalyst
from headrace.sql.errors import origin_place, place
from headrace.sql.java_names import class_name, type_text

# The zone after the word, if any, is left unread: what is not valid there is Spark's to refuse.
SPECIAL = re.compile(r"(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
TIME_ONLY = r"^[\x00-\x20\x7f]*(T[0-9]|[0-9]{1,2}:)"

_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "ZONE")
_STRINGS = ("STRING_LITERAL", "DOUBLEQUOTED_STRING")
_HOLDING = ("array", "map", "named_struct", "struct")  # functions in which a text stays what it is
_TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"
_WHY = "its value depends on the day it is read"


def follows_clock(text: str) -> bool:
    """Whether Spark reads the clock to make a date or timestamp of the text."""
    text = text.strip(_TRIMMED)
    return bool(SPECIAL.match(text) or re.match(TIME_ONLY, text))


def check_text(catalyst: Catalyst, parser: Any, text: str, where: str) -> None:
    """Refuse typed literals that follow the clock, and TABLESAMPLE (n ROWS), which the parser turns into a LIMIT.

    Spark's own lexer finds them. Raises ``HeadraceError`` (sql.not_deterministic), and Spark's ``ParseException``.
    """
    # Upper case as the lexer sees it, where a dotless i is an I; the full lexing costs some 10 ms.
    if not re.search("DATE|TIMESTAMP|ZONE|TABLESAMPLE", text.upper()):
        return
    source = catalyst.jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
    grammar = catalyst.jvm.org.apache.spark.sql.catalyst.parser
    lexer = grammar.SqlBaseLexer(grammar.UpperCaseCharStream(source))
    names = lexer.getVocabulary()
    before = ""
    for token in lexer.getAllTokens():
        if token.getChannel() != 0:
            continue
        name = str(names.getSymbolicName(token.getType()))
        spot = place(where, token.getLine(), token.getCharPositionInLine() + 1)
        if name == "LEFT_PAREN" and before == "TABLESAMPLE":
            why = "which rows it takes is not determined"
            raise HeadraceError(
                "sql.not_deterministic", "TABLESAMPLE is not admitted in a view", where=spot, why=why,
                next="choose rows by what is in them: WHERE pmod(xxhash64(id), 100) < 5",
            )  # fmt: skip
        if name in _STRINGS and before in _TYPED:
            literal = parser.parseExpression(token.getText())
            value = str(literal.value().toString()) if class_name(literal) == "Literal" else ""
            if follows_clock(value):
                raise _refusal(value, spot)
        before = name


def check_constant(catalyst: Catalyst, expression: Any, where: str, *, read: bool = False) -> None:
    """Refuse a text that follows the clock in what analysis makes a constant of, so that only the result is left.

    ``read``: whether it is cast to a date or timestamp, or given to a function, which may do the same.
    """
    kind = class_name(expression)
    if kind == "Literal" and read and type_text(expression).startswith("string") and expression.value() is not None:
        value = str(expression.value().toString())
        if follows_clock(value):
            raise _refusal(value, origin_place(where, expression))
    if kind == "Cast":
        read = read or re.search("date|timestamp", type_text(expression)) is not None
    if kind == "UnresolvedFunction":
        read = read or str(catalyst.items(expression.nameParts())[-1]).lower() not in _HOLDING
    for child in catalyst.items(expression.children()):
        check_constant(catalyst, child, where, read=read)


def check_casts(catalyst: Catalyst, expression: Any, where: str) -> None:
    """Refuse a resolved expression that makes timestamps (or, of a special word, dates) from the clock."""
    kind = class_name(expression)
    if kind == "Cast":
        _check_cast(catalyst, expression, where)
        return
    makes = type_text(expression) if kind in ("JsonToStructs", "CsvToStructs", "VariantGet") else ""
    if re.search(r"\btimestamp\b", makes) and not (kind != "VariantGet" and _format_given(catalyst, expression)):
        raise HeadraceError(
            "sql.not_deterministic",
            f"{expression.prettyName()} that makes a timestamp is not admitted in a view",
            where=origin_place(where, expression),
            why="a time without a date would be completed with today's",
            next="take the field as string, then cast it"
            + ("" if kind == "VariantGet" else ", or give the option timestampFormat"),
        )


def _check_cast(catalyst: Catalyst, cast: Any, where: str) -> None:
    source, target = type_text(cast.child()), type_text(cast)
    moves = re.search(r"\btimestamp\b", target) is not None
    if re.search(r"\btime\(", source) and "timestamp" in target:
        raise _of_type(cast, where, "a time of day", "add it to a date: make_timestamp(date, time)")
    if "variant" in source and moves:
        raise _of_type(cast, where, "a variant", "cast it to string first")
    if target not in ("timestamp", "timestamp_ntz", "date"):
        if moves and "string" in source:
            raise _of_type(cast, where, "strings inside a value", "cast each: transform(x, s -> cast(s as timestamp))")
        return
    if not source.startswith("string") or not cast.child().foldable():
        return
    try:
        value = cast.child().eval(None)
    except Exception:  # py4j's errors have no common base; what cannot be read here is refused as unknown
        raise _of_type(cast, where, "a computed constant", "write the constant itself") from None
    if value is not None and follows_clock(str(value.toString())):
        raise _refusal(str(value.toString()), origin_place(where, cast))


def _format_given(catalyst: Catalyst, expression: Any) -> bool:
    given = {str(pair.productElement(0)).lower() for pair in catalyst.items(expression.options().toSeq())}
    return "timestampformat" in given and "enabledatetimeparsingfallback" not in given


def _refusal(value: str, spot: str) -> HeadraceError:
    what = f"'{value}' as a date or timestamp is not admitted in a view"
    return HeadraceError("sql.not_deterministic", what, where=spot, why=_WHY, next="write the date itself")


def _of_type(cast: Any, where: str, what: str, rewrite: str) -> HeadraceError:
    return HeadraceError(
        "sql.not_deterministic",
        f"a timestamp made of {what} is not admitted in a view",
        where=origin_place(where, cast),
        why="a time without a date would be completed with today's",
        next=rewrite,
    )
