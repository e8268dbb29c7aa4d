"""The tree of a query -> tantivy's query."""

from __future__ import annotations

from typing import Any

from headrace.serve.search.fields import NULLS, WEIGHT
from headrace.serve.search.library import tantivy
from headrace.serve.search.tree import Between, Boosted, Every, Group, Node, Pattern, Phrase, Present

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


def compiled(node: Node, schema: Any) -> Any:
    """The query for an index of that schema (``fields.index_schema``)."""
    query, occur = tantivy().Query, tantivy().Occur
    match node:
        case Every():
            return query.exists_query(WEIGHT)
        case Phrase(fields=fields):
            parts = [_phrase(node, field, schema) for field in fields]
            return parts[0] if len(parts) == 1 else query.boolean_query([(occur.Should, part) for part in parts])
        case Pattern(field=field, expression=expression):
            return query.regex_query(schema, field, expression)
        case Between():
            return _between(node, schema)
        case Present(field=field):
            absent = query.term_query(schema, NULLS, field)
            return query.boolean_query([(occur.Must, query.exists_query(WEIGHT)), (occur.MustNot, absent)])
        case Boosted(node=inner, factor=factor):
            return query.boost_query(compiled(inner, schema), factor)
        case Group(every=every, some=some, no=no):
            parts = [(occur.Must, compiled(part, schema)) for part in every]
            parts += [(occur.Should, compiled(part, schema)) for part in some]
            if not parts:
                parts = [(occur.Must, query.exists_query(WEIGHT))]
            return query.boolean_query(parts + [(occur.MustNot, compiled(part, schema)) for part in no])


def _phrase(node: Phrase, field: str, schema: Any) -> Any:
    query = tantivy().Query
    if node.prefix:  # words are letters and digits: nothing in them means something in an expression
        *before, (place, last) = node.words
        if not before:
            return query.regex_query(schema, field, f"{last}.*")
        return query.regex_phrase_query(schema, field, [*before, (place, f"{last}.*")], node.slop)
    if len(node.words) == 1:
        return query.term_query(schema, field, node.words[0][1])
    return query.phrase_query(schema, field, list(node.words), node.slop)


def _between(node: Between, schema: Any) -> Any:
    query, kinds, low, high = tantivy().Query, tantivy().FieldType, node.low, node.high
    if low is not None and high is not None and low > high:
        return query.empty_query()
    if isinstance(low, float) or isinstance(high, float):
        return query.range_query(schema, node.field, kinds.Float, low, high)
    if (low or 0) > _GREATEST or (high or 0) < _LEAST:
        return query.empty_query()
    low = None if low is not None and low <= _LEAST else low
    high = None if high is not None and high >= _GREATEST else high
    if low is None and high is None:
        return compiled(Present(node.field), schema)
    return query.range_query(schema, node.field, kinds.Integer, low, high)
