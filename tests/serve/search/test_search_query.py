"""What a query says, and what is said of one that cannot be understood: where, why, and what to write instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.published import PublishedView

from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.serve.search import library
from headrace.serve.search.fields import fields
from headrace.serve.search.found import search
from headrace.serve.search.parse import parse
from headrace.serve.search.routing import Span, Word, needed
from headrace.serve.search.tree import Between, Node

SCHEMA = ViewSchema(
    "orders",
    1,
    (
        Column("id", "bigint"), Column("note", "string"), Column("total", "decimal(9,2)"), Column("rate", "float"),
        Column("due", "date"), Column("seen", "timestamp"), Column("open", "boolean"), Column("tags", "array<string>"),
    ),
)  # fmt: skip
DAY = 86_400_000_000


def tree(text: str) -> Node:
    return parse(text, fields(SCHEMA))


@pytest.mark.parametrize(
    ("query", "node"),
    [
        ("id:7", Between("c0", 7, 7)),
        ("ID:{7 TO 9]", Between("c0", 8, 9)),
        ("total:10.5", Between("c2", 1050, 1050)),
        ("total:>10.001", Between("c2", 1001, None)),
        ("total:<10.001", Between("c2", None, 1000)),
        ("total:10.001", Between("c2", 1001, 1000)),  # no value of the column
        ("rate:0.1", Between("c3", 0.10000000149011612, 0.10000000149011612)),
        ("due:1970-01-02", Between("c4", DAY, 2 * DAY - 1)),
        ("due:>1970-01", Between("c4", 31 * DAY, None)),
        ("due:{* TO 1970-01-02}", Between("c4", None, DAY - 1)),
        ('seen:"1970-01-02 00:00:01.5Z"', Between("c5", DAY + 1_500_000, DAY + 1_599_999)),
        ('seen:"1970-01-02T01:00+01:00"', Between("c5", DAY, DAY + 59_999_999)),
        ("due:9999", Between("c4", 253370764800000000, 253370764800000000 + 366 * DAY - 1)),
        ("open:TRUE", Between("c6", 1, 1)),
    ],
)
def test_a_value_means_what_its_column_can_hold_of_it(query: str, node: Node) -> None:
    assert tree(query) == node


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("late AND", "the query cannot be read: late AND"),
        ("due:12:30", 'next: put what has : ( ) [ ] { } or blanks inside in quotes: "..."'),
        ("nte:late", "there is no column 'nte'"),
        ("nte:late", "next: did you mean 'note'?"),
        ("total:much", "'much' is no value of 'total', which is decimal(9,2)"),
        ("total:1e999999", "no value of 'total'"),
        ("due:2026-13", "'2026-13' is no value of 'due', which is date"),
        ("open:perhaps", "next: write it like true or false"),
        ("note:[a TO b]", "'note' is text, which has no ranges"),
        ("id:7*", "'id' is bigint, which has no words"),
        ("[1 TO 3]", "a range names no column"),
        ("late && parcel", "next: write AND"),
        ("late OR parcel refund", "next: put brackets: (a OR b) c"),
        ("note:/(/", "why: ( ^ error: unclosed group"),
        ("/late/", "next: column:/ab.*/"),
        (" ", "the query is empty"),
        ("(" * 5_000, "at most 10,000 characters and 50 brackets"),
    ],
)
def test_a_query_that_cannot_be_understood_says_what_and_what_to_write(query: str, said: str) -> None:
    with pytest.raises(HeadraceError) as error:
        tree(query)
    assert error.value.code == "search.query"
    assert said in str(error.value)


def test_of_a_stored_query_the_rarest_thing_it_needs_is_looked_up() -> None:
    assert needed(tree("note:(late AND refundable) total:>5")) == (Word("c1", "refundable"),)
    assert needed(tree("total:>5 open:true")) == (Span("c6", 1, 1),)
    assert needed(tree("note:late OR id:7")) == (Word("c1", "late"), Span("c0", 7, 7))
    assert needed(tree("late")) == (Word("c1", "late"), Word("c7", "late"))
    assert needed(tree('note:"late par"*')) == (Word("c1", "late"),)
    for anything in ("NOT note:late", "note:la*", "note:late OR note:la*", "*", "note:*"):
        assert needed(tree(anything)) is None, anything


def test_without_its_library_a_search_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = PublishedView(tmp_path / "project", "orders", {"note": "string"})
    view.publish([(("late",), 1)])
    library.tantivy.cache_clear()
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(HeadraceError) as error:
        search(view.folder, "orders", "late")
    library.tantivy.cache_clear()
    assert (error.value.code, error.value.next) == ("config.library", "pip install 'headrace[search]'")
