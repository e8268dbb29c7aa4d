"""The gate: what a view may not contain is refused with its code and its place, what it may is admitted.

The cases are data. Each refusal names the error code, a part of the message and, where it says something, the line
and column. Accepted texts are also analyzed by Spark and pass the second gate.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import HeadraceError
from headrace.sql.admit import Admitted, Ordering, admit, check_analyzed
from headrace.sql.catalyst import Catalyst
from headrace.sql.errors import analysis_error, did_you_mean

pytestmark = pytest.mark.spark

TABLES = {
    "orders": "id bigint, cust bigint, amt decimal(12,2), ts timestamp, d double, note string, tags array<string>",
    "Cust": "id bigint, region string, f float, since date, doc variant, pairs map<string,int>",
    "people": "id bigint, user string, current_date date",
}

REFUSED = [
    # code execution
    ("SELECT TRANSFORM(id) USING 'sh -c id' FROM orders", "sql.refused", "TRANSFORM ... USING"),
    ("SELECT * FROM (SELECT TRANSFORM(id) USING 'cat' AS (x string) FROM orders)", "sql.refused", "TRANSFORM"),
    ("SELECT id FROM orders WHERE id IN (SELECT TRANSFORM(id) USING 'cat' FROM Cust)", "sql.refused", "TRANSFORM"),
    ("WITH c AS (SELECT TRANSFORM(id) USING 'cat' FROM orders) SELECT 1 FROM Cust", "sql.refused", "TRANSFORM"),
    ("FROM orders MAP id USING 'cat' AS x", "sql.refused", "TRANSFORM ... USING"),
    ("SELECT reflect('java.lang.System', 'getenv', 'HOME') FROM orders", "sql.refused", "the function reflect"),
    ("SELECT java_method('java.lang.System', 'getProperty', 'x') FROM orders", "sql.refused", "calls code of the JVM"),
    ("SELECT try_reflect('java.lang.System', 'exit', 0) FROM orders", "sql.refused", "try_reflect"),
    ("SELECT id FROM orders ORDER BY ReFlect('java.lang.System', 'getenv')", "sql.refused", "ReFlect"),
    ("SELECT sum(amt) FILTER (WHERE reflect('a', 'b') = '1') FROM orders", "sql.refused", "reflect"),
    ("SELECT transform(tags, x -> reflect('a', 'b', x)) FROM orders", "sql.refused", "reflect"),
    ("SELECT rank() OVER (ORDER BY reflect('a', 'b')) FROM orders", "sql.refused", "reflect"),
    ("SELECT count(*) OVER w FROM orders WINDOW w AS (PARTITION BY reflect('a', 'b'))", "sql.refused", "reflect"),
    ("SELECT * FROM orders PIVOT (max(reflect('a', 'b')) FOR cust IN (1, 2))", "sql.refused", "reflect"),
    ("SELECT * FROM orders LATERAL VIEW explode(array(reflect('a', 'b'))) v AS y", "sql.refused", "reflect"),
    ("SELECT * FROM orders JOIN Cust ON reflect('a', 'b') = '1'", "sql.refused", "reflect"),
    ("SELECT * FROM VALUES (reflect('a', 'b')) AS v(x)", "sql.refused", "reflect"),
    ("SELECT id FROM orders GROUP BY GROUPING SETS ((id), (reflect('a', 'b')))", "sql.refused", "reflect"),
    ("SELECT id FROM orders HAVING reflect('a', 'b') = '1'", "sql.refused", "reflect"),
    ("SELECT * EXCEPT (note) FROM orders, LATERAL (SELECT reflect('a', 'b'))", "sql.refused", "reflect"),
    ("FROM orders |> EXTEND reflect('a', 'b') AS x", "sql.refused", "reflect"),
    ("SELECT my_udf(id) FROM orders", "sql.refused", "not on the list of known functions"),
    ("SELECT default.my_udf(id) FROM orders", "sql.refused", "default.my_udf"),
    ("SELECT system.builtin.reflect('a', 'b') FROM orders", "sql.refused", "system.builtin.reflect"),
    ("SELECT system.builtin.abs(id) FROM orders", "sql.refused", "system.builtin.abs"),
    # files and network
    ("SELECT * FROM text.`/etc/passwd`", "sql.refused", "text./etc/passwd"),
    ("SELECT * FROM csv.`file:///etc/passwd`", "sql.refused", "a relation of the project has one name"),
    ("SELECT * FROM json.`s3a://bucket/x`", "sql.refused", "json."),
    ("SELECT id FROM orders WHERE id = (SELECT count(*) FROM binaryFile.`/etc`)", "sql.refused", "binaryFile"),
    ("SELECT * FROM `/etc/passwd`", "sql.unknown_relation", "/etc/passwd"),
    ("SELECT from_xml(note, 'a int', map('rowValidationXSDPath', '/x')) FROM orders", "sql.refused", "name files"),
    ("SELECT from_protobuf(unhex(note), 'M', '/etc/passwd') FROM orders", "sql.refused", "from_protobuf"),
    ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT * FROM orders", "sql.refused", "a view is one SELECT"),
    # commands
    ("CREATE TABLE x USING csv LOCATION '/tmp/x' AS SELECT * FROM orders", "sql.refused", "CREATE TABLE AS SELECT"),
    ("INSERT INTO orders SELECT * FROM orders", "sql.refused", "INSERT INTO"),
    ("FROM orders INSERT INTO orders SELECT *", "sql.refused", "INSERT INTO"),
    ("WITH c AS (SELECT 1) INSERT INTO orders SELECT * FROM c", "sql.refused", "INSERT INTO"),
    ("UPDATE orders SET id = 1", "sql.refused", "UPDATE TABLE"),
    ("DELETE FROM orders", "sql.refused", "DELETE FROM TABLE"),
    ("MERGE INTO orders USING Cust ON orders.id = Cust.id WHEN MATCHED THEN DELETE", "sql.refused", "MERGE INTO"),
    ("DROP TABLE orders", "sql.refused", "DROP TABLE"),
    ("ADD JAR '/tmp/x.jar'", "sql.refused", "ADD JARS"),
    ("ADD FILE '/etc/passwd'", "sql.refused", "ADD FILES"),
    ("SET spark.sql.runSQLOnFiles=true", "sql.refused", "SET is not"),
    ("RESET", "sql.refused", "RESET is not"),
    ("CREATE FUNCTION f AS 'x.Y' USING JAR 'http://127.0.0.1/x.jar'", "sql.refused", "CREATE FUNCTION"),
    ("CREATE TEMPORARY VIEW v USING jdbc OPTIONS (url 'jdbc:hive2://127.0.0.1')", "sql.refused", "CREATE TEMP VIEW"),
    ("DECLARE VARIABLE x INT DEFAULT 1", "sql.refused", "CREATE VARIABLE"),
    ("EXECUTE IMMEDIATE 'SELECT 1'", "sql.refused", "EXECUTE IMMEDIATE"),
    ("BEGIN SELECT 1; END", "sql.refused", "a view is one SELECT"),
    ("EXPLAIN SELECT 1", "sql.refused", "EXPLAIN"),
    ("SHOW TABLES", "sql.refused", "SHOW TABLES"),
    ("DESCRIBE orders", "sql.refused", "DESCRIBE"),
    ("CACHE TABLE orders", "sql.refused", "CACHE TABLE"),
    ("CALL system.x()", "sql.refused", "CALL"),
    # names
    ("SELECT * FROM main.default.orders", "sql.refused", "main.default.orders"),
    ("SELECT * FROM IDENTIFIER('or' || 'ders')", "sql.refused", "IDENTIFIER()"),
    ("SELECT * FROM IDENTIFIER('main.orders')", "sql.refused", "the relation main.orders"),
    ("SELECT IDENTIFIER('id') FROM orders", "sql.refused", "IDENTIFIER()"),
    ("SELECT :x FROM orders", "sql.refused", "a parameter"),
    ("SELECT ? FROM orders", "sql.refused", "a parameter"),
    ("SELECT '${env:HOME}' FROM orders", "sql.refused", "${...}"),
    ("SELECT * FROM ordrs", "sql.unknown_relation", "did you mean 'orders'?"),
    ("SELECT * FROM orders WHERE id IN (WITH c AS (SELECT 1) SELECT * FROM c) OR id IN (SELECT * FROM c)",
     "sql.unknown_relation", "'c'"),
    ("WITH c AS (SELECT * FROM c) SELECT * FROM c", "sql.unknown_relation", "'c'"),
    ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", "sql.unknown_relation", "'b'"),
    ("SELECT * FROM orders WITH (`header` = true)", "sql.refused", "orders with options"),
    ("SELECT * FROM STREAM orders", "sql.refused", "STREAM"),
    ("SELECT * FROM orders VERSION AS OF 1", "sql.refused", "VERSION AS OF"),
    ("SELECT * FROM orders TIMESTAMP AS OF '2020-01-01'", "sql.refused", "VERSION AS OF"),
    # clauses
    ("SELECT * FROM python_worker_logs()", "sql.refused", "python_worker_logs"),
    ("SELECT * FROM my_function(1)", "sql.refused", "no such function is known"),
    ("SELECT * FROM orders TABLESAMPLE (10 PERCENT)", "sql.not_deterministic", "TABLESAMPLE"),
    ("SELECT * FROM orders TABLESAMPLE (5 ROWS)", "sql.not_deterministic", "pmod(xxhash64(id), 100)"),
    ("SELECT * FROM orders CLUSTER BY id", "sql.refused", "DISTRIBUTE BY"),
    ("SELECT * FROM orders DISTRIBUTE BY id", "sql.refused", "DISTRIBUTE BY"),
    ("SELECT * FROM orders SORT BY id", "sql.refused", "SORT BY"),
    ("SELECT * FROM json_table('[1]', '$[*]' COLUMNS (a INT PATH '$'))", "sql.refused", "JSON_TABLE"),
    # values that are not determined
    ("SELECT rand() FROM orders", "sql.not_deterministic", "its value is random"),
    ("SELECT rand(42) FROM orders", "sql.not_deterministic", "rand"),
    ("SELECT uuid() FROM orders", "sql.not_deterministic", "uuid"),
    ("SELECT shuffle(tags) FROM orders", "sql.not_deterministic", "shuffle"),
    ("SELECT monotonically_increasing_id() FROM orders", "sql.not_deterministic", "placed in partitions"),
    ("SELECT spark_partition_id() FROM orders", "sql.not_deterministic", "spark_partition_id"),
    ("SELECT input_file_name() FROM orders", "sql.not_deterministic", "input_file_name"),
    ("SELECT current_time() FROM orders", "sql.not_deterministic", "begins anew every day"),
    ("SELECT localtime FROM orders", "sql.not_deterministic", "write relation.localtime"),
    ("SELECT current_user() FROM orders", "sql.not_deterministic", "the session"),
    ("SELECT approx_top_k(id) FROM orders", "sql.not_deterministic", "approximate"),
    ("SELECT hll_sketch_agg(id) FROM orders", "sql.not_deterministic", "sketch"),
    ("SELECT histogram_numeric(d, 3) FROM orders", "sql.not_deterministic", "width_bucket(x, low, high, n)"),
    ("SELECT percentile_approx(d, 0.5) FROM orders", "sql.not_deterministic", "write percentile(x, p)"),
    ("SELECT TIMESTAMP'now' FROM orders", "sql.not_deterministic", "'now'"),
    ("SELECT date 'today UTC' FROM orders", "sql.not_deterministic", "'today UTC'"),
    ("SELECT timestamp_ntz \"Yesterday\" FROM orders", "sql.not_deterministic", "Yesterday"),
    ("SELECT timestamp_ltz r'tomorrow' FROM orders", "sql.not_deterministic", "tomorrow"),
    ("SELECT TIMESTAMP /* */ ' N\\u004fW ' FROM orders", "sql.not_deterministic", "NOW"),
    ("SELECT tımestamp'now' FROM orders", "sql.not_deterministic", "'now'"),
    ("SELECT TIMESTAMP '12:34' FROM orders", "sql.not_deterministic", "12:34"),
    ("SELECT TIMESTAMP 'T7' FROM orders", "sql.not_deterministic", "T7"),
    ("SELECT * FROM VALUES ('early', CAST('06:00' AS TIMESTAMP)) AS v(a, b)", "sql.not_deterministic", "'06:00' as a date"),
    ("SELECT * FROM VALUES (CAST(array('06:00') AS ARRAY<TIMESTAMP>)) AS v(a)", "sql.not_deterministic", "'06:00' as a date"),
    ("SELECT * FROM VALUES (1, to_timestamp('now')) AS v(a, b)", "sql.not_deterministic", "'now' as a date"),
    ("SELECT * FROM range(unix_timestamp('06:00'))", "sql.not_deterministic", "'06:00' as a date"),
    ("SELECT * FROM (SELECT ts, id FROM orders) PIVOT (max(id) FOR ts IN (timestamp('06:00') AS a))",
     "sql.not_deterministic", "'06:00' as a date"),
]  # fmt: skip

# Seen by the second gate, after analysis.
REFUSED_ANALYZED = [
    ("SELECT user FROM orders", "sql.not_deterministic", "current_user is not admitted"),
    ("SELECT CAST('now' AS timestamp) FROM orders", "sql.not_deterministic", "'now'"),
    ("SELECT 'today'::date FROM orders", "sql.not_deterministic", "'today'"),
    ("SELECT to_date('yesterday') FROM orders", "sql.not_deterministic", "'yesterday'"),
    ("SELECT to_timestamp('12:34') FROM orders", "sql.not_deterministic", "'12:34'"),
    ("SELECT try_cast(' T7:00' AS timestamp) FROM orders", "sql.not_deterministic", "T7:00"),
    ("SELECT cast(concat('n', 'ow') AS timestamp) FROM orders", "sql.not_deterministic", "'now'"),
    ("SELECT hour('12:34') FROM orders", "sql.not_deterministic", "'12:34'"),
    ("SELECT id FROM orders WHERE ts > 'today'", "sql.not_deterministic", "'today'"),
    ("SELECT id FROM orders WHERE id IN (SELECT id FROM Cust WHERE since = 'today')", "sql.not_deterministic", "today"),
    ("WITH c AS (SELECT date('today') d) SELECT d FROM c", "sql.not_deterministic", "'today'"),
    ("SELECT cast(TIME'12:34' AS timestamp) FROM orders", "sql.not_deterministic", "a time of day"),
    ("SELECT cast(array(TIME'06:00') AS array<timestamp>)[0] FROM orders", "sql.not_deterministic", "a time of day"),
    ("SELECT cast(tags AS array<timestamp>) FROM orders", "sql.not_deterministic", "cast each"),
    ("SELECT from_json(note, 't timestamp') FROM orders", "sql.not_deterministic", "timestampFormat"),
    ("SELECT from_csv(note, 't timestamp') FROM orders", "sql.not_deterministic", "timestampFormat"),
    ("SELECT variant_get(doc, '$.t', 'timestamp') FROM Cust", "sql.not_deterministic", "variant_get"),
    ("SELECT cast(doc AS timestamp) FROM Cust", "sql.not_deterministic", "a variant"),
]

PLACES = [
    ("SELECT id,\n  reflect('a', 'b')\nFROM orders", "views/x.sql:2:3"),
    ("SELECT id\nFROM orders\nWHERE id > rand()", "views/x.sql:3:12"),
    ("SELECT id\n FROM ordrs", "views/x.sql:2:7"),
    ("SELECT id\n, timestamp 'now' FROM orders", "views/x.sql:2:13"),
    ("SELECT id\n FROM orders o x", "views/x.sql:2:16"),
    ("DROP TABLE orders", "views/x.sql:1:1"),
]

ACCEPTED = [
    "SELECT note COLLATE UNICODE_CI FROM orders",
    "SELECT collate(note, 'UNICODE') FROM orders WHERE CAST(note AS STRING COLLATE UNICODE_AI) = 'a'",
    "SELECT * FROM orders",
    "select ORDERS.* from Orders;",
    "TABLE orders",
    "(SELECT id FROM orders)",
    "FROM orders SELECT id, amt",
    "FROM orders |> WHERE amt > 1 |> AGGREGATE count(*) AS n GROUP BY cust",
    "SELECT id AS a, amt * 2 + 1 - -id, d / 2, id % 3, id DIV 2, ~id, id & 1, id | 2, id ^ 3, +id FROM orders",
    "SELECT id << 1, id >> 1, id >>> 1, note || 'x' FROM orders",
    "SELECT * EXCEPT (note) FROM orders",
    "SELECT DISTINCT cust FROM orders",
    "SELECT id FROM orders WHERE amt > 10 AND NOT note LIKE 'a%' ESCAPE '!' OR note RLIKE 'b' OR note ILIKE 'c'",
    "SELECT id FROM orders WHERE note LIKE ANY ('a', 'b') AND note NOT LIKE ALL ('c') AND note LIKE ALL ('d%')",
    "SELECT id FROM orders WHERE amt BETWEEN 1 AND 2 AND id IN (1, 2) AND note IS NOT NULL AND id <=> cust",
    "SELECT id FROM orders WHERE (id, cust) IN ((1L, 2L)) AND note IS DISTINCT FROM 'x' AND (amt > 1) IS NOT TRUE",
    "SELECT CASE WHEN amt > 1 THEN 'x' ELSE 'y' END, CASE cust WHEN 1 THEN 2 END, if(amt > 1, 1, 2) FROM orders",
    "SELECT cast(amt AS double), id::string, try_cast(note AS int), bigint(note), coalesce(note, 'x') FROM orders",
    "SELECT upper(note), substring(note FROM 1 FOR 2), trim(BOTH 'x' FROM note), position('a' IN note) FROM orders",
    "SELECT overlay(note PLACING 'x' FROM 1), ltrim(note), char_length(note), split(note, ',') FROM orders",
    "SELECT extract(YEAR FROM ts), date_trunc('hour', ts), ts + INTERVAL 1 DAY, date_add(since, 1) "
    "FROM orders JOIN Cust USING (id)",
    "SELECT timestampadd(HOUR, 1, ts), timestampdiff(DAY, ts, ts), window(ts, '1 minute').start FROM orders",
    "SELECT tags[0], element_at(tags, 1), transform(tags, x -> upper(x)), filter(tags, (x, i) -> i > 0) FROM orders",
    "SELECT aggregate(tags, 0, (acc, x) -> acc + length(x), acc -> acc * 2), exists(tags, x -> x = 'a') FROM orders",
    "SELECT named_struct('a', id).a, struct(id, amt), map('a', id)['a'], array(1, 2), pairs['k'] "
    "FROM orders JOIN Cust USING (id)",
    "SELECT doc:a.b::int, variant_get(doc, '$.a', 'int'), to_json(doc) FROM Cust",
    "SELECT from_json(note, 'a int').a, get_json_object(note, '$.a'), to_json(struct(id)) FROM orders",
    "SELECT from_json(note, 't timestamp', map('timestampFormat', 'yyyy')) FROM orders",
    "SELECT cust, count(*), sum(amt), avg(d), min(ts), max(ts) FROM orders GROUP BY cust",
    "SELECT cust, count(DISTINCT note), sum(DISTINCT amt), count(*) FILTER (WHERE amt > 1) FROM orders GROUP BY ALL",
    "SELECT cust, note, count(*), grouping(cust), grouping_id() FROM orders GROUP BY CUBE (cust, note)",
    "SELECT cust, note, count(*) FROM orders GROUP BY GROUPING SETS ((cust), (note), ())",
    "SELECT cust, note, count(*) FROM orders GROUP BY cust, note WITH ROLLUP",
    "SELECT cust, count(*) c FROM orders GROUP BY cust HAVING c > 1 AND max(amt) > 3",
    "SELECT cust, first(note IGNORE NULLS), last(note), any_value(note), max_by(note, amt) FROM orders GROUP BY cust",
    "SELECT cust, collect_list(id), collect_set(note), array_agg(id), listagg(note, ',') FROM orders GROUP BY cust",
    "SELECT cust, median(d), percentile_cont(0.5) WITHIN GROUP (ORDER BY d) FROM orders GROUP BY cust",
    "SELECT cust, mode(note), bool_and(amt > 1), bit_xor(id), count_if(amt > 1) FROM orders GROUP BY cust",
    "SELECT * FROM orders o JOIN Cust c ON o.cust = c.id",
    "SELECT * FROM orders o LEFT JOIN Cust c ON o.cust = c.id RIGHT JOIN people p ON p.id = c.id",
    "SELECT * FROM orders o FULL JOIN Cust c ON o.cust = c.id AND o.amt > 1",
    "SELECT * FROM orders o LEFT SEMI JOIN Cust c ON o.cust = c.id",
    "SELECT * FROM orders o LEFT ANTI JOIN Cust c ON o.cust = c.id",
    "SELECT id, amt FROM orders NATURAL JOIN people",
    "SELECT * FROM orders CROSS JOIN Cust",
    "SELECT o.id FROM orders o, Cust c WHERE o.cust = c.id",
    "SELECT id FROM orders o WHERE cust IN (SELECT id FROM Cust) AND EXISTS (TABLE people)",
    "SELECT id FROM orders WHERE cust NOT IN (SELECT id FROM Cust)",
    "SELECT id, (SELECT max(amt) FROM orders o WHERE o.cust = c.id) m FROM Cust c",
    "SELECT id FROM orders WHERE amt > (SELECT avg(amt) FROM orders)",
    "SELECT c.id, m FROM Cust c, LATERAL (SELECT max(amt) m FROM orders o WHERE o.cust = c.id)",
    "SELECT id, t FROM orders LATERAL VIEW OUTER explode(tags) v AS t",
    "SELECT id, t FROM orders, LATERAL explode(tags) AS v(t)",
    "SELECT id, posexplode(tags) AS (p, t) FROM orders",
    "SELECT stack(2, id, 1, cust, 2) FROM orders",
    "SELECT id FROM orders UNION ALL SELECT id FROM Cust",
    "SELECT id FROM orders UNION SELECT id FROM Cust",
    "SELECT id FROM orders INTERSECT SELECT id FROM Cust",
    "SELECT id FROM orders EXCEPT ALL SELECT id FROM Cust",
    "WITH c AS (SELECT * FROM orders), d AS (SELECT id FROM c) SELECT * FROM d",
    "WITH orders AS (SELECT id FROM Cust) SELECT * FROM orders",
    "WITH c(a, b) AS (SELECT id, amt FROM orders) SELECT a, b FROM (SELECT * FROM c) AS x(a, b)",
    "SELECT *, row_number() OVER (PARTITION BY cust ORDER BY amt DESC NULLS LAST) r FROM orders",
    "SELECT id, sum(amt) OVER (PARTITION BY cust ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders",
    "SELECT id, rank() OVER w, lag(amt, 1, 0) OVER w FROM orders WINDOW w AS (PARTITION BY cust ORDER BY ts)",
    "SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY cust ORDER BY ts) = 1",
    "SELECT nth_value(id, 2) IGNORE NULLS OVER (PARTITION BY cust ORDER BY ts), max(id) OVER () FROM orders",
    "SELECT * FROM (SELECT cust, note, amt FROM orders) PIVOT (sum(amt) FOR note IN ('a' AS x, 'b'))",
    "SELECT * FROM (SELECT id, cust, amt FROM orders) UNPIVOT (v FOR n IN (cust, amt))",
    "SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 1",
    "SELECT id FROM orders LIMIT ALL",
    "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(x, y)",
    "SELECT * FROM VALUES ('06:00', array('now'), CAST('2020-01-01' AS date)) AS v(x, y, z)",
    "SELECT * FROM (SELECT note, id FROM orders) PIVOT (max(id) FOR note IN ('06:00' AS early, '12:00'))",
    "SELECT p.user, p.current_date FROM people p",
    "SELECT current_date FROM people",
    "SELECT id FROM orders WHERE ts > now() AND ts < CURRENT_TIMESTAMP AND ts < current_timestamp() + INTERVAL 1 DAY",
    "SELECT id FROM orders WHERE to_date(ts) IN (curdate(), current_date) OR unix_timestamp() < id",
    "SELECT id FROM orders WHERE ts < (SELECT max(ts) FROM orders WHERE ts < localtimestamp())",
    "SELECT TIMESTAMP'2020-01-01 00:00:00', DATE'2020-01-01', TIMESTAMP'epoch', TIME'12:34', X'00', 1e3 FROM orders",
    "SELECT 'now' AS note, cast(note AS timestamp), 'today' FROM orders",
    "SELECT cast('2020-01-01' AS date), ts > '2020-01-01', to_timestamp(note, 'HH:mm') FROM orders",
    "SELECT abs(id), round(d, 2), floor(d), exp(d), pow(d, 2), greatest(id, cust), pmod(id, 3), hash(id) FROM orders",
    "SELECT id -- a comment; DROP TABLE orders\nFROM orders /* reflect('x') */",
    "SELECT 'reflect', 'text.`/etc/passwd`', \"DROP TABLE x\" FROM orders",
]  # fmt: skip


@pytest.fixture(scope="module")
def catalyst(spark: SparkSession) -> Catalyst:
    for name, schema in TABLES.items():
        spark.createDataFrame([], schema).createOrReplaceTempView(name)
    return Catalyst(spark)


def refusal(call: Any, *arguments: Any) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        call(*arguments)
    return caught.value


@pytest.mark.parametrize(("text", "code", "part"), REFUSED)
def test_what_a_view_may_not_contain_is_refused(catalyst: Catalyst, text: str, code: str, part: str) -> None:
    error = refusal(admit, catalyst, text, TABLES)
    assert error.code == code
    assert part in str(error)


@pytest.mark.parametrize(("text", "code", "part"), REFUSED_ANALYZED)
def test_what_only_analysis_shows_is_refused(catalyst: Catalyst, text: str, code: str, part: str) -> None:
    admit(catalyst, text, TABLES)
    analyzed = catalyst.spark.sql(text)._jdf.queryExecution().analyzed()
    error = refusal(check_analyzed, catalyst, analyzed, "views/x.sql")
    assert error.code == code
    assert part in str(error)
    assert error.where.startswith("views/x.sql:1:")


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_a_view_may_contain_is_admitted(catalyst: Catalyst, text: str) -> None:
    admit(catalyst, text, TABLES)
    check_analyzed(catalyst, catalyst.spark.sql(text)._jdf.queryExecution().analyzed())


@pytest.mark.parametrize(("text", "where"), PLACES)
def test_a_refusal_names_the_place(catalyst: Catalyst, text: str, where: str) -> None:
    assert refusal(admit, catalyst, text, TABLES, "views/x.sql").where == where


def test_a_syntax_error_is_sparks_own_sentence(catalyst: Catalyst) -> None:
    error = refusal(admit, catalyst, "SELECT a b c\nFROM orders", TABLES, "views/x.sql")
    assert error.as_dict() == {
        "code": "sql.syntax",
        "what": "Syntax error at or near 'c'.",
        "where": "views/x.sql:1:12",
        "why": "Spark: PARSE_SYNTAX_ERROR",
        "next": "",
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELEC id FROM orders", "SELECT"),
        ("SELECT id\nFRM orders WHERE id > 1", "FROM"),
        ("SELECT id FROM orders WERE id = 1", "WHERE"),
        ("SELECT id FROM orders\nGROP BY id", "GROUP"),
        ("SELECT id id2 FROM orders JION cust ON true", "JOIN"),
        ("SELECT a b c FROM orders", ""),
    ],
)
def test_a_misspelt_word_of_sql_is_named(catalyst: Catalyst, text: str, word: str) -> None:
    error = refusal(admit, catalyst, text, TABLES, "views/x.sql")
    assert (error.code, error.next) == ("sql.syntax", f"did you mean '{word}'?" if word else "")


def test_relations_are_named_as_declared_in_order_of_mention(catalyst: Catalyst) -> None:
    text = "WITH people AS (TABLE cust) SELECT * FROM people JOIN ORDERS USING (id) WHERE id IN (SELECT id FROM CUST)"
    admitted: Admitted = admit(catalyst, text, TABLES)
    assert admitted.relations == ("Cust", "orders")


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("SELECT id, amt a FROM orders ORDER BY A DESC, id NULLS LAST", [("a", True, True), ("id", False, True)]),
        ("SELECT o.id, o.amt FROM orders o ORDER BY 2 LIMIT 3", [("amt", False, False)]),
        ("SELECT * FROM orders ORDER BY id", [("id", False, False)]),
        ("SELECT o.id, o.amt FROM orders o ORDER BY O.amt DESC", [("amt", True, True)]),
        ("SELECT upper(o.note) note FROM orders o ORDER BY o.note", []),
        ("SELECT o.id, c.id cid FROM orders o JOIN Cust c ON o.cust = c.id ORDER BY c.id", []),
        ("SELECT o.* FROM orders o JOIN Cust c ON o.cust = c.id ORDER BY c.id", []),
        ("WITH c AS (SELECT id FROM orders) SELECT id FROM c ORDER BY id", [("id", False, False)]),
        ("SELECT cust, count(*) n FROM orders GROUP BY cust ORDER BY n DESC", [("n", True, True)]),
        ("SELECT id FROM orders ORDER BY amt", []),
        ("SELECT id FROM orders ORDER BY id + 1", []),
        ("SELECT id FROM (SELECT id FROM orders ORDER BY id)", []),
    ],
)
def test_the_order_of_presentation(catalyst: Catalyst, text: str, order: list[tuple[str, bool, bool]]) -> None:
    assert admit(catalyst, text, TABLES).order == tuple(Ordering(*entry) for entry in order)


@pytest.mark.parametrize(
    ("text", "code", "what", "where", "next"),
    [
        ("SELECT id,\n amuont FROM orders", "sql.unknown_column", "there is no column 'amuont'", "views/x.sql:2:2",
         "did you mean 'amt'?"),
        ("SELECT o.nte FROM orders o", "sql.unknown_column", "there is no column 'o.nte'", "views/x.sql:1:8",
         "did you mean 'o.note'?"),
        ("SELECT o.regoin FROM orders o", "sql.unknown_column", "there is no column 'o.regoin'", "views/x.sql:1:8", ""),
        ("SELECT max(amt), cust FROM orders", "sql.analysis", "The query does not include a GROUP BY clause.", "", ""),
        ("SELECT id + tags FROM orders", "sql.analysis", "Cannot resolve", "views/x.sql:1:8", ""),
    ],
)  # fmt: skip
def test_sparks_analysis_errors_are_told_without_the_plan(
    catalyst: Catalyst, text: str, code: str, what: str, where: str, next: str
) -> None:
    with pytest.raises(Exception) as caught:
        catalyst.spark.sql(text)
    error = analysis_error(caught.value, "views/x.sql")
    assert (error.code, error.what[: len(what)]) == (code, what)
    assert where in error.where
    assert next in error.next
    assert next or "did you mean" not in error.next
    assert "Project" not in str(error)
    assert "SubqueryAlias" not in str(error)


def test_of_the_same_column_of_several_relations_the_one_that_was_meant_is_named() -> None:
    known = ["o.id", "c.id", "p.id", "o.note"]
    for name in ("o.idd", "c.idd", "p.idd"):
        assert did_you_mean(name, known) == f"did you mean '{name[:-1]}'?"
    assert did_you_mean("O.NOET", known) == "did you mean 'o.note'?"
    assert did_you_mean("o.region", known) == ""
    assert did_you_mean("amuont", ["at", "page", "seconds"]) == ""
