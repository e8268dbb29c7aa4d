"""Goal: rows compared with one value equal batch after every commit, whatever moves. Method: see chained.py.

Values of every type, NULL, NaN, both zeros and ties on both sides; the pairs of rows and value, which were the rule
before thresholds and still are for what does not fit, are held to the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chained import Template, hold_chained
from histories import Table, history
from shop import BAG, ITEMS, PARTS
from side_by_side import hold_side_by_side, told

from headrace.circuit.node import Threshold
from headrace.engine.compile import Compiler
from headrace.model.definition import ViewDefinition
from headrace.sql.lowering import join, subquery


def compared(left: str, sign: str, value: str, source: str = "parts p") -> Template:
    alias = source.rsplit(maxsplit=1)[-1]
    return lambda same: (
        f"select case_id, id, s from items i where {left} {sign} (select {value} from {source} where {same(alias)})"
    )


TEMPLATES: dict[str, Template] = {
    "double_above": compared("f", ">", "max(p.f)"),
    "double_from": compared("f", ">=", "avg(p.f)"),
    "double_below": compared("f", "<", "min(p.f)"),
    "double_up_to": compared("f", "<=", "max(p.f)"),
    "int_below": compared("k", "<", "max(p.k)"),
    "int_from_a_sum": compared("n", ">=", "sum(p.k)"),
    "decimal_above": compared("d", ">", "max(p.d)"),
    "decimal_up_to_a_part": compared("d", "<=", "1.5 * avg(p.d) + 0.1"),
    "decimal_above_a_rounded_part": compared("cast(d as decimal(36,2))", ">", "0.0001 * sum(cast(p.d as decimal(25,2)))"),
    "text_above": compared("s", ">", "min(p.s)"),
    "text_up_to": compared("s", "<=", "max(b.s)", "bag b"),
    "computed": compared("k * 2 + 1", ">", "count(*)", "bag b"),
    "constant": compared("2", "<", "count(*)"),
    "a_row_or_none": compared("k", ">=", "p.k", "(select * from parts where id = 1) p"),
    "its_own": compared("k", ">", "avg(j.k)", "items j"),
    "of_a_multiset": lambda same: (
        f"select case_id, k, s from bag i where k >= (select max(p.k) from parts p where {same('p')})"
    ),
    "one_after_the_other": lambda same: (
        f"""select case_id, id from items i where k > (select min(p.k) from parts p where {same("p")})
        and s < (select max(b.s) from bag b where {same("b")}) and f is not null
        and k <= (select count(*) from bag b where {same("b")})"""
    ),
    "of_an_aggregate": lambda same: (
        f"""select case_id, k, n from (select case_id, k, count(*) n from items group by case_id, k) i
        where n > (select count(*) from bag b where {same("b")})"""
    ),
    "below_a_join": lambda same: (
        f"""select i.case_id, i.id, q.id qid from items i join parts q on q.case_id = i.case_id and i.k = q.k
        where i.id + q.id >= (select count(*) from bag b where {same("b")})"""
    ),
    "beside_an_equality": lambda same: (
        f"""select case_id, id from items i where k = (select max(b.k) from bag b where {same("b")})
        and f >= (select min(p.f) from parts p where {same("p")})"""
    ),
    "in_a_subquery": lambda same: (
        f"""select case_id, id from items i where k < (select count(*) from bag b where {same("b")}
        and b.k >= (select min(p.k) from parts p where p.id > 0))"""
    ) if same("b") == "true" else (
        f"""select case_id, id from items i where k < (select count(*) from bag b join
        (select case_id, min(k) least from parts p where p.id > 0 group by case_id) m on m.case_id = b.case_id
        where {same("b")} and b.k >= m.least)"""
    ),
}  # fmt: skip

PAIRS = ("double_above", "decimal_up_to_a_part", "text_up_to", "a_row_or_none", "of_a_multiset", "one_after_the_other")


@pytest.mark.spark
@pytest.mark.parametrize("rule", ["threshold", "pairs"])
def test_rows_compared_with_one_value_equal_batch(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    templates = TEMPLATES
    if rule == "pairs":
        monkeypatch.setattr(subquery, "SIGNS", {})
        monkeypatch.setattr(join, "threshold", lambda *_: None)
        templates = {name: TEMPLATES[name] for name in PAIRS}
    tables = (ITEMS, PARTS, BAG)
    queries = [ViewDefinition(name, template(lambda _: "true")) for name, template in templates.items()]
    views = Compiler(spark).compile({t.name: t.relation for t in tables}, queries, {}).views
    for view in views.values():
        assert any(isinstance(n, Threshold) for n in view.root.walk()) == (rule == "threshold"), view.schema.name
    hold_chained(spark, tmp_path, f"{rule}_of_one_value", tables, templates)


BOUNDS = Table(
    "bounds", {"one": "int", "id": "int", **{c: PARTS.columns[c] for c in "ksfd"}},
    {"one": (0,), "id": range(3), **{c: PARTS.values[c] for c in "ksfd"}}, ("one", "id"), cased=False,
)  # fmt: skip
SHARED = {
    f"{column}_{name}": (column, sign, value)
    for name, sign, value in (
        ("below", "<", "max"), ("up_to", "<=", "min"), ("above", ">", "min"), ("from", ">=", "max")
    )
    for column in "ksfd"  # the inner one: in every third, which is what is drawn, there is each sign
}  # fmt: skip


@pytest.mark.spark
def test_what_is_kept_is_passed_in_later_steps(spark: Any, tmp_path: Path) -> None:
    def template(column: str, sign: str, value: str) -> Callable[[bool], str]:
        among = f" where b.one = {told('i')}"
        return lambda judged: (
            f"select case_id, id, k from items i where {column} {sign} "
            f"(select {value}(b.{column}) from bounds b{among if judged else ''})"
        )

    templates = {name: template(*of) for name, of in SHARED.items()}
    hold_side_by_side(
        spark, tmp_path, "shared_value", (ITEMS,), BOUNDS, lambda rng, plan: history(rng, (BOUNDS,), plan), templates
    )
