"""Random SELECTs: operators nested in each other over tables and views. Every column of a result is named c0, c1, ..."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from expressions import SCALARS, Expressions
from pieces import Piece, clause, piece, several
from schemas import Field

JOINS = (
    "join", "join", "join", "left join", "left join", "right join", "full join", "left semi join", "left anti join",
)  # fmt: skip
RANKS = ("row_number()", "rank()", "dense_rank()", "ntile(2)", "percent_rank()", "cume_dist()")
FRAMES = (
    "", "", "rows between 1 preceding and current row", "rows between unbounded preceding and current row",
    "rows between 1 following and 2 following", "range between unbounded preceding and unbounded following",
    "range between current row and unbounded following",
)  # fmt: skip
ARRAYS = ("array<int>", "array<string>")


@dataclass(frozen=True)
class Query:
    """A query and the types of its columns."""

    text: Piece
    types: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """What FROM holds: its text and the columns in reach, qualified."""

    text: Piece
    fields: list[Field]


@dataclass
class Queries:
    """Draws queries over relations (name -> columns, unqualified)."""

    rng: random.Random
    relations: Mapping[str, Sequence[Field]]
    aliases: int = 0
    common: dict[str, Sequence[Field]] = field(default_factory=dict)

    def query(self, depth: int) -> Query:
        """A query with operators nested ``depth`` deep."""
        forms: list[tuple[Callable[[int], Query], float]] = [
            (self.plain, 5), (self.grouped, 5), (self.windowed, 3), (self.distinct, 2), (self.generated, 1),
            (self.grouping_sets, 1),
        ]  # fmt: skip
        if depth > 1:
            forms += [(self.set_operation, 3), (self.with_common, 2), (self.limited, 0.3)]
        draw = self.rng.choices([f for f, _ in forms], [w for _, w in forms])[0]
        return draw(depth)

    # -- FROM -----------------------------------------------------------------------------------------------

    def alias(self) -> str:
        self.aliases += 1
        return f"x{self.aliases}"

    def source(self, depth: int) -> Source:
        if depth > 0 and self.rng.random() < 0.4:
            return self.join(depth)
        return self.single(depth)

    def single(self, depth: int) -> Source:
        """A relation, or a query in its place."""
        alias = self.alias()
        if depth > 1 and self.rng.random() < 0.55:
            query = self.query(depth - 1)
            fields = [Field(f"{alias}.c{n}", t) for n, t in enumerate(query.types)]
            return Source(piece("from", "(", query.text, f") {alias}"), fields)
        everything = {**self.relations, **self.common}
        name = self.rng.choice([*everything, *self.common, *self.common])
        fields = [Field(f"{alias}.{f.text}", f.type) for f in everything[name]]
        return Source(piece("from", f"{name} {alias}"), fields)

    def join(self, depth: int) -> Source:
        left = self.single(depth) if self.rng.random() < 0.75 else self.join(depth - 1) if depth > 1 else self.single(0)
        right = self.single(depth - 1)
        kind = self.rng.choice(JOINS)
        condition = self.condition(left.fields, right.fields)
        text = piece("from", left.text, f" {kind} ", right.text, " on ", condition)
        kept = left.fields if "semi" in kind or "anti" in kind else left.fields + right.fields
        return Source(text, kept)

    def condition(self, left: list[Field], right: list[Field]) -> Piece:
        """Mostly an equality or two, sometimes with a residual, seldom without any equality."""
        rng = self.rng
        pairs = [(a, b) for a in left for b in right if a.type == b.type]
        scalar = [(a, b) for a, b in pairs if a.type in SCALARS]
        both = Expressions(rng, [*left, *right])
        parts: list[Piece] = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            if scalar and rng.random() < 0.9:
                a, b = rng.choice(scalar)
                parts.append(piece("boolean", f"{a.text} {rng.choice(('=', '=', '=', '=', '<=>'))} {b.text}"))
            else:
                wanted = rng.choice(("int", "string"))
                one, other = Expressions(rng, left).of(wanted, 1), Expressions(rng, right).of(wanted, 1)
                parts.append(piece("boolean", one, " = ", other))
        if rng.random() < 0.04:
            parts = []
        if not parts or rng.random() < 0.3:
            parts.append(both.of("boolean", 2))
        return several("condition", parts, " and ")

    def where(self, fields: list[Field], depth: int) -> Piece | str:
        rng = self.rng
        chance = rng.random()
        if chance < 0.6:
            return ""
        test = Expressions(rng, fields).of("boolean", 2)
        if depth > 0 and chance > 0.82:
            inner = self.subquery_test(fields, depth - 1)
            test = rng.choice((
                inner, piece("boolean", inner, " and ", test), piece("boolean", "(", inner, " or ", test, ")")
            ))  # fmt: skip
        return clause(" where ", test)

    def subquery_test(self, fields: list[Field], depth: int) -> Piece:
        """EXISTS, IN or a comparison with a correlated aggregate."""
        rng = self.rng
        source = self.single(depth)
        inner = Expressions(rng, source.fields)
        form = rng.random()
        pairs = [(a, b) for a in fields for b in source.fields if a.type == b.type and a.type in SCALARS]
        if not pairs:
            return piece("boolean", "exists (select 1 from ", source.text, ")", plain=("true",))
        a, b = rng.choice(pairs)
        extra = clause(" and ", inner.of("boolean", 1)) if rng.random() < 0.4 else ""
        if form < 0.4:
            word = rng.choice(("exists", "exists", "not exists"))
            if rng.random() < 0.25:
                both = Expressions(rng, [*fields, *source.fields])
                extra = clause(" and ", both.comparison(1))
            return piece(
                "boolean", f"{word} (select 1 from ", source.text, f" where {a.text} = {b.text}", extra, ")", plain=("true",)
            )  # fmt: skip
        if form < 0.75:
            word = "not in" if rng.random() < 0.12 else "in"
            test = clause(" where ", inner.of("boolean", 1)) if rng.random() < 0.5 else ""
            return piece("boolean", f"{a.text} {word} (select {b.text} from ", source.text, test, ")", plain=("true",))
        scalar, made = self.scalar(source, f"{a.text} = {b.text}", extra)
        return piece("boolean", "(", scalar, " >= ", Expressions(rng, fields).of(made, 1), ")", plain=("true",))

    def scalar(self, source: Source, correlation: str, extra: Piece | str) -> tuple[Piece, str]:
        """A correlated sub-query with one value; seldom one that is not correlated."""
        rng = self.rng
        test = "" if rng.random() < 0.08 else f" where {correlation}"
        call, made = Expressions(rng, source.fields).aggregate()
        while made in ARRAYS:
            call, made = Expressions(rng, source.fields).aggregate()
        return piece(made, "(select ", call, " from ", source.text, test, extra if test else "", ")"), made

    # -- SELECT ---------------------------------------------------------------------------------------------

    def select(
        self, items: list[tuple[Piece, str]], source: Source, *rest: Piece | str, word: str = "select "
    ) -> Query:
        named = [piece("item", text, f" c{n}") for n, (text, _) in enumerate(items)]
        text = piece("query", word, several("items", named, ", "), " from ", source.text, *rest)
        return Query(text, tuple(t for _, t in items))

    def items(self, expressions: Expressions, most: int = 4) -> list[tuple[Piece, str]]:
        found = []
        for _ in range(self.rng.randint(1, most)):
            if expressions.fields and self.rng.random() < 0.6:
                own = self.rng.choice(expressions.fields)
                null = own.type if own.type != "decimal" else "decimal(14,3)"
                found.append((piece(own.type, own.text, plain=(f"cast(null as {null})",)), own.type))
            else:
                wanted = expressions.present()
                found.append((expressions.of(wanted, 2), wanted))
        return found

    def plain(self, depth: int) -> Query:
        source = self.source(depth)
        items = self.items(Expressions(self.rng, source.fields))
        if depth > 0 and self.rng.random() < 0.12:
            inner = self.single(depth - 1)
            pairs = [(a, b) for a in source.fields for b in inner.fields if a.type == b.type and a.type in SCALARS]
            if pairs:
                a, b = self.rng.choice(pairs)
                items.append(self.scalar(inner, f"{a.text} = {b.text}", ""))
        return self.select(items, source, self.where(source.fields, depth))

    def distinct(self, depth: int) -> Query:
        source = self.source(depth)
        items = self.items(Expressions(self.rng, source.fields), most=3)
        return self.select(items, source, self.where(source.fields, depth), word="select distinct ")

    def keys(self, source: Source) -> list[tuple[Piece, str]]:
        """What to group or partition by: columns mostly."""
        rng = self.rng
        found: list[tuple[Piece, str]] = []
        for _ in range(rng.choice((1, 1, 1, 2, 2))):
            own = [f for f in source.fields if f.type in SCALARS]
            if own and rng.random() < 0.8:
                chosen = rng.choice(own)
                found.append((piece(chosen.type, chosen.text), chosen.type))
            else:
                wanted = rng.choice(("int", "string", "boolean", "date"))
                found.append((Expressions(rng, source.fields).of(wanted, 1), wanted))
        return list({str(k): (k, t) for k, t in found}.values())

    def grouped(self, depth: int) -> Query:
        rng = self.rng
        source = self.source(depth)
        inside = Expressions(rng, source.fields)
        keys = [] if rng.random() < 0.1 else self.keys(source)
        calls = [inside.aggregate() for _ in range(rng.choice((0, 1, 1, 2, 3) if keys else (1, 1, 2)))]
        items = [*keys, *calls]
        over = Expressions(rng, [Field(str(text), made) for text, made in items])
        if rng.random() < 0.3:
            wanted = over.present()
            items.append((over.of(wanted, 2), wanted))
        having = clause(" having ", over.of("boolean", 2)) if calls and rng.random() < 0.25 else ""
        rng.shuffle(items)
        by = piece("by", " group by ", ", ".join(str(k) for k, _ in keys)) if keys else ""
        return self.select(items, source, self.where(source.fields, depth), by, having)

    def grouping_sets(self, depth: int) -> Query:
        rng = self.rng
        source = self.source(depth)
        keys = self.keys(source)
        inside = Expressions(rng, source.fields)
        calls = [inside.aggregate() for _ in range(rng.choice((1, 1, 2)))]
        items = [*keys, *calls]
        if rng.random() < 0.4:
            items.append((piece("bigint", "grouping_id()"), "bigint"))
        names = [str(k) for k, _ in keys]
        sets = ", ".join(
            f"({', '.join(s)})" for s in ([*([n] for n in names), names] if len(names) > 1 else [names, []])
        )
        everything = ", ".join(names)
        form = rng.choice((f"rollup({everything})", f"cube({everything})", f"grouping sets ({sets})"))
        return self.select(items, source, self.where(source.fields, depth), f" group by {form}")

    def windowed(self, depth: int) -> Query:
        rng = self.rng
        source = self.source(depth)
        inside = Expressions(rng, source.fields)
        items = self.items(inside, most=3)
        keys = [] if rng.random() < 0.07 else [k for k, _ in self.keys(source)]
        for _ in range(rng.choice((1, 1, 2))):
            items.append(self.window_call(inside, keys))
        where = self.where(source.fields, depth)
        if rng.random() < 0.2:
            rank = self.over("row_number()", inside, keys, "", ordered=True)
            return self.select(items, source, where, clause(" qualify ", rank, f" <= {rng.choice((1, 2, 3))}"))
        return self.select(items, source, where)

    def window_call(self, inside: Expressions, keys: list[Piece]) -> tuple[Piece, str]:
        rng = self.rng
        form = rng.random()
        if form < 0.4:
            call = rng.choice(RANKS)
            made = "double" if call in ("percent_rank()", "cume_dist()") else "int"
            return self.over(call, inside, keys, "", ordered=True), made
        wanted = inside.present(SCALARS)
        argument = str(inside.of(wanted, 1))
        if form < 0.55:
            call = rng.choice((f"lag({argument})", f"lead({argument}, 2)"))
            return self.over(call, inside, keys, "", ordered=True), wanted
        frame = rng.choice(FRAMES)
        if form < 0.7:
            call = rng.choice((f"first_value({argument})", f"last_value({argument})", f"nth_value({argument}, 2)"))
            return self.over(call, inside, keys, frame, ordered=True), wanted
        number = str(inside.of(rng.choice(("int", "double")), 1))
        call, made = rng.choice((
            ("count(*)", "bigint"), (f"sum(cast({number} as double))", "double"), (f"min({argument})", wanted),
            (f"max({argument})", wanted), (f"count({argument})", "bigint"), (f"avg(cast({number} as double))", "double"),
        ))  # fmt: skip
        ordered = rng.random() < 0.6
        return self.over(call, inside, keys, frame if ordered else "", ordered=ordered), made

    def over(self, call: str, inside: Expressions, keys: list[Piece], frame: str, *, ordered: bool) -> Piece:
        rng = self.rng
        parts = []
        if keys:
            parts.append("partition by " + ", ".join(map(str, keys)))
        if ordered:
            by = []
            for _ in range(rng.choice((1, 1, 2))):
                order = rng.choice(("", " desc", " nulls last", " desc nulls first"))
                by.append(f"{inside.of(inside.present(SCALARS), 1)}{order}")
            parts.append("order by " + ", ".join(by))
            if frame:
                parts.append(frame)
        return piece("window", f"{call} over ({' '.join(parts)})", plain=("1",))

    # -- around queries -------------------------------------------------------------------------------------

    def generated(self, depth: int) -> Query:
        """explode and posexplode, in FROM."""
        rng = self.rng
        source = self.source(depth)
        wanted = rng.choice(ARRAYS)
        argument = Expressions(rng, source.fields).of(wanted, 1)
        function = rng.choice(("explode", "explode", "explode_outer", "posexplode"))
        alias = self.alias()
        names = [Field(f"{alias}.v", wanted.removeprefix("array<").removesuffix(">"))]
        listed = "v"
        if function == "posexplode":
            names, listed = [*names, Field(f"{alias}.p", "int")], "p, v"
        view = piece("lateral", f" lateral view {function}(", argument, f") {alias} as {listed}")
        fields = [*source.fields, *names, *names]
        made = Source(piece("from", source.text, view), fields)
        items = self.items(Expressions(rng, fields), most=3)
        return self.select(items, made, self.where(fields, 0))

    def set_operation(self, depth: int) -> Query:
        rng = self.rng
        first = self.query(depth - 1)
        columns = first.types
        text = first.text
        for _ in range(rng.choice((1, 1, 2))):
            word = rng.choice(("union all", "union all", "union", "intersect", "intersect all", "except", "except all"))
            source = self.source(depth - 1)
            items = [(Expressions(rng, source.fields).of(t, 1), t) for t in columns]
            other = self.select(items, source, self.where(source.fields, depth - 1))
            text = piece("query", "(", text, f") {word} (", other.text, ")")
        return Query(text, columns)

    def with_common(self, depth: int) -> Query:
        """A common table expression, used twice most of the time."""
        rng = self.rng
        inner = self.query(depth - 1)
        name = f"w{self.aliases}"
        self.aliases += 1
        fields = [Field(f"c{n}", t) for n, t in enumerate(inner.types)]
        left, right = self.alias(), self.alias()
        sides = [[Field(f"{alias}.{f.text}", f.type) for f in fields] for alias in (left, right)]
        if rng.random() < 0.7:
            kind = rng.choice(JOINS)
            text = piece("from", f"{name} {left} {kind} {name} {right} on ", self.condition(*sides))
            reach = sides[0] if "semi" in kind or "anti" in kind else sides[0] + sides[1]
            source = Source(text, reach)
            body = self.select(self.items(Expressions(rng, reach)), source)
        else:
            outer = dict(self.common)
            self.common[name] = fields
            body = self.query(1)
            self.common = outer
        return Query(piece("query", f"with {name} as (", inner.text, ") ", body.text), body.types)

    def limited(self, depth: int) -> Query:
        inner = self.query(depth - 1)
        alias = self.alias()
        fields = [Field(f"{alias}.c{n}", t) for n, t in enumerate(inner.types) if t in SCALARS]
        if not fields:
            return inner
        order = f" order by {self.rng.choice(fields).text} limit {self.rng.choice((1, 2, 3))}"
        source = Source(piece("from", "(", inner.text, f") {alias}"), fields)
        return self.select([(piece(f.type, f.text), f.type) for f in fields], source, order)
