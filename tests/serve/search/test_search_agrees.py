"""Search agrees with DuckDB over many rows, and with the matching of stored queries in every alphabet."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from benchmarks.published import PublishedView

from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.search.found import LIMIT_MAX, search
from headrace.serve.search.matching import Matcher

ROWS = 20_000
WORDS = "list_distinct(string_split_regex(lower(text), '[^0-9a-z]+'))"
ASKED = {
    "w7": f"list_contains({WORDS}, 'w7')",
    "text:w7 text:W11": f"list_contains({WORDS}, 'w7') AND list_contains({WORDS}, 'w11')",
    'text:"w7 w11"': r"regexp_matches(lower(text), '(^|[^0-9a-z])w7[^0-9a-z]+w11($|[^0-9a-z])')",
    "text:w1*": f"len(list_filter({WORDS}, lambda w: starts_with(w, 'w1'))) > 0",
    "text:/w[1-3]5/": f"len(list_filter({WORDS}, lambda w: regexp_full_match(w, 'w[1-3]5'))) > 0",
    "amount:[-10 TO 3.33} NOT text:w7": f"amount >= -10 AND amount < 3.33 AND NOT coalesce(list_contains({WORDS}, 'w7'), false)",
    "amount:3.33 OR rate:>0.99": "amount = 3.33 OR rate > 0.99",
    "seen:2026-02": "date_trunc('month', seen) = '2026-02-01'",
    "seen:<=2026-01-31 text:*": "seen < '2026-02-01' AND text IS NOT NULL",
    "NOT text:*": "text IS NULL",
    "id: IN [5 6 77]": "id IN (5, 6, 77)",
}
ALPHABETS = (
    "abcdefg",
    "äöüßéñç",
    "абвгдеж",
    "αβγδεζ",
    "中文数据流",
    "हिन्दीभाषा",
    "日本語テキスト",
    "ΣΑΪİIı",
    "٣٤٥123½²",
    "👍🏽🎉",
)


def test_a_search_counts_and_finds_what_duckdb_does(tmp_path: Path) -> None:
    draw = np.random.default_rng(11)
    words = np.array([f"w{number}" for number in range(60)])
    marks = np.array([" ", "-", ", ", "  "])
    texts = [
        None if draw.random() < 0.05 else "".join(w.upper() + m for w, m in zip(draw.choice(words, 5), draw.choice(marks, 5), strict=True))
        for _ in range(ROWS)
    ]  # fmt: skip
    amounts = pa.array(draw.integers(-2_000, 2_000, ROWS)).cast(pa.decimal128(19, 0))
    hundredths = pa.array([None if a is None else a / 100 for a in amounts.to_pylist()], pa.decimal128(9, 2))
    seen = pa.array(draw.integers(1_767_225_600, 1_775_000_000, ROWS) * 1_000_000).cast(pa.timestamp("us"))
    rows = pa.table(
        [np.arange(ROWS), pa.array(texts), hundredths, draw.random(ROWS), seen, np.ones(ROWS, np.int64)],
        names=["c0", "c1", "c2", "c3", "c4", "_w"],
    )
    columns = {"id": "bigint", "text": "string", "amount": "decimal(9,2)", "rate": "double", "seen": "timestamp_ntz"}
    view = PublishedView(tmp_path / "project", "orders", columns)
    view.publish_table(rows)
    database = duckdb.connect()
    database.register("orders", rows.rename_columns([*columns, "_w"]))
    for query, condition in ASKED.items():
        wanted = [id for (id,) in database.sql(f"SELECT id FROM orders WHERE {condition} ORDER BY id").fetchall()]
        found = search(view.folder, "orders", query, LIMIT_MAX)
        assert found.total == len(wanted), query
        assert found.total > 0, query
        assert found.total > LIMIT_MAX or sorted(found.rows["id"].to_pylist()) == wanted, query


@pytest.mark.parametrize("seed", range(2))
def test_what_is_matched_against_deltas_is_what_a_search_finds(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    view = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "text": "string", "note": "string"})

    def word() -> str:
        alphabet = draw.choice(ALPHABETS)
        return "".join(draw.choice(alphabet) for _ in range(draw.choice([1, 1, 2, 2, 45])))

    def text() -> str:
        return "".join(word() + draw.choice([" ", " ", "_", "-", "\n", "'"]) for _ in range(draw.randrange(6)))

    view.publish([((number, text(), draw.choice([None, text()])), 1) for number in range(300)])
    queries = dict[str, str]()
    while len(queries) < 300:
        a, b = word(), word()
        query = draw.choice(
            [
                f'"{a}"',
                f'text:"{a} {b}"',
                f'"{a} {b}"~2',
                f"note:{a}*",
                f'"{a} {b}"*',
                f'text:/"?{a[:2]}.*/',
                f'"{a}" NOT "{b}"',
            ]
        )
        try:
            Matcher(view.catalog.views()["orders"].schema, {"q": query})
        except HeadraceError:
            continue  # no word in it: an emoji, or one of too many bytes
        queries[f"q{len(queries)}"] = query
    _, schema, contents = snapshot.contents(view.folder, "orders")
    matches = Matcher(schema, queries).matches(contents)
    matched = Counter(zip(matches["_query"].to_pylist(), matches["id"].to_pylist(), strict=True))
    found = Counter(
        (name, id)
        for name, query in queries.items()
        for id in search(view.folder, "orders", query, LIMIT_MAX).rows["id"].to_pylist()
    )
    assert matched == found
    assert len(found) > 300
