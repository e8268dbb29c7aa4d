"""Random expressions of a wanted type over the columns in reach. None of them throws on any row."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pieces import Piece, piece
from schemas import Field

SCALARS = ("int", "bigint", "string", "decimal", "double", "date", "timestamp", "boolean")
COMPARED = SCALARS
LITERALS = {
    "int": ("0", "1", "2", "-1"),
    "bigint": ("0L", "1L", "5L"),
    "string": ("''", "'a'", "'b'", "'zz'"),
    "decimal": ("0.00", "1.50", "-2.0"),
    "double": ("0.0d", "1.5d", "double('nan')", "-0.0d"),
    "date": ("date'2024-01-31'", "date'2024-03-01'"),
    "timestamp": ("timestamp'2024-01-31 00:00:00'", "timestamp'2024-02-01 12:00:00'"),
    "boolean": ("true", "false"),
    "array<int>": ("array(1, 2)", "array(0)"),
    "array<string>": ("array('a', null)", "array('b')"),
}
SPELLED = {"decimal": "decimal(14,3)"}

# Type -> templates: {type} is an expression of that type, {=type} a literal.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "int": (
        "({int} % 5) + {=int}", "abs({int} % 7)", "length({string})", "year({date})", "day({date})", "hour({timestamp})",
        "datediff({date}, {date})", "size({array<int>})", "if({boolean}, {int}, {int})", "coalesce({int}, {=int})",
        "nullif({int}, {=int})", "case {string} when 'a' then {int} when 'b' then {=int} end", "pmod({int}, 3)",
        "greatest({int}, {int})", "least({int}, {=int})", "cast({boolean} as int)", "instr({string}, 'a')", "-({int} % 9)",
        "try_element_at({array<int>}, 1)", "aggregate({array<int>}, 0, (s, x) -> s + coalesce(x, 0) % 3)",
        "ascii({string})",
    ),
    "bigint": (
        "cast({int} as bigint)", "({bigint} % 100) + {=bigint}", "coalesce({bigint}, {=bigint})", "abs({bigint} % 50)",
        "if({boolean}, {bigint}, {=bigint})", "case when {boolean} then {bigint} end", "bit_length({string}) * 1L",
        "nullif({bigint}, {=bigint})",
    ),
    "string": (
        "concat({string}, {=string})", "upper({string})", "lower({string})", "substring({string}, 1, 1)",
        "coalesce({string}, {=string})", "cast({int} as string)", "cast({date} as string)", "cast({decimal} as string)",
        "case when {boolean} then {string} else {=string} end", "trim({string})", "replace({string}, 'a', 'x')",
        "date_format({timestamp}, 'yyyy-MM')", "concat_ws('-', {string}, {string})", "nullif({string}, {=string})",
        "cast({boolean} as string)", "reverse({string})", "array_join({array<string>}, ',')", "cast({timestamp} as string)",
        "cast({double} as string)",
    ),
    "decimal": (
        "cast({int} as decimal(10,2))", "coalesce({decimal}, {=decimal})", "if({boolean}, {decimal}, {=decimal})",
        "cast(round({decimal}, 1) as decimal(14,3))", "-{decimal}", "nullif({decimal}, {=decimal})",
        "greatest({decimal}, {=decimal})",
    ),
    "double": (
        "cast({int} as double)", "cast({decimal} as double)", "{double} + {=double}", "{double} * {=double}",
        "try_divide({double}, {double})", "coalesce({double}, {=double})", "if({boolean}, {double}, {double})",
        "nanvl({double}, {=double})", "sqrt(abs({double}))", "-{double}", "greatest({double}, {=double})",
        "nullif({double}, {=double})", "cast({bigint} as double)",
    ),
    "date": (
        "date_add({date}, {=int})", "last_day({date})", "trunc({date}, 'MM')", "cast({timestamp} as date)",
        "coalesce({date}, {=date})", "least({date}, {=date})", "if({boolean}, {date}, {=date})",
    ),
    "timestamp": (
        "date_trunc('HOUR', {timestamp})", "date_trunc('DAY', {timestamp})", "cast({date} as timestamp)",
        "{timestamp} + interval '1' hour", "coalesce({timestamp}, {=timestamp})", "greatest({timestamp}, {=timestamp})",
    ),
    "boolean": (
        "not ({boolean})", "({boolean} and {boolean})", "({boolean} or {boolean})", "{string} like '%a%'",
        "{int} between -1 and 2", "coalesce({boolean}, {=boolean})", "array_contains({array<int>}, 1)", "isnan({double})",
        "{int} in (0, 1, null)", "{string} not in ('a', 'b')", "if({boolean}, {boolean}, {=boolean})",
        "exists({array<int>}, x -> x > 1)", "startswith({string}, 'a')",
    ),
    "array<int>": (
        "array({int}, {int})", "sort_array({array<int>})", "filter({array<int>}, x -> x > 0)",
        "transform({array<int>}, x -> x % 2)", "array_distinct({array<int>})", "concat({array<int>}, {array<int>})",
    ),
    "array<string>": (
        "array({string}, {string})", "split({string}, ' ')", "transform({array<int>}, x -> cast(x as string))",
        "sort_array({array<string>})",
    ),
}  # fmt: skip
COMPARISONS = ("=", "=", "<", "<=", ">", ">=", "<>", "<=>")

# Makes a predicate with a sub-query in it, for the depth that is left; None where none may stand.
Subquery = Callable[[int], Piece]


@dataclass(frozen=True)
class Expressions:
    """Draws expressions over ``fields``."""

    rng: random.Random
    fields: Sequence[Field]

    def of(self, wanted: str, depth: int = 2) -> Piece:
        """An expression of the type, nested at most ``depth`` deep."""
        rng = self.rng
        columns = [f for f in self.fields if f.type == wanted]
        null = (f"cast(null as {SPELLED.get(wanted, wanted)})",)
        if columns and rng.random() < (0.55 if depth > 0 else 0.95):
            return piece(wanted, rng.choice(columns).text, plain=null)
        if depth <= 0 or rng.random() < 0.08:
            return piece(wanted, rng.choice(LITERALS[wanted]), plain=null)
        if wanted == "boolean" and rng.random() < 0.6:
            return self.comparison(depth)
        return self.filled(wanted, rng.choice(TEMPLATES[wanted]), depth - 1, null)

    def filled(self, wanted: str, template: str, depth: int, plain: tuple[str, ...]) -> Piece:
        parts: list[Piece | str] = []
        rest = template
        while "{" in rest:
            before, _, rest = rest.partition("{")
            name, _, rest = rest.partition("}")
            literal = name.startswith("=")
            made = self.rng.choice(LITERALS[name[1:]]) if literal else self.of(name, depth)
            parts += [before, made]
        return piece(wanted, "(", *parts, rest, ")", plain=plain)

    def comparison(self, depth: int) -> Piece:
        rng = self.rng
        wanted = self.present(COMPARED)
        left = self.of(wanted, depth - 1)
        if rng.random() < 0.2:
            return piece("boolean", "(", left, rng.choice((" is null", " is not null")), ")", plain=("true",))
        right = self.of(wanted, depth - 1)
        return piece("boolean", "(", left, f" {rng.choice(COMPARISONS)} ", right, ")", plain=("true",))

    def present(self, among: Sequence[str] = tuple(TEMPLATES)) -> str:
        """A type, mostly one that some column in reach has."""
        own = [f.type for f in self.fields if f.type in among]
        return self.rng.choice(own) if own and self.rng.random() < 0.9 else self.rng.choice(list(among))

    # -- aggregates -----------------------------------------------------------------------------------------

    def aggregate(self, wanted: str = "") -> tuple[Piece, str]:
        """An aggregate call and its type."""
        rng = self.rng
        forms = [f for f in AGGREGATES if f[1] == wanted or not wanted] or AGGREGATES
        template, made, weight_arguments = rng.choice(forms)
        argument = weight_arguments
        if made == "same":
            argument = made = self.present(SCALARS)
        inner = template.replace("{x}", f"{{{argument}}}").replace("{by}", f"{{{self.present(SCALARS)}}}")
        call = self.filled("aggregate", inner, 1, ())
        call = piece(f"aggregate:{made}", *call.parts[1:-1])
        if rng.random() < 0.2:
            test = piece("filter", " filter (where ", self.of("boolean", 1), ")", plain=("",))
            call = piece(f"aggregate:{made}", call, test)
        if made.startswith("array") and "collect" in template:
            call = piece(f"aggregate:{made}", "sort_array(", call, ")")
        return call, made


# (template, its type, its argument's type); "same": min, max and others of any type.
AGGREGATES: tuple[tuple[str, str, str], ...] = (
    ("count(*)", "bigint", ""),
    ("count(*)", "bigint", ""),
    ("count({x})", "bigint", "string"),
    ("count({x})", "bigint", "int"),
    ("count(distinct {x})", "bigint", "int"),
    ("count(distinct {x})", "bigint", "string"),
    ("count(distinct {x}, {by})", "bigint", "int"),
    ("count_if({x})", "bigint", "boolean"),
    ("sum({x})", "bigint", "int"),
    ("sum({x})", "bigint", "int"),
    ("sum({x} % 1000)", "bigint", "bigint"),
    ("sum(distinct {x})", "bigint", "int"),
    ("sum({x})", "double", "double"),
    ("cast(sum({x}) as decimal(18,3))", "decimal", "decimal"),
    ("avg({x})", "double", "int"),
    ("avg({x})", "double", "double"),
    ("cast(avg({x}) as decimal(18,3))", "decimal", "decimal"),
    ("avg(distinct {x})", "double", "int"),
    ("min({x})", "same", ""),
    ("max({x})", "same", ""),
    ("min({x})", "same", ""),
    ("max({x})", "same", ""),
    ("first({x})", "same", ""),
    ("last({x})", "same", ""),
    ("any_value({x})", "same", ""),
    ("max_by({x}, {by})", "same", ""),
    ("min_by({x}, {by})", "same", ""),
    ("mode({x})", "same", ""),
    ("median({x})", "double", "int"),
    ("percentile({x}, 0.25)", "double", "int"),
    ("bool_and({x})", "boolean", "boolean"),
    ("bool_or({x})", "boolean", "boolean"),
    ("collect_list({x})", "array<int>", "int"),
    ("collect_list({x})", "array<string>", "string"),
    ("collect_set({x})", "array<int>", "int"),
    ("listagg({x}, ',')", "string", "string"),
)
