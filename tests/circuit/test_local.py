"""Goal: an expression in its local form gives the bits that Spark gives, for every value that is hard on either.

Method: expressions over a frame of edge values, each lowered as a view's would be; those with a local form are
computed by Arrow and by Spark over the same rows. Hashes of every type that has one are compared the same way.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

from headrace.circuit.hashing import group_hash, strict_hash
from headrace.circuit.local import materialized
from headrace.circuit.node import Expression, Filter, Project
from headrace.circuit.picked import Where, copied
from headrace.engine.compile import Compiler
from headrace.formats.types.arrow import schema
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

TYPES = {
    "b": "boolean", "y": "tinyint", "h": "smallint", "i": "int", "j": "int", "l": "bigint", "m": "bigint",
    "f": "float", "d": "double", "e": "double", "n": "decimal(9,2)", "p": "decimal(18,0)",
    "g": "decimal(25,2)", "o": "decimal(38,6)", "s": "string", "r": "string", "x": "binary", "t": "date", "u": "timestamp", "v": "timestamp_ntz",
    "w": "struct<a:decimal(20,1),b:string>",
}  # fmt: skip
RELATION = Relation("rows", tuple(Column(name, type_text) for name, type_text in TYPES.items()))
FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 5e-324]
TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "abcdefgh", "é", "a" * 31, "b" * 32, "c" * 33, "Zürich" * 20, "\0"]
TEXTS += [
    "ABC",
    "bab",
    "/a//bc/",
    "İ",
    "\N{KELVIN SIGN}",
    "x\N{KELVIN SIGN}\N{CYRILLIC CAPITAL LETTER A}",
    "k",
    "&a=1&b=",
    "a\nb",
]
EDGES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [0, 1, -1, 127, -128],
    "smallint": [0, 5, -32768, 32767],
    "int": [0, 1, -1, 7, 40_000, -40_000],
    "bigint": [0, 1, -1, 1 << 31, -(1 << 31), 3_000_000_000],
    "float": FLOATS,
    "double": FLOATS,
    "decimal(9,2)": [Decimal("0.00"), Decimal("-1.25"), Decimal("9999999.99")],
    "decimal(18,0)": [Decimal(0), Decimal(10**17), Decimal(-5)],
    "decimal(25,2)": [Decimal(0), Decimal("-0.01"), Decimal(10**22), Decimal(1 << 65) / 100, -Decimal(1 << 63) / 100],
    "decimal(38,6)": [
        Decimal(text) for text in ("0", "0.000001", "-0.000128", "0.000127", "-1e20", "123456789.987654")
    ],
    "string": TEXTS,
    "binary": [text.encode() for text in TEXTS] + [bytes(range(256))],
    "date": [date(1970, 1, 1), date(1, 1, 1), date(2024, 2, 29), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1960, 5, 5, 1, 2, 3, 4, UTC),
        datetime(2, 1, 1, 0, 0, 0, 1, UTC),
        datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    ],
    "struct<a:decimal(20,1),b:string>": [{"a": a, "b": b} for a in (None, Decimal("-1.5")) for b in (None, "", "ab")],
    "timestamp_ntz": [datetime(1970, 1, 1), datetime(2024, 1, 1) + timedelta(microseconds=1)],
}
LOCAL = (
    "i = j", "i < j", "i <= 7", "l > m", "l >= 3000000000", "i > y", "y + 0 = h", "s = r", "s < r", "s >= 'abc'",
    "x = x", "t < date'2024-02-29'", "u <= timestamp'1970-01-01 00:00:00'", "v > timestamp_ntz'2024-01-01 00:00:00'",
    "b", "not b", "b = (i = j)", "b and i < j", "b or s = r", "i is null", "s is not null", "i + j", "i - 1", "i * 3",
    "l + i", "l - m", "d + e", "d - e", "d * e", "d * 0.5d", "if(b, i, j)", "if(s = 'a', 1, null)", "i <> 7", "n is null",
    "i between 0 and 7", "cast(i as bigint)", "u + interval '1' hour", "u - interval '1 02:03:04.5' day to second",
    "u - interval '3' day > timestamp'1960-05-02 00:00:00'", "cast(u as date)", "cast(u as date) = t",
    "unix_millis(u)", "unix_seconds(u)", "i % 7", "l % 1000", "y % 3Y", "l div 7", "i div 1000", "hour(u)", "minute(u)",
    "case when b then i when i < j then j else 7 end", "case when l > 0 then 'up' when l < 0 then 'down' end",
    "case when s in ('a', 'abc', r) then 1 else 0 end", "i in (1, 7, -1)", "t in (date'0001-01-01', null)",
    "length(s)", "replace(s, 'b', 'cd')", "replace(s, 'ab')", "contains(s, 'bc')", "startswith(s, 'ab')",
    "endswith(s, 'h')", "date_format(u, 'yyyy-MM-dd')", "date_format(u, 'HH:mm')", "date_format(u, 'dd/MM/yyyy HH:mm:ss')", "length(s) - length(replace(s, 'c', ''))",
    "split_part(s, '/', 2)", "split_part(s, 'b', 1)", "split_part(s, 'b', -1)", "split_part(s, 'aa', 3)",
    "split_part(s, '/', 9)", "lower(s) = 'abc'", "lower(s) in ('k', 'i', '')", "lower(s) = 'xk'",
    "s rlike 'b'", "s rlike '(&|^)b=([^&]*)'", "regexp_extract(s, '(&|^)a=([^&]*)', 2)", "regexp_extract(s, 'b+', 0)",
    "regexp_extract(s, '(a)|(b)', 2)",
    "n < 1.00", "n = p", "g >= n", "o <= g", "n in (0.00, -1.25, 7.00)", "n * n", "n + p", "n - 1.5", "p * 2", "g * n",
    "n * (1 - n) * (1 + n)", "o + n", "o - g", "o * 3", "g * 3.00", "if(n < 0, n * p, null)", "cast(n as decimal(20,4))",
    "cast(o as decimal(38,5))", "cast(i as decimal(12,2))", "cast(l as decimal(20,0)) = p", "p + i", "n / 7", "p / 7.0", "g / 3.00", "o / 0.7",
    "o / if(g = 0, 1, g)", "n / if(p = 0, 1, p)", "-7.125 / if(n = 0, p + 1000000000000000000, n)", "(100.00 * g) / -3.0000",
    "coalesce(i, j, 0)", "coalesce(s, r)", "coalesce(n, 1.5)", "coalesce(d, e)", "l div if(j = 0, 3, j)", "i div if(y = 0Y, 1Y, y)",
    "d / if(l = 0, 1.5d, cast(l as double))", "i / if(j = 0, 3, j)", "cast(l as double)", "date_trunc('hour', u)", "date_trunc('DD', u)",
    "date_trunc('minute', v)", "date_trunc('second', u)", "i < 10000 and i * i < 5", "i > j and y < 3 and i - j > 0",
    "struct(i, s)", "w.b", "struct(w, n).w.a", "named_struct('k', n, 'm', u).m",
    "year(t)", "month(t)", "day(t)", "year(u)", "s like '%b%c%'", "s like 'a_c%'", "s like 'a%'", "s not like '%b'",
    "s like '_'", "s like 'a%b'", "substring(s, 1, 2)", "substring(s, 3)", "substring(s, 2, 0)", "left(s, 3)",
)  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    chosen = random.Random(5)
    columns = [[chosen.choice([None, *EDGES[t]]) for _ in range(400)] for t in TYPES.values()]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema(RELATION.columns), strict=True)], names=[*TYPES]
    )


def positional(spark: Any, rows: pa.Table) -> Any:
    """The rows as operators see them: columns by position."""
    return spark.createDataFrame(rows.rename_columns([f"c{i}" for i in range(rows.num_columns)]))


def expressions(spark: Any, texts: tuple[str, ...]) -> list[Expression]:
    """As of the one view ``SELECT *, e0, e1, ... FROM rows``, which reads every column."""
    made = ", ".join(f"{text} as e{i}" for i, text in enumerate(texts))
    compiled = Compiler(spark).compile({"rows": RELATION}, [ViewDefinition("v", f"select *, {made} from rows")], {})
    assert not compiled.refused, compiled.refused
    root = compiled.views["v"].root
    assert isinstance(root, Project)
    return list(root.expressions[len(TYPES) :])


def test_local_forms_give_what_spark_gives(spark: Any, rows: pa.Table) -> None:
    made = expressions(spark, LOCAL)
    assert [text for text, e in zip(LOCAL, made, strict=True) if e.local is None] == []
    answers = positional(spark, rows).select(*[e.column.alias(f"e{i}") for i, e in enumerate(made)]).toArrow()
    mine = rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
    for i, (text, expression) in enumerate(zip(LOCAL, made, strict=True)):
        assert expression.local is not None
        values = materialized(expression.local.evaluate(mine), rows.num_rows)
        expected = answers.column(f"e{i}").combine_chunks()
        assert repr(values.to_pylist()) == repr(expected.to_pylist()), text
        assert values.type == expected.type, text


@pytest.mark.parametrize(
    "text",
    [
        "i % 0",
        "i % -1",
        "date_trunc('month', u)",
        "i * i < 5 or i < 10",
        "coalesce(i, i * i)",
        "hour(v)",
        "date_format(u, 'MMMM yyyy')",
        "date_format(u, 'yyyyyyyy')",
        "date_format(u, 'dddd')",
        "date_format(u, 'HHHH')",
        "date_format(u, 'mmmm')",
        "date_format(u, 'ssss')",
        "contains(s, r)",
        "replace(s, r, 'a')",
        "replace(s, '', 'a')",
        "d < e",
        "f = f",
        "n * o",  # of 8 digits behind the point Spark keeps 6
        "try_divide(n, p)",
        "cast(g as decimal(9,2))",
        "substring(s, -2)",
        "s like 'a!%' escape '!'",
        "s like r",
        "upper(s)",
        "lower(s)",
        "lower(s) = 'zürich'",
        "lower(s) = r",
        "split_part(s, r, 1)",
        "split_part(s, '', 1)",
        "split_part(s, 'a', i)",
        "s rlike r",
        "s rlike '(a|b)*'",
        "s rlike '\\\\d'",
        "s rlike 'a$'",
        "s rlike '(?i)a'",
        "s rlike 'é'",
        "s rlike 'a**'",
        "s rlike 'a.b'",
        "regexp_extract(s, '(a)', i)",
        "y + y",
        "u + interval 1 month",
        "cast(v as date)",
    ],
)
def test_what_arrow_would_do_otherwise_stays_with_spark(spark: Any, text: str) -> None:
    [made] = expressions(spark, (text,))
    assert made.local is None


def pattern(rng: random.Random, depth: int = 0) -> str:
    """A regular expression of those that are the same to both."""
    branches = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        pieces = [rng.choice(["", "", "^"])]
        for _ in range(rng.randrange(4)):
            if depth < 2 and rng.random() < 0.25:
                pieces.append(f"({pattern(rng, depth + 1)})")
            else:
                one = rng.choice(["a", "b", "=", "&", "[ab]", "[^&]", "[a-z=]", "[^a-b]", "\\\\."])
                pieces.append(one + rng.choice(["", "", "*", "+", "?"]))
        branches.append("".join(pieces))
    return "|".join(branches)


def test_regular_expressions_match_as_javas(spark: Any) -> None:
    rng = random.Random(11)
    texts = ["".join(rng.choices("aabb&=c.\né😀", k=rng.randrange(12))) for _ in range(400)]
    patterns = [made for made in (pattern(rng) for _ in range(80)) if made]
    asked = [
        text
        for made in patterns
        for text in (f"s rlike '{made}'", *(f"regexp_extract(s, '{made}', {g})" for g in range(made.count("(") + 1)))
    ]
    made = expressions(spark, tuple(asked))
    assert [text for text, e in zip(asked, made, strict=True) if e.local is None] == []
    rows = pa.table({f"c{[*TYPES].index('s')}": pa.array(texts)})
    answers = spark.createDataFrame(rows).select(*[e.column.alias(f"e{i}") for i, e in enumerate(made)]).toArrow()
    for i, (text, expression) in enumerate(zip(asked, made, strict=True)):
        assert expression.local is not None
        values = materialized(expression.local.evaluate(rows), len(texts))
        assert values.to_pylist() == answers.column(f"e{i}").to_pylist(), text


def test_only_the_kelvin_sign_becomes_a_small_letter_of_ascii(spark: Any) -> None:
    """What ``Lowered`` takes for granted, of all characters there are, with Spark's own tables."""
    codes = [code for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000]
    frame = spark.createDataFrame(pa.table({"s": pa.array(map(chr, codes))}))
    found = frame.where("length(lower(s)) = octet_length(lower(s))").toArrow()
    assert found["s"].to_pylist() == ["\N{KELVIN SIGN}"]


