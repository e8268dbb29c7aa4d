"""The settings of a connection that clients look at or set; those that would change what is shown have one value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.model import bounds
from headrace.model.errors import HeadraceError

SERVER_VERSION = "16.0 (Headrace)"  # whose catalogue is shown, for clients that ask for it by version
VERSION = f"PostgreSQL {SERVER_VERSION}"
# Of these a client is told at the start and whenever they change.
REPORTED = (
    "server_version", "server_encoding", "client_encoding", "application_name", "default_transaction_read_only",
    "in_hot_standby", "is_superuser", "session_authorization", "DateStyle", "IntervalStyle", "TimeZone",
    "integer_datetimes", "standard_conforming_strings",
)  # fmt: skip
_DEFAULTS = {
    "server_version": SERVER_VERSION, "server_version_num": "160000", "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "application_name": "", "default_transaction_read_only": "on", "transaction_read_only": "on",
    "in_hot_standby": "off",
    "is_superuser": "off", "session_authorization": "", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres",
    "TimeZone": "UTC", "integer_datetimes": "on", "standard_conforming_strings": "on", "search_path": "public",
    "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0", "transaction_timeout": "0", "extra_float_digits": "1",
    "transaction_isolation": "repeatable read", "default_transaction_isolation": "repeatable read",
    "default_transaction_deferrable": "off", "bytea_output": "hex", "client_min_messages": "notice",
    "max_identifier_length": "63", "lc_collate": "C", "lc_ctype": "C", "lc_messages": "C", "lc_monetary": "C",
    "lc_numeric": "C", "lc_time": "C", "row_security": "on", "synchronize_seqscans": "on", "xmloption": "content",
    "escape_string_warning": "on", "quote_all_identifiers": "off", "jit": "off", "work_mem": "4MB", "ssl": "on",
    "default_tablespace": "", "default_table_access_method": "heap", "check_function_bodies": "on",
    "cursor_tuple_fraction": "0.1", "max_connections": "64", "wal_level": "logical", "password_encryption": "",
    "datestyle": "ISO, MDY", "role": "none", "enable_seqscan": "on", "geqo": "off",
    "backslash_quote": "safe_encoding", "array_nulls": "on", "transform_null_equals": "off", "block_size": "8192",
    "max_index_keys": "32",
}  # fmt: skip
# What a value must be, as PostgreSQL's clients set it of their own accord.
_FIXED = {
    "client_encoding": r"'?(utf-?8|unicode|sql_ascii)'?", "DateStyle": r"iso\b.*", "IntervalStyle": "postgres",
    "standard_conforming_strings": "on|true|1|yes", "bytea_output": "hex",
}  # fmt: skip
_WRITTEN = {name.lower(): name for name in _DEFAULTS if name != "datestyle"}
_NONE = ("user", "database", "options", "replication")  # what a connection begins with besides
_WORD, _ESCAPED = re.compile(r"(?:\\.|[^ \t\n\r\f\v\\])+", re.DOTALL), re.compile(r"\\(.)", re.DOTALL)
_UNITS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
STATES = 100  # that the savepoints of one transaction keep, at most; of those between which nothing is set it has more
OWN = 1_000  # settings that a client has made up, as `app.user`, at most


class Settings:
    """Of one connection, by PostgreSQL's names in any case. ``seconds``: the most that a statement may take.

    Those ``given`` at its start are the connection's defaults. Raises what ``set`` does.
    """

    def __init__(self, user: str, seconds: float, given: Mapping[str, str]) -> None:
        self._user = user
        self._seconds, self._most_ms = seconds, str(round(seconds * 1000))
        own = {"session_authorization": user, "statement_timeout": self._most_ms}
        self._values = self._lasting = self._begun = self._defaults = {**_DEFAULTS, **own}
        self._savepoints: list[tuple[dict[str, str], dict[str, str]]] = []  # all, and the lasting ones, at each
        for name, value in given.items():
            self.set(name, value)
        self._begun = self._defaults = self._values

    def reported(self) -> dict[str, str]:
        return {name: self._values[name] for name in REPORTED}

    def all(self) -> dict[str, str]:
        return {name: self._values[name] for name in sorted(self._values) if name != "datestyle"}

    def show(self, name: str) -> tuple[str, str]:
        """(the name as PostgreSQL writes it, the value). Raises ``psql.setting``."""
        written = _WRITTEN.get(name.lower(), name.lower())
        if written not in self._values:
            raise _unknown(name)
        return written, self._values[written]

    def rows(self, name: str) -> tuple[list[str], list[list[str]]]:
        """What SHOW shows of one, or of "all": names of columns, and the rows. Raises ``psql.setting``."""
        if name == "all":
            return ["name", "setting", "description"], [[each, value, ""] for each, value in self.all().items()]
        written, value = self.show(name)
        return [written], [[value]]

    def set(self, name: str, value: str | None, *, local: bool = False) -> list[tuple[str, str]]:
        """Set one, None: as the connection began; ``local``: until ``end``. (name, value) if reported and changed.

        Raises ``psql.setting``, ``psql.busy``, ``query.bounds``.
        """
        written = _WRITTEN.get(name.lower(), name.lower())
        if written not in self._defaults and "." not in written:
            raise _unknown(name)
        if written not in self._values:
            if value is None:
                return []  # nobody has set it
            if len(self._values) - len(self._defaults) >= OWN:
                raise HeadraceError(
                    "psql.busy", f"this connection has {OWN:,} settings of its own: no more are kept",
                    next="RESET ALL drops them",
                )  # fmt: skip
        if written == "TimeZone":
            return []  # an instant is shown in UTC, with its offset: no client takes it for another
        if written in _FIXED and value is not None:
            if not re.fullmatch(_FIXED[written], value.strip(), re.IGNORECASE):
                raise HeadraceError(
                    "psql.setting", f"{written} cannot be '{value}'", why=f"it is {self._values[written]} here"
                )
            return []
        if written == "statement_timeout" and value is not None:
            asked = _milliseconds(value)
            value = str(asked or self._most_ms)  # 0: no bound but that of the project
            bounds.within(asked / 1000 if asked else None, self._seconds, "statement_timeout, in seconds:")
        if len({id(values) for values, _ in self._savepoints}) > STATES:
            raise HeadraceError(
                "psql.full", f"this transaction has set something between {STATES} of its savepoints: no more is kept",
                next="RELEASE those that nobody goes back to",
            )  # fmt: skip
        before, now = self._values.get(written), self._defaults.get(written, "") if value is None else value
        self._values = {**self._values, written: now}
        if not local:
            self._lasting = {**self._lasting, written: now}
        return [(written, now)] if before != now and written in REPORTED else []

    def constants(self, project: str, number: int) -> dict[str, str]:
        """SQL for what is the connection's own, by how PostgreSQL's SQL calls it; ``number``: of the connection."""
        user, database = _text(self._user), _text(project)
        named = {
            "current_user": user, "session_user": user, "user": user, "current_role": user, "current_catalog": database,
            "current_database()": database, "current_schema()": "'public'", "current_schema": "'public'",
            "version()": _text(VERSION), "pg_backend_pid()": str(number),
        }  # fmt: skip
        values = {word: f'"{word.removesuffix("()")}"({value})' for word, value in named.items()}
        for name, value in self._values.items():
            values[f"current_setting('{name.lower()}')"] = f"headrace_setting({_text(value)})"
        return values

    def reset(self) -> list[tuple[str, str]]:
        """All as the connection began; (name, value) of the reported ones that have changed."""
        self._lasting = self._defaults
        return self._become(self._defaults)

    def end(self, *, undone: bool = False) -> list[tuple[str, str]]:
        """What the transaction has set for itself alone is as before, ``undone``: all that it has set.

        (name, value) of the reported ones that have changed.
        """
        self._lasting = self._begun = self._begun if undone else self._lasting
        self._savepoints = []
        return self._become(self._lasting)

    def savepoint(self, depth: int, *, back: bool) -> list[tuple[str, str]]:
        """The transaction has ``depth`` savepoints now; ``back``: all is as it was at the last of them.

        (name, value) of the reported ones that have changed.
        """
        self._savepoints = [*self._savepoints, (self._values, self._lasting)][:depth]
        if not back:
            return []
        values, self._lasting = self._savepoints[-1]
        return self._become(values)

    def _become(self, values: dict[str, str]) -> list[tuple[str, str]]:
        before, self._values = self._values, values
        return [(name, values[name]) for name in REPORTED if values[name] != before[name]]

    @property
    def chars(self) -> int:
        """Of what was set."""
        kept = (each for savepoint in self._savepoints for each in savepoint)
        states = {id(each): each for each in (self._values, self._lasting, self._begun, *kept)}.values()
        own = {(name, value) for each in states for name, value in each.items() if value != self._defaults.get(name)}
        return sum(len(name) + len(value) for name, value in own)

    @property
    def timeout_s(self) -> float:
        """Of a statement."""
        return int(self._values["statement_timeout"]) / 1000

    @property
    def own_timeout_s(self) -> float:
        """That which the client has set; 0: none."""
        return 0.0 if self._values["statement_timeout"] == self._most_ms else self.timeout_s


def given(parameters: Mapping[str, str]) -> dict[str, str]:
    """The settings that a connection begins with, those within ``options`` too: ``-c name=value`` or ``--name=value``.

    A space in a value has a backslash before it. Raises ``psql.setting`` for other options.
    """
    found: dict[str, str] = {}
    words = [_ESCAPED.sub(r"\1", word) for word in _WORD.findall(parameters.get("options", ""))]
    while words:
        word = words.pop(0)
        option = words.pop(0) if word == "-c" and words else word.removeprefix("-c")
        name, equals, value = option.removeprefix("--").partition("=")
        if not word.startswith(("-c", "--")) or not equals:
            raise HeadraceError(
                "psql.setting", f"'{word}' is no option of a connection", next="options='-c statement_timeout=30s'"
            )
        found[name.replace("-", "_")] = value
    more = {name: value for name, value in parameters.items() if name not in _NONE and not name.startswith("_pq_.")}
    return found | more


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _milliseconds(value: str) -> int:
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]*)", value.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise HeadraceError("psql.setting", f"'{value}' is no time", next="SET statement_timeout = '30s'")
    return round(float(found[1]) * _UNITS[found[2]])


def _unknown(name: str) -> HeadraceError:
    return HeadraceError("psql.setting", f"there is no setting '{name}'", next="SHOW ALL lists them")
