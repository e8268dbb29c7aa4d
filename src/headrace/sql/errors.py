"""Spark's errors as errors that a user of Headrace meets: code, place in the text, Spark's own first sentence."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from headrace.model.errors import HeadraceError

# PySpark writes each analysis error, with its stack, to standard error; the user gets the sentence made of it here.
PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True

_PLACES = (re.compile(r"line (\d+),? pos (\d+)"), re.compile(r"line (\d+), position (\d+)"))
_UNKNOWN_COLUMN = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND", "UNRESOLVED_USING_COLUMN_FOR_JOIN")

_EXCERPT = re.compile(r"== SQL[^\n]*==\n(.*)\n(-*)\^", re.DOTALL)

# What to write instead, by Spark's error class.
_REWRITES = {
    "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF": (
        "give the whole array to the function, or explode it first and call the function on each row"
    ),
    "UNSUPPORTED_FEATURE.PYTHON_UDF_IN_ON_CLAUSE": (
        "compute it in a subquery of the side whose columns it reads, and join by that column"
    ),
    "UNSUPPORTED_TIME_TYPE": "write a time of day as text, 'HH:mm:ss', or as a number of seconds",
    "INVALID_SQL_SYNTAX.FUNCTION_WITH_UNSUPPORTED_SYNTAX": (
        "apply DISTINCT, or the condition of FILTER, in a subquery below"
    ),
}
# Words that a query may stop at when they are misspelt.
_WORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "HAVING", "LIMIT", "JOIN", "INNER", "LEFT", "RIGHT",
    "FULL", "OUTER", "CROSS", "LATERAL", "ON", "USING", "UNION", "ALL", "INTERSECT", "EXCEPT", "WITH", "AS",
    "CASE", "WHEN", "THEN", "ELSE", "END", "BETWEEN", "LIKE", "AND", "OR", "NOT", "NULL", "EXISTS", "OVER", "PARTITION",
    "WINDOW", "INTERVAL", "QUALIFY", "VALUES", "RECURSIVE",
)  # fmt: skip


def place(where: str, line: int | None, column: int | None) -> str:
    """``views/x.sql:LINE:COL``, both from 1; without a file ``line L, column C``; what is not known is left out."""
    if line is None or column is None:
        return where
    return f"{where}:{line}:{column}" if where else f"line {line}, column {column}"


def origin_place(where: str, node: Any) -> str:
    """The place where a parsed node or expression begins."""
    origin = node.origin()
    if origin.line().isEmpty() or origin.startPosition().isEmpty():
        return where
    return place(where, int(origin.line().get()), int(origin.startPosition().get()) + 1)


def syntax_error(error: ParseException, where: str) -> HeadraceError:
    condition, message = _sentence(error)
    text = str(error)
    return HeadraceError(
        "sql.syntax", message, where=_place_in(text, where), why=f"Spark: {condition}", next=_misspelt(text)
    )


def _misspelt(text: str) -> str:
    """A word of SQL that is almost the one before where the parser stopped, taken for a name, or the one there."""
    found = _EXCERPT.search(text)
    if found is None:
        return ""
    at = len(found[2])  # the caret stands below the character
    lines = found[1].split("\n")
    behind = re.match(r"\w+", lines[-1][at:])
    before = re.findall(r"\w+", "\n".join([*lines[:-1], lines[-1][:at]]))[-1:]
    for word in (*before, *([behind[0]] if behind else ())):
        close = get_close_matches(word.upper(), _WORDS, n=1, cutoff=0.7)
        if close and close[0] != word.upper():
            return f"did you mean '{close[0]}'?"
    return ""


def analysis_error(error: Exception, where: str) -> HeadraceError:
    """What Spark's analysis or optimization of an admitted query raised. Never contains the plan that Spark appends."""
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, ParseException):
        return syntax_error(error, where)
    if not isinstance(error, PySparkException):
        return HeadraceError("sql.analysis", java_cause(error) or type(error).__name__, where=where)
    condition, message = _sentence(error)
    spot = _place_in(str(error), where)
    given = error.getMessageParameters() or {}
    if isinstance(error, AnalysisException) and condition.startswith(_UNKNOWN_COLUMN):
        name = _plain(given.get("objectName") or given.get("fieldName") or given.get("colName") or "")
        known = [_plain(n) for n in re.findall(r"`[^`]*`(?:\.`[^`]*`)*", given.get("proposal", ""))]
        return HeadraceError(
            "sql.unknown_column",
            f"there is no column '{name}'" if name else message,
            where=spot,
            why=f"the columns in reach are {', '.join(known)}" if known else message,
            next=did_you_mean(name, known),
        )
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        name = _plain(given.get("relationName", ""))
        return UnknownRelation(name, where=spot)
    return HeadraceError(
        "sql.analysis", message, where=spot, why=f"Spark: {condition}", next=_REWRITES.get(condition, "")
    )


def java_cause(error: Exception) -> str:
    """The first line of an error; of one of Java's that Spark has no words for, its own: Py4J's line names a call."""
    causes = re.findall(r"^(?:: |Caused by: )(?:[a-z_]\w*\.)*(\w+(?:: .*)?)$", str(error), re.MULTILINE)
    first = str(error).split("\n", 1)[0]
    return causes[-1] if causes and first.startswith("An error occurred while calling") else first


class UnknownRelation(HeadraceError):
    """``sql.unknown_relation`` of the relation ``name``."""

    def __init__(self, name: str, *, where: str, why: str = "", next: str = "") -> None:
        super().__init__("sql.unknown_relation", f"there is no table or view '{name}'", where=where, why=why, next=next)
        self.name = name


def did_you_mean(name: str, known: list[str]) -> str:
    """``did you mean 'x'?``, or nothing when no known name is like it."""
    last = {k: k.lower().rpartition(".")[2] for k in known}  # what stands before says where, not what
    close = get_close_matches(name.lower().rpartition(".")[2], last.values(), n=1)
    if not close:
        return ""
    spelled = {k.lower(): k for k in known if last[k] == close[0]}  # where several have it: the one that was meant
    return f"did you mean '{spelled[get_close_matches(name.lower(), spelled, n=1, cutoff=0)[0]]}'?"


def _plain(name: str) -> str:
    return name.replace("`", "")


def _sentence(error: PySparkException) -> tuple[str, str]:
    """Spark's error class and its message: without class, SQL state, position, plan and excerpt of the text."""
    condition = error.getCondition() or type(error).__name__
    text = str(error).strip().split("\n\n== SQL", 1)[0].split("\n== SQL", 1)[0]
    text = text.removeprefix(f"[{condition}]").strip()
    # The plan follows the position on a line of its own.
    text = re.split(r";?\s*line \d+,? pos(?:ition)? \d+;?(?:\n|$)", text, maxsplit=1)[0]
    text = re.split(r"\s*SQLSTATE: \w+", text, maxsplit=1)[0]
    return condition, " ".join(text.split())


def _place_in(text: str, where: str) -> str:
    for pattern, first in zip(_PLACES, (1, 0), strict=True):  # `pos` counts from 0, `position` from 1
        match = pattern.search(text)
        if match:
            return place(where, int(match[1]), int(match[2]) + first)
    return where
