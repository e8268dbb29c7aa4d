"""Goal: every value of every type of MariaDB and MySQL arrives exactly, from the first copy and from the log alike.

Method: real servers; each literal is written before the first copy, and again while the table is followed, inserted
and updated. The judge is pymysql reading the same rows. Values that Spark's types cannot hold stop the source with
table and column named, and arrive as the server's text where the user asks for that.
"""

from __future__ import annotations

import json
import random

import pytest

from binlog_server import Followed, binlog_server, counted, followed, server_kind

__all__ = ["binlog_server", "followed", "server_kind"]  # fixtures

pytestmark = pytest.mark.binlog

INTS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
SPARK = {"tinyint": ("tinyint", "smallint"), "smallint": ("smallint", "int"), "mediumint": ("int", "int")}
SPARK |= {"int": ("int", "bigint"), "bigint": ("bigint", "decimal(20,0)")}

# column type -> (Spark type, literals)
TYPES: dict[str, tuple[str, list[str]]] = {
    **{name: (SPARK[name][0], [f"-{1 << bits - 1}", "0", "-1", f"{(1 << bits - 1) - 1}"]) for name, bits in INTS.items()},
    **{f"{name} unsigned": (SPARK[name][1], ["0", "1", f"{(1 << bits) - 1}"]) for name, bits in INTS.items()},
    "boolean": ("tinyint", ["true", "false", "5"]),
    "int(5) unsigned zerofill": ("bigint", ["7"]),
    "float": ("float", ["0.1", "-3.4028234663852886e38", "1e-45", "16777217", "3.14159274", "0", "-0e0"]),
    "double": ("double", ["0.1", "1.7976931348623157e308", "-2.2250738585072014e-308", "1e22", "-0e0", "123456789.123"]),
    "decimal(12,2)": ("decimal(12,2)", ["1.5", "-9999999999.99", "0", "-0.01"]),
    "decimal(18,9)": ("decimal(18,9)", ["999999999.999999999", "-1.000000001"]),
    "decimal(19,0)": ("decimal(19,0)", ["9999999999999999999", "-9999999999999999999"]),
    "decimal(38,18)": ("decimal(38,18)", ["12345678901234567890.123456789012345678", "-0.000000000000000001"]),
    "decimal(38,38)": ("decimal(38,38)", ["0." + "9" * 38, "-0." + "0" * 37 + "1"]),
    "decimal(65,30)": ("string", ["9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1", "0"]),
    "decimal(1,1)": ("decimal(1,1)", ["0.9", "-0.1"]),
    "decimal(5,0) unsigned": ("decimal(5,0)", ["99999"]),
    "bit(1)": ("boolean", ["b'0'", "b'1'"]),
    "bit(10)": ("bigint", ["b'1000000001'", "0"]),
    "bit(63)": ("bigint", [str((1 << 63) - 1)]),
    "bit(64)": ("decimal(20,0)", [str((1 << 64) - 1), "0"]),
    "year": ("smallint", ["0", "1901", "2155", "2024"]),
    "char(5)": ("string", ["'ab'", "'é'", "''", "'a  '"]),
    "varchar(255)": ("string", ["''", "'NULL'", "'Zürich 😀\\t\"'", "repeat('é', 255)"]),
    "varchar(3000)": ("string", ["repeat('x', 3000)", "' a '"]),
    "tinytext": ("string", ["'x'"]),
    "text": ("string", ["repeat('äb', 20000)", "''"]),
    "mediumtext": ("string", ["repeat('y', 70000)"]),
    "longtext": ("string", ["'l'"]),
    "binary(5)": ("binary", ["'ab'", "X'0000000000'", "X'FF00FF0000'"]),
    "varbinary(10)": ("binary", ["X'00'", "''", "X'FFFE'"]),
    "tinyblob": ("binary", ["X'01'"]),
    "blob": ("binary", ["repeat(X'00FF', 3000)", "''"]),
    "longblob": ("binary", ["X'DEADBEEF'"]),
    "date": ("date", ["'0001-01-01'", "'9999-12-31'", "'2024-02-29'", "'1969-12-31'"]),
    "datetime": ("timestamp_ntz", ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'1969-12-31 23:59:59'"]),
    **{f"datetime({n})": ("timestamp_ntz", ["'2024-02-29 12:34:56.987654'", "'1900-01-01 00:00:00'"]) for n in range(1, 7)},
    "timestamp null": ("timestamp", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"]),
    **{f"timestamp({n}) null": ("timestamp", ["'2024-02-29 12:34:56.987654'"]) for n in range(1, 7)},
    "time": ("string", ["'00:00:00'", "'-838:59:59'", "'838:59:59'", "'-00:00:01'"]),
    **{f"time({n})": ("string", ["'-00:00:00.987654'", "'-01:02:03.5'", "'23:59:59.999999'", "'-838:59:59.9'"]) for n in range(1, 7)},
    "enum('a','it''s','é,x')": ("string", ["'a'", "'it''s'", "'é,x'", "''"]),
    r"enum('a\\','\\n','two\r\nlines','\\''')": ("string", [r"'a\\'", r"'\\n'", r"'two\r\nlines'", r"'\\'''"]),
    r"set('a\\b','c\nd')": ("string", [r"'a\\b,c\nd'", r"'c\nd'"]),
    "set('a','b','ç','d','e','f','g','h','i')": ("string", ["''", "'a,ç,i'", "'a,b,ç,d,e,f,g,h,i'"]),
    "json": ("string", ["'{\"a\": [1, 2.50, null], \"é\": \"x\"}'", "'[]'"]),
    "uuid": ("string", ["'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-4fff-bfff-ffffffffff00'"]),
    "inet4": ("string", ["'1.2.3.4'", "'0.0.0.0'"]),
    "inet6": ("string", ["'::'", "'fe80::1'", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "'::1'", "'::1:2'", "'1:0:0:2:0:0:0:3'", "'1::'", "'2001:db8::ff00:42:8329'"]),
    "point": ("binary", ["point(1, 2)"]),
    "geometry": ("binary", ["ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))', 4326)"]),
    "varchar(20) character set latin1": ("string", ["'é€ß'", "X'81'"]),
    "char(8) character set latin2": ("string", ["'žluť'"]),
    "varchar(20) character set koi8r": ("string", ["'Привет'"]),
    "text character set cp1251": ("string", ["'Мир'"]),
    "varchar(20) character set ucs2": ("string", ["'aé漢'"]),
    "varchar(20) character set utf16": ("string", ["'a😀'"]),
    "varchar(20) character set utf16le": ("string", ["'a😀'"]),
    "char(3) character set utf32": ("string", ["'a😀'"]),
    "varchar(20) character set utf8mb3": ("string", ["'漢字'"]),
    "varchar(20) character set gbk": ("string", ["'漢字'"]),
    "varchar(20) character set sjis": ("string", ["'日本語ｱ'"]),
    "varchar(20) character set cp932": ("string", ["'日本語～'"]),
    "varchar(20) character set big5": ("string", ["'漢字'"]),
    "varchar(20) character set ujis": ("string", ["'日本語'"]),
    "varchar(20) character set euckr": ("string", ["'한국어'"]),
    "varchar(20) character set armscii8": ("string", ["'Բարեւ'"]),
    "enum('ä','b') character set latin1": ("string", ["'ä'"]),
    "varchar(20) collate utf8mb4_bin": ("string", ["'A'", "'a'"]),
}  # fmt: skip
MARIADB_ALONE = {"decimal(38,38)", "uuid", "inet4", "inet6"}


def some_types(followed: Followed, name: str) -> list[tuple[str, tuple[str, list[str]]]]:
    """The types of the columns of that table: twelve from the number in its name on."""
    return types(followed)[int(name[1:]) : int(name[1:]) + 12]


def types(followed: Followed) -> list[tuple[str, tuple[str, list[str]]]]:
    return [(text, of) for text, of in TYPES.items() if followed.is_mariadb or text not in MARIADB_ALONE]


@pytest.mark.parametrize("metadata", ["FULL", "less"])
def test_every_value_of_every_type_is_what_a_client_reads(followed: Followed, metadata: str) -> None:
    """One wide table a few types at a time; the second run has the server write no names of columns."""
    followed.names_written(metadata == "FULL")
    try:
        tables = []
        for start in range(0, len(types(followed)), 12):
            name = f"t{start}"
            some = some_types(followed, name)
            tables.append(name)
            columns = ", ".join(f"`c {n}` {type_text} NULL" for n, (type_text, _) in enumerate(some))
            followed.run(f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})")
            write(followed, name, 0)
        followed.begin(*tables)
        followed.is_same()
        for name in tables:
            some = some_types(followed, name)
            found = [column.type for column in followed.replica.relations[name].columns[1:]]
            assert found == [spark for _, (spark, _) in some], name
            write(followed, name, 100)
            followed.catches_up()
            followed.is_same()
            shifted = ", ".join(f"o.`c {n}` = n.`c {n}`" for n in range(len(some)))
            followed.run(f"UPDATE {name} o LEFT JOIN {name} n ON n.id = o.id + 1 SET {shifted} WHERE o.id < 100")
            followed.catches_up()
            followed.is_same()
            followed.run(f"DELETE FROM {name} WHERE id % 2 = 0")
            followed.catches_up()
            followed.is_same()
    finally:
        followed.names_written(True)


def write(followed: Followed, name: str, first: int) -> None:
    """Rows with the n-th literal of each type, then one of NULLs."""
    some = [literals for _, (_, literals) in some_types(followed, name)]
    rows = [
        ", ".join([str(first + number), *(one[number] if number < len(one) else "NULL" for one in some)])
        for number in range(max(map(len, some)) + 1)
    ]
    followed.run(f"INSERT INTO {name} VALUES ({'), ('.join(rows)})")


UNFIT = {
    "date": ["'0000-00-00'", "'2024-00-10'", "'0000-01-01'"],
    "datetime(3)": ["'0000-00-00 00:00:00.000'", "'2024-01-00 10:11:12.130'"],
    "timestamp(2) null": ["'0000-00-00 00:00:00'"],
    "timestamp null": ["'0000-00-00 00:00:00'"],
}


@pytest.mark.parametrize("type_text", UNFIT)
def test_what_no_spark_type_holds_stops_the_source_and_arrives_as_text(followed: Followed, type_text: str) -> None:
    literals = UNFIT[type_text]
    followed.run(f"CREATE TABLE t (id int PRIMARY KEY, c {type_text})")
    followed.begin("t")
    followed.run("INSERT INTO t VALUES (0, '2024-01-02')", f"INSERT INTO t VALUES (1, {literals[0]})")
    error = followed.stops("source.row")
    assert "table t: column c: the value '0000-00-00" in error.what and "as_text: [t.c]" in error.next
    assert ":" in error.where
    assert counted(followed.replica.contents("t")) == counted(followed.held("t")[:1])  # all before it was delivered

    followed.source.close()
    followed.source = followed.made()
    followed.source.start(frozenset({"t"}), None)
    from postgres_server import fails

    error = fails("source.row", followed.source.poll, 5)
    assert "column c" in error.what and "first copy" in error.where

    for number, literal in enumerate(literals):
        followed.run(f"INSERT INTO t VALUES ({10 + number}, {literal})")
    followed.begin("t", as_text=["t.c"])
    followed.is_same()
    for number, literal in enumerate([*literals, "'2024-05-06 07:08:09.123'", "NULL"]):
        followed.run(f"INSERT INTO t VALUES ({20 + number}, {literal})")
    followed.catches_up()
    followed.is_same()
    assert any(str(row[1]).startswith("0000-00-00") for row in followed.replica.contents("t"))


def test_days_that_there_are_not_stop_the_source(followed: Followed) -> None:
    followed.run("CREATE TABLE t (id int PRIMARY KEY, c date)")
    followed.begin("t")
    followed.run("SET sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO t VALUES (1, '2023-02-31')", "SET sql_mode = ''")
    assert "'2023-02-31'" in followed.stops("source.row").what


def test_numbers_as_text_are_the_same_from_copy_and_log(followed: Followed) -> None:
    """Typed text: whatever the way, one value has one text."""
    kinds = ["int unsigned", "bigint unsigned", "decimal(10,4)", "bit(1)", "bit(9)", "year", "double", "varbinary(4)"]
    values = ["4294967295", "18446744073709551615", "-1.5000", "1", "257", "2001", "0.1", "'ab'"]
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))
    followed.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})", f"INSERT INTO t VALUES (1, {', '.join(values)})")
    followed.begin("t", as_text=[f"t.c{n}" for n in range(len(kinds))])
    followed.run(f"INSERT INTO t VALUES (2, {', '.join(values)})")
    followed.catches_up()
    first, second = (row[1:] for row in followed.replica.contents("t"))
    assert first == second
    assert first == ("4294967295", "18446744073709551615", "-1.5000", "true", "257", "2001", "0.1", "ab")