def test_years_that_python_has_no_dates_of(spark: Any) -> None:
    [made] = expressions(spark, ("date_format(u, 'yyyy-MM-dd HH:mm:ss')",))
    rng = random.Random(7)
    micros = [0, -1, (1 << 63) - 1, -(1 << 63) + 10**12, *(rng.randrange(-(1 << 62), 1 << 62) for _ in range(200))]
    times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    place = list(TYPES).index("u")
    answers = spark.createDataFrame(pa.table({f"c{place}": times})).select(made.column.alias("e")).toArrow()
    assert made.local is not None
    assert made.local.evaluate(pa.table({f"c{place}": times})).to_pylist() == answers["e"].to_pylist()


def test_an_overflow_is_an_error_in_both(spark: Any, rows: pa.Table) -> None:
    [made] = expressions(spark, ("i * 2147483647",))
    assert made.local is not None and made.local.throws
    with pytest.raises(ArithmeticError, match="ARITHMETIC_OVERFLOW"):
        made.local.evaluate(rows.rename_columns([f"c{i}" for i in range(rows.num_columns)]))


def test_decimals_of_every_size(spark: Any) -> None:
    """Each of its own number of digits: hashes, ratios and comparisons have no other seam than that."""
    rng = random.Random(13)
    digits = {"n": (9, 2), "p": (18, 0), "g": (25, 2), "o": (38, 6)}
    columns = {}
    for name, (most, scale) in digits.items():
        values = [
            Decimal(rng.randrange(-(10**size), 10**size)).scaleb(-scale, Context(prec=most))
            for size in (rng.randrange(1, min(most, 30) + 1) for _ in range(3000))
        ]
        columns[f"c{[*TYPES].index(name)}"] = pa.array([None, *values], pa.decimal128(most, scale))
    rows = pa.table(columns)
    asked = (
        "n * g",
        "g - n",
        "p + g",
        "n * p",
        "n < p",
        "o > g",
        "g / 7.0",
        "o / if(n = 0, 3, n)",
        "p / if(n = 0, 1, n)",
    )
    made = expressions(spark, asked)
    hashes = [group_hash([key(name)]) for name in digits]
    frame = spark.createDataFrame(rows)
    answers = frame.select(*[e.column.alias(f"e{i}") for i, e in enumerate([*made, *hashes])]).toArrow()
    for i, (text, value) in enumerate(zip([*asked, *digits], [*made, *hashes], strict=True)):
        assert value.local is not None, text
        found = materialized(value.local.evaluate(rows), rows.num_rows)
        assert found.equals(answers.column(f"e{i}").combine_chunks()), text


