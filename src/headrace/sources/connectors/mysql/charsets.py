"""Text in any character set of the server -> Arrow strings, by the server's own tables where Python may differ."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pymysql.err import MySQLError

from headrace.sources.connectors.mysql import setup

_SAME = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
_UNICODE = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
_ASKED = 500  # values that one query converts


class Charsets:
    """What converts texts; asks the server once for each set of single bytes, and for the values of other sets."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._tables: dict[str, str] = {}  # by set: its 256 characters
        self._wide: set[str] = set()  # sets whose characters may have more bytes

    def decode(self, texts: pa.BinaryArray, charset: str) -> pa.StringArray:
        """Raises ``ValueError``, ``pa.ArrowInvalid`` for what is no text of that set."""
        if charset in _SAME:
            return texts.cast(pa.string())
        encoded = texts.dictionary_encode()
        values: list[bytes] = encoded.dictionary.to_pylist()
        if charset in _UNICODE:
            decoded = [value.decode(_UNICODE[charset]) for value in values]
        elif (table := self._table(charset)) is not None:
            decoded = [codecs.charmap_decode(value, "strict", table)[0] for value in values]
        else:
            decoded = self._ask(values, charset)
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(decoded, pa.string())).cast(pa.string())

    def _table(self, charset: str) -> str | None:
        if charset in self._wide:
            return None
        if charset not in self._tables:
            connection = self._connect()
            query = "SELECT maxlen FROM information_schema.character_sets WHERE character_set_name = %s"
            found = setup.rows(connection, query, (charset,))
            if not found or found[0][0] > 1:
                self._wide.add(charset)
                return None
            single = self._ask([bytes([number]) for number in range(256)], charset)
            self._tables[charset] = "".join(single)
        return self._tables[charset]

    def _ask(self, values: list[bytes], charset: str) -> list[str]:
        if not charset.isidentifier():
            raise ValueError(f"the character set {charset} is not known")
        connection, found = self._connect(), []
        for start in range(0, len(values), _ASKED):
            some = values[start : start + _ASKED]
            query = " UNION ALL ".join([f"SELECT %s, CONVERT(UNHEX(%s) USING {charset})"] * len(some))
            parameters = [part for number, value in enumerate(some) for part in (number, value.hex())]
            try:
                answers = dict(setup.rows(connection, query, parameters))
            except MySQLError as error:
                raise ValueError(f"the server cannot convert it from {charset}: {error}") from error
            found += [answers[number] for number in range(len(some))]
        return found