def test_generated_and_invisible_columns_arrive(followed: Followed) -> None:
    followed.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int AS (id + 1) VIRTUAL, s int AS (id * 2) STORED, "
        "i int DEFAULT 3 INVISIBLE)",
        "INSERT INTO t (id) VALUES (1)",
    )
    followed.begin("t")
    followed.does("INSERT INTO t (id) VALUES (2)", "UPDATE t SET i = 9 WHERE id = 1")
    assert followed.replica.contents("t") == [(1, 2, 2, 9), (2, 3, 4, 3)]


NUMBERS = [0, -1, 32767, -32768, 32768, 65535, 65536, 2147483647, -2147483649, 4294967295, 4294967296]
NUMBERS += [(1 << 63) - 1, -(1 << 63), (1 << 64) - 1]
DOUBLES = [0.0, -0.0, 1.0, 0.1, -2.5, 1e14, 1e15, 1e16, 123456789012345.6, 1234567890123456.7, 1e-14, 1e-15, 1e-16]
DOUBLES += [1.5e-15, 1e20, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, -1.25e-7]
STRINGS = ["", "x", "é😀", '"\\/', "\x01\x1f\x7f\b\f\n\r\t", "a" * 127, "a" * 128, "b" * 20_000]
MYSQL_ALONE = [
    "JSON_ARRAY(CAST(1.50 AS DECIMAL(10,2)), CAST(-0.05 AS DECIMAL(10,2)), CAST(12345678901234567890.5 AS DECIMAL(40,9)))",
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('2024-02-29 12:34:56.789' AS DATETIME(3)), CAST('-01:02:03' AS TIME))",
    "JSON_ARRAY(TIMESTAMP'1000-01-01 00:00:00', CAST('838:59:59' AS TIME), X'00FF', b'101', CAST('ab' AS BINARY))",
    "JSON_OBJECT('t', true, 'f', false, 'n', NULL, 'd', 1e0, 'p', POINT(1, 2))",
    "JSON_ARRAY(CAST(REPEAT('a', 57) AS BINARY), CAST(REPEAT('b', 58) AS BINARY), CAST(REPEAT('xyz', 90) AS BINARY))",
    "CAST(CAST(-7 AS DECIMAL(5,0)) AS JSON)",
    "CAST(NULL AS JSON)",
]


