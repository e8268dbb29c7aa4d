"""Every function of Spark's registry is classed: a new Spark with a new function fails here until it has its class."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import CODES
from headrace.sql.functions import CANONICALISED, CLOCKS, EXACT, REFUSED, is_generator, verdicts

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> set[str]:
    """Names from all three places where Spark keeps them; functions that a test registered are temporary, left out."""
    session: Any = spark
    state = session._jsparkSession.sessionState()
    names = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        listed = registry.listFunction()
        found = [listed.apply(i) for i in range(listed.size())]
        names |= {str(f.funcName()) for f in found if f.database().isEmpty()}
    return names


def test_no_function_is_unclassed(registered: set[str]) -> None:
    assert sorted(registered - set(verdicts())) == []


def test_no_class_names_a_function_that_spark_does_not_have(registered: set[str]) -> None:
    assert sorted(set(verdicts()) - registered) == []


def test_a_function_stands_once_and_a_refusal_says_why() -> None:
    listed = EXACT.split() + [n for names, _ in (*CANONICALISED, CLOCKS) for n in names.split()]
    listed += [n for _, _, names in REFUSED for n in names.split()]
    assert sorted(listed) == sorted(set(listed)) == list(verdicts())
    assert all(v.note and v.code in CODES for v in verdicts().values() if v.kind == "refused")
    assert all(v.note for v in verdicts().values() if v.kind == "canonicalised")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("abs", "exact"), ("count", "exact"), ("percentile", "exact"), ("rank", "exact"), ("explode", "exact"),
        ("sum", "canonicalised"), ("collect_list", "canonicalised"), ("row_number", "canonicalised"),
        ("first", "canonicalised"), ("max_by", "canonicalised"), ("listagg", "canonicalised"),
        ("rand", "refused"), ("now", "canonicalised"), ("uuid", "refused"), ("reflect", "refused"), ("range", "exact"),
        ("stddev", "canonicalised"), ("approx_count_distinct", "exact"), ("input_file_name", "refused"),
        ("monotonically_increasing_id", "refused"), ("current_user", "refused"), ("from_xml", "refused"),
    ],
)  # fmt: skip
def test_the_class_of_well_known_functions(name: str, kind: str) -> None:
    assert verdicts()[name].kind == kind


def test_generators_are_those_of_from() -> None:
    assert [n for n in ("explode", "posexplode_outer", "stack", "UNNEST", "range", "abs") if is_generator(n)] == [
        "explode",
        "posexplode_outer",
        "stack",
        "UNNEST",
        "range",
    ]
