"""Statements in the binary log that are not rows: which of them change a table otherwise than by rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Does(Enum):
    NOTHING = "nothing"  # to the contents of a table
    BEGINS = "begins"
    COMMITS = "commits"
    ROLLS_BACK = "rolls back"
    XA = "xa"
    EMPTIES = "empties"
    ALTERS = "alters"  # the named tables may hold something else now
    WRITES = "writes"  # rows, without writing them to the log; which tables', its text alone tells


@dataclass(frozen=True, slots=True)
class Statement:
    """``tables``: (database, table) of what it does it to; (database, "") for all of a database.

    NOTHING with tables: their columns may be others now, with the values they had.
    """

    does: Does
    tables: tuple[tuple[str, str], ...] = ()
    text: str = ""

    def concerns(self, place: tuple[str, str]) -> bool:
        if self.does is Does.WRITES:
            return re.search(rf"(?<![\w$]){re.escape(place[1])}(?![\w$])", self.text) is not None
        return place in self.tables or (place[0], "") in self.tables


_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_COMMENT = re.compile(r"/\*(?!M?!).*?\*/|(?:--\s|#)[^\n]*(?:\n|$)", re.DOTALL)
_CONDITIONAL = re.compile(r"/\*M?!\d*\s?(.*?)\*/", re.DOTALL)
_SKIPS_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`""", re.DOTALL)

_FLAGS = re.IGNORECASE | re.DOTALL
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_QUALIFIED})", _FLAGS)
_DROP = re.compile(rf"DROP\s+TABLES?\s+(?:IF\s+EXISTS\s+)?({_QUALIFIED}(?:\s*,\s*{_QUALIFIED})*)", _FLAGS)
_DROP_DATABASE = re.compile(rf"DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", _FLAGS)
_RENAME = re.compile(r"RENAME\s+TABLES?\s+(?:IF\s+EXISTS\s+)?(.*)", _FLAGS)
_CREATE = re.compile(rf"CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\s+({_QUALIFIED})", _FLAGS)
_ALTER = re.compile(
    rf"ALTER\s+(?:ONLINE\s+)?(IGNORE\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?({_QUALIFIED})"
    r"(?:\s+(?:WAIT\s+\d+|NOWAIT))?(.*)",
    _FLAGS,
)
_WRITES = re.compile(r"(?:INSERT|REPLACE|UPDATE|DELETE|LOAD|WITH|CALL|SELECT|DO)\b", _FLAGS)
_ACTS = re.compile(r"\bREFERENCES\b.*\b(CASCADE|SET\s+NULL)\b", _FLAGS)  # a foreign key that changes rows by itself
_TRANSACTION = {"BEGIN": Does.BEGINS, "START": Does.BEGINS, "COMMIT": Does.COMMITS, "XA": Does.XA}
# Clauses of ALTER TABLE that leave every value of every column as it is.
_HARMLESS = re.compile(
    r"\s*(?:ADD\s+(?!PRIMARY\b)|DROP\s+(?:INDEX|KEY|FOREIGN\s+KEY|CONSTRAINT|CHECK)\b|RENAME\s+(?:INDEX|KEY)\b|"
    rf"ALTER\s+(?:COLUMN\s+)?{_NAME}\s+(?:SET|DROP)\s+DEFAULT\b|ALTER\s+(?:INDEX|KEY)\b|COMMENT\b|AUTO_INCREMENT\b|"
    r"ALGORITHM\b|LOCK\b|(?:ENABLE|DISABLE)\s+KEYS\b|ROW_FORMAT\b|STATS_\w+\b|FORCE\b|ENGINE\s*=?\s*INNODB\b|$)",
    _FLAGS,
)


def parse(text: str, database: str) -> Statement:
    """A statement as the log has it; ``database``: the one that was in use."""
    bare = _CONDITIONAL.sub(r"\1", _COMMENT.sub(" ", text)).strip()
    word = re.match(r"\w*", bare)[0].upper()  # type: ignore[index]
    if word == "XA" and (match := re.match(r"XA\s+(START|BEGIN|END)\b", bare, _FLAGS)):
        return Statement(Does.NOTHING if match[1].upper() == "END" else Does.BEGINS)
    if word in _TRANSACTION:
        return Statement(_TRANSACTION[word])
    if word == "ROLLBACK":
        return Statement(Does.ROLLS_BACK)
    if word in ("SAVEPOINT", "RELEASE"):
        return Statement(Does.NOTHING)
    if _WRITES.match(bare):
        return Statement(Does.WRITES, text=bare)
    if match := _TRUNCATE.match(bare):
        return Statement(Does.EMPTIES, _names(match[1], database), bare)
    if match := _DROP_DATABASE.match(bare):
        return Statement(Does.ALTERS, ((_unquoted(match[1]), ""),), bare)
    for pattern in (_DROP, _RENAME, _CREATE):
        if match := pattern.match(bare):
            return Statement(Does.ALTERS, _names(match[1], database), bare)
    if match := _ALTER.match(bare):
        tables = _names(match[2], database)
        if not match[1] and all(_HARMLESS.match(c) and not _ACTS.search(c) for c in _clauses(match[3])):
            return Statement(Does.NOTHING, tables, bare)
        renamed = re.search(rf"\bRENAME\s+(?:TO|AS)?\s*({_QUALIFIED})\s*$", match[3], _FLAGS)
        return Statement(Does.ALTERS, tables + _names(renamed[1] if renamed else "", database), bare)
    return Statement(Does.NOTHING)


def _names(text: str, database: str) -> tuple[tuple[str, str], ...]:
    """Every table that is named, at the places of names: the words between are TO and commas."""
    found = []
    for name in re.findall(_QUALIFIED, text):
        first, *second = re.findall(_NAME, name)
        if name.upper() not in ("TO", "WAIT", "NOWAIT"):
            found.append((_unquoted(first), _unquoted(second[0])) if second else (database, _unquoted(first)))
    return tuple(found)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _clauses(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket and no quotes."""
    blank = _SKIPS_QUOTED.sub(lambda match: "`" + "q" * (len(match[0]) - 2) + "`", text)
    found, depth, start = [], 0, 0
    for at, character in enumerate(blank):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            found.append(blank[start:at])
            start = at + 1
    return [*found, blank[start:]]