@pytest.mark.parametrize(
    ("text", "error"),
    [("o * 300000000", "NUMERIC_VALUE_OUT_OF_RANGE"), ("o / 0.0000000001", "NUMERIC_VALUE_OUT_OF_RANGE"),
     ("g / n", "DIVIDE_BY_ZERO")],
)  # fmt: skip
def test_a_decimal_that_has_no_value_is_an_error_in_both(spark: Any, text: str, error: str) -> None:
    [made] = expressions(spark, (text,))
    names = {name: f"c{[*TYPES].index(name)}" for name in "ngo"}
    large = pa.array([Decimal(10) ** 31], pa.decimal128(38, 6))
    rows = pa.table({names["n"]: pa.array([Decimal(0)], pa.decimal128(9, 2)),
                     names["g"]: pa.array([Decimal(1)], pa.decimal128(25, 2)), names["o"]: large})  # fmt: skip
    assert made.local is not None and made.local.throws
    with pytest.raises(ArithmeticError, match=error):
        made.local.evaluate(rows)
    with pytest.raises(Exception, match=error):
        spark.createDataFrame(rows).select(made.column).collect()


def test_a_part_of_a_condition_sees_what_the_parts_before_let_pass(spark: Any) -> None:
    """As Spark does: AND looks on unless it is false, a filter only where all is true."""
    [made] = expressions(spark, ("i < 10 and j + 1 > 5",))
    large, place = (1 << 31) - 1, [*TYPES].index
    rows = {f"c{place('i')}": pa.array([20, 1, 1, None], pa.int32()), f"c{place('j')}": [large, 7, 1, 7]}
    table = pa.table({**rows, f"c{place('j')}": pa.array([large, 7, 1, 7], pa.int32())})
    assert made.local is not None and made.local.throws
    frame = spark.createDataFrame(table)
    assert materialized(made.local.evaluate(table), 4).to_pylist() == [False, True, False, None]
    assert [r.e for r in frame.select(made.column.alias("e")).collect()] == [False, True, False, None]
    unknown = pa.table({**table.to_pydict(), f"c{place('i')}": pa.array([None, 1, 1, 1], pa.int32())}, table.schema)
    with pytest.raises(ArithmeticError, match="ARITHMETIC_OVERFLOW"):
        made.local.evaluate(unknown)
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        spark.createDataFrame(unknown).select(made.column).collect()
    [batch] = copied(Where(made.local)(unknown.to_batches()))
    frame = spark.createDataFrame(unknown)
    behind = frame.mapInArrow(lambda batches: batches, frame.schema)  # as circuits filter: not while planning
    assert batch.to_pylist() == [r.asDict() for r in behind.where(made.column).collect()]