def test_json_is_the_text_that_the_server_prints(followed: Followed) -> None:
    """Documents small and large, of one value and deep; MySQL keeps them in a form of its own, MariaDB as text."""
    draw = random.Random(7)
    doubles = [draw.uniform(-1, 1) * 10.0 ** draw.randrange(-20, 25) for _ in range(300)]
    nested: object = 1
    for depth in range(28):  # MariaDB takes 32
        nested = [nested] if depth % 2 else {"k": nested, "": depth}
    documents: list[object] = [*NUMBERS, *DOUBLES, *STRINGS, None, True, {}, [], nested, doubles, NUMBERS, STRINGS]
    documents += [{"é" * n: [n, {"x": n / 7}, None, False] for n in range(40)}, {f"k{n}": n for n in range(9000)}]
    followed.run("CREATE TABLE t (id int PRIMARY KEY, j json, other int)")
    followed.begin("t")
    with followed.client.cursor() as cursor:
        for number, document in enumerate(documents):
            cursor.execute("INSERT INTO t VALUES (%s, %s, 0)", (number, json.dumps(document)))
    for number, expression in enumerate([] if followed.is_mariadb else MYSQL_ALONE):
        followed.run(f"INSERT INTO t VALUES ({1000 + number}, {expression}, 0)")
    followed.run("UPDATE t SET other = 1")
    followed.catches_up()
    followed.is_same()
    assert json.loads(dict(row[:2] for row in followed.replica.contents("t"))[len(NUMBERS)]) == 0.0
    followed.begin("t")
    followed.is_same()
