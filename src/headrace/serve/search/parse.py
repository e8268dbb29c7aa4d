"""The text of a query -> its tree. The grammar is tantivy's; columns and values are those of the view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.catalog.document import did_you_mean
from headrace.model.errors import HeadraceError
from headrace.serve.search.fields import REAL, TIME, WHOLE, WORDS, Field, Number
from headrace.serve.search.library import analyzer, tantivy
from headrace.serve.search.tree import Between, Boosted, Every, Group, Node, Pattern, Phrase, Present

SIZE_LIMIT = 10_000  # characters
DEPTH_LIMIT = 50
GRAMMAR = 'words, "a phrase", column:word, column:[1 TO 5], AND, OR, NOT, ( )'
_EXAMPLES = {TIME: "2026-03-01 or 2026-03", WHOLE: "42", REAL: "4.5"}


def parse(text: str, fields: Sequence[Field], only: Sequence[str] = ()) -> Node:
    """The tree of a query over these fields. ``only``: columns in which words without a column are looked for.

    Raises ``HeadraceError`` (search.query): what is wrong, where, and what may be written.
    """
    if len(text) > SIZE_LIMIT or text.count("(") > DEPTH_LIMIT:
        raise HeadraceError(
            "search.query", f"a query has at most {SIZE_LIMIT:,} characters and {DEPTH_LIMIT} brackets",
            next="make it several queries",
        )  # fmt: skip
    if not text.strip():
        raise HeadraceError("search.query", "the query is empty", next=f"write {GRAMMAR}; * is every row")
    reader = _Reader(text, fields)
    reader.wordy = tuple(reader.field(name) for name in only) or tuple(fields)
    return reader.node(_syntax(text))


def _syntax(text: str) -> Mapping[str, Any]:
    module = tantivy()
    try:
        tree: Mapping[str, Any] = module.parse_query(text)
    except ValueError as error:
        _, found = module.parse_query_lenient(text)
        first = found[0] if found else {}
        place = first.get("pos")
        hint = 'put what has : ( ) [ ] { } or blanks inside in quotes: "..."' if ":" in text else f"write {GRAMMAR}"
        raise HeadraceError(
            "search.query", f"the query cannot be read: {text}",
            where="" if place is None else f"character {place + 1}", why=str(first.get("message") or ""), next=hint,
        ) from error  # fmt: skip
    return tree


class _Reader:
    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self.text = text
        self.fields = {field.name.lower(): field for field in fields}
        self.wordy: tuple[Field, ...] = ()

    def node(self, part: Mapping[str, Any]) -> Node:
        match part["type"]:
            case "all":
                return Every()
            case "bool":
                return self.group(part["clauses"])
            case "boost":
                return Boosted(self.node(part["underlying"]), float(part["boost"]))
            case "exists":
                return Present(self.field(part["field"]).id)
            case "literal":
                return self.literal(part)
            case "range":
                return self.range(part)
            case "set":
                return self.one_of(part)
            case "regex":
                return self.pattern(part)
        raise self.invalid(f"'{part['type']}' is not taken", "", f"write {GRAMMAR}")

    def group(self, clauses: Sequence[tuple[str | None, Mapping[str, Any]]]) -> Node:
        said = {occur for occur, _ in clauses}
        if {None, "should"} <= said:
            raise self.invalid("OR stands beside words that are all asked for", "which of them OR joins is not clear",
                               "put brackets: (a OR b) c")  # fmt: skip
        parts: dict[str, list[Node]] = {"must": [], "should": [], "must_not": []}
        for occur, part in clauses:
            parts[occur or "must"].append(self.node(part))
        return Group(tuple(parts["must"]), tuple(parts["should"]), tuple(parts["must_not"]))

    def literal(self, part: Mapping[str, Any]) -> Node:
        name, text, slop = part["field_name"], part["phrase"], part["slop"]
        prefix, bare = bool(part["prefix"]), part["delimiter"] == "none"
        if bare and text.endswith("*"):
            text, prefix = text[:-1], True
        if name is not None:
            return self.meant(self.field(name), text, slop, prefix)
        found: list[Node] = []
        if not prefix:
            counted = [field for field in self.wordy if field.kind in (WHOLE, REAL)]
            spans = [(field, field.span(text)) for field in counted] if bare else []
            found += [Between(field.id, *span) for field, span in spans if span and span[0] <= span[1]]
        if wordy := tuple(field.id for field in self.wordy if field.kind == WORDS):
            found.append(self.phrase(wordy, text, slop, prefix))
        elif not found:
            raise self.invalid(f"no column that is looked through can hold '{text}'", "none of them is text",
                               f"name a column: {self.named()}")  # fmt: skip
        return found[0] if len(found) == 1 else Group(some=tuple(found))

    def meant(self, field: Field, text: str, slop: int = 0, prefix: bool = False) -> Node:
        """What a word or a phrase means in one column."""
        if field.kind == WORDS:
            return self.phrase((field.id,), text, slop, prefix)
        if prefix or slop:
            raise self.invalid(f"'{field.name}' is {field.type}, which has no words", "", f"{field.name}:[1 TO 5]")
        return Between(field.id, *self.span(field, text))

    def phrase(self, ids: tuple[str, ...], text: str, slop: int, prefix: bool) -> Phrase:
        words = tuple((token.position, token.text) for token in analyzer().pre_tokenize(text).tokens)
        if not words:
            hint = {"&&": "write AND", "||": "write OR", "!": "write NOT"}.get(text, "write a word, or * for every row")
            raise self.invalid(f"'{text}' has no word in it", "a word is letters and digits, at most 39 bytes", hint)
        return Phrase(ids, words, slop if len(words) > 1 else 0, prefix)

    def range(self, part: Mapping[str, Any]) -> Node:
        if part["field"] is None:
            raise self.invalid("a range names no column", "", f"column:[1 TO 5]; columns: {self.named()}")
        field = self.field(part["field"])
        if field.kind == WORDS:
            raise self.invalid(f"'{field.name}' is text, which has no ranges", "", f"{field.name}:word or word*")
        low, high = part["lower"], part["upper"]
        return Between(field.id, self.bound(field, low, 0), self.bound(field, high, 1))

    def bound(self, field: Field, bound: Mapping[str, Any], upper: int) -> Number | None:
        if bound["type"] == "unbounded":
            return None
        span = self.span(field, bound["value"])
        if bound["type"] == "inclusive":
            return span[upper]
        return field.beyond(span[0], -1) if upper else field.beyond(span[1], 1)

    def one_of(self, part: Mapping[str, Any]) -> Node:
        if part["field"] is None:
            raise self.invalid("IN [...] names no column", "", f"column: IN [a b]; columns: {self.named()}")
        field = self.field(part["field"])
        return Group(some=tuple(self.meant(field, element) for element in part["elements"]))

    def pattern(self, part: Mapping[str, Any]) -> Node:
        if part["field"] is None:
            raise self.invalid("a regular expression names no column", "", f"column:/ab.*/; columns: {self.named()}")
        field, expression = self.field(part["field"]), part["pattern"]
        if field.kind != WORDS:
            raise self.invalid(f"'{field.name}' is {field.type}, which has no words", "", f"{field.name}:[1 TO 5]")
        module = tantivy()
        one = module.SchemaBuilder().add_text_field("word").build()
        try:
            module.Query.regex_query(one, "word", expression)
        except ValueError as error:
            why = " ".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)
            raise self.invalid(f"/{expression}/ is no regular expression", why, "it matches one word, in lower case"
                               ) from error  # fmt: skip
        return Pattern(field.id, expression)

    def span(self, field: Field, text: str) -> tuple[Number, Number]:
        found = field.span(text)
        if found is None:
            raise self.invalid(f"'{text}' is no value of '{field.name}', which is {field.type}", "",
                               f"write it like {_EXAMPLES.get(field.kind, 'true or false')}")  # fmt: skip
        return found

    def field(self, name: str) -> Field:
        found = self.fields.get(name.lower())
        if found is None:
            hint = did_you_mean(name, [field.name for field in self.fields.values()])
            raise self.invalid(f"there is no column '{name}'", "", hint or f"columns: {self.named()}")
        return found

    def named(self) -> str:
        return ", ".join(field.name for field in self.fields.values())

    def invalid(self, what: str, why: str, next: str) -> HeadraceError:
        return HeadraceError("search.query", what, where=f"the query: {self.text}", why=why, next=next)