@pytest.mark.parametrize("window", ["window(u, '10 seconds')", "window(u, '7 days').end"])
def test_windows_of_time_are_local(spark: Any, rows: pa.Table, window: str) -> None:
    [made] = expressions(spark, (window,))
    known = rows.filter(pc.and_(rows["u"].is_valid(), rows["v"].is_valid()))
    mine = known.rename_columns([f"c{i}" for i in range(rows.num_columns)])
    answers = positional(spark, known).select(made.column.alias("e")).toArrow()
    assert made.local is not None
    found = materialized(made.local.evaluate(mine), known.num_rows)
    assert repr(found.to_pylist()) == repr(answers["e"].to_pylist())


@pytest.mark.parametrize("strict", [True, False])
def test_hashes_are_sparks(spark: Any, rows: pa.Table, strict: bool) -> None:
    names = [[name] for name in TYPES] + [["s", "i", "x"], ["b", "d", "s", "r", "l"], ["n", "v", "f"]]
    frame, mine = positional(spark, rows), rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
    structs = expressions(spark, ("struct(i, s, o)", "named_struct('t', t, 'u', struct(u, f))"))
    for keys in [*names, structs, [structs[0]]]:
        made = [key(each) if isinstance(each, str) else each for each in keys]
        value = strict_hash(made) if strict else group_hash(made)
        assert value.local is not None, keys
        expected = frame.select(value.column.alias("h")).toArrow().column("h").to_pylist()
        assert materialized(value.local.evaluate(mine), rows.num_rows).to_pylist() == expected, keys


def key(name: str) -> Expression:
    from headrace.circuit.local import Reference

    at = f"c{[*TYPES].index(name)}"
    return Expression(F.col(at), f"'{at}", TYPES[name], True, Reference(at))


def test_a_filter_of_a_view_is_local(spark: Any) -> None:
    definition = ViewDefinition("v", "select i from rows where i > 3 and s = 'a'")
    root = Compiler(spark).compile({"rows": RELATION}, [definition], {}).views["v"].root
    filters = [n for n in root.walk() if isinstance(n, Filter)]
    assert filters and all(f.condition.local is not None for f in filters)
