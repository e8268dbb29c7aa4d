"""Which SELECTs may run in the process that serves: those that make no more of what they read than they are long.

Looked at is what DuckDB has parsed, before anything of it is bound or runs. Every function in it is one of those named
here, whose value has at most the bytes of its arguments together, or a known multiple of them; and what one row makes,
with every name written out, is at most ``BYTES_MAX``: a chain of names that doubles ends there. Whatever is not known
here is not plain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.api.postgres.catalogue import without_rows

BYTES_MAX = 16 << 10  # that one row makes, values in the making counted; DuckDB has 2,048 rows in hand at a time
CATALOGUE_BYTES_MAX = 40_000  # of a row of the catalogue, of which there are few
COLUMN_BYTES = 16  # of a value that is read
RELATION_BYTES = 10 * COLUMN_BYTES  # of a row that is read
WRITTEN = 4  # so often a macro of catalogue.sql that names an object writes an argument, at most
GROUPED = 16  # sets of columns that are grouped by at once
SERIES = 1_000  # numbers of a series
ROWS, WITH_ROWS = 100, 1_000_000  # of a relation of the catalogue of which it is not known; of a WITH query
WILDCARDS = 2  # of a pattern: with each more the time to match it is multiplied

Part = Mapping[str, Any]
Sizes = Mapping[str, int]  # bytes of columns by their names; "": of any other, "*": of all together

# Their value has at most the bytes of their arguments together, or those of a number: operators; of numbers; of texts;
# of moments; of lists and structs; of groups of rows, a number or one of the values; of windows; of the connection.
_ADDING = """
+ - * / // % ^ ** & | << >> @ ! ~ || ^@ -> ->>

abs acos asin atan atan2 cbrt ceil ceiling cos cot degrees div even exp fdiv floor fmod gcd greatest isfinite isinf
isnan lcm least ln log log10 log2 mod nullif pi pow power radians random round sign sin sqrt tan trunc width_bucket
xor

ascii bit_length btrim char_length character_length chr concat contains ends_with hash instr left len length lower
ltrim md5 octet_length ord position prefix regexp_full_match regexp_matches reverse right rtrim sha256 split_part
starts_with strlen strpos substr substring suffix trim unicode upper

age century clock_timestamp current_date current_localtime current_localtimestamp date_add date_bin date_diff
date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade
epoch epoch_ms epoch_ns epoch_us era get_current_timestamp hour isodow isoyear julian last_day make_date make_time
make_timestamp make_timestamptz microsecond millennium millisecond minute month monthname now quarter second
statement_timestamp time_bucket timezone to_char to_date to_days to_hours to_microseconds to_milliseconds to_minutes
to_months to_quarters to_seconds to_timestamp to_weeks to_years today transaction_timestamp week weekday weekofyear
year yearweek

array_contains array_extract array_has array_length array_lower array_ndims array_position array_slice array_upper
cardinality generate_subscripts list_contains list_extract list_has list_position list_slice list_value row
struct_extract struct_pack unnest

any_value arg_max arg_min avg bit_and bit_or bit_xor bool_and bool_or corr count count_star covar_pop covar_samp
first kurtosis last max min product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
regr_sxy regr_syy skewness stddev stddev_pop stddev_samp sum var_pop var_samp variance

cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number

acldefault aclexplode col_description current_catalog current_database current_role current_schema current_schemas
current_setting current_user format format_type obj_description quote_ident quote_literal quote_nullable
getdatabaseencoding row_security_active session_user set_config shobj_description txid_current typeof user version
"""
_NAMING = ("to_reg", "headrace_")  # how macros of catalogue.sql begin that write an argument more than once
_CATALOGUE = ("pg_", "has_", "information_schema__pg_", *_NAMING)
_MATCHING = ("~~", "!~~", "~~*", "!~~*", "like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape")
# One that is put in for each of those of another argument.
_MULTIPLYING = ("concat_ws", "replace")
# Macros of catalogue.sql that write an argument more than once, and how often.
_MACROS = {
    "format_type": 4, "pg_size_pretty": 9, "quote_ident": 3, "quote_literal": 2, "quote_nullable": 2, "to_char": 3,
    "width_bucket": 6,
}  # fmt: skip
# Asked of the catalogue alone, whose values are short: lists and texts of all rows, which DuckDB counts.
_OF_CATALOGUE = """
array_agg array_remove array_to_string json_object list parse_ident regexp_replace string_agg string_to_array
"""
_COLLECTING = ("array_agg", "list", "string_agg")
_SPREADING = ("generate_series", "generate_subscripts", "information_schema__pg_expandarray", "unnest")
_EMPTY = without_rows()
_ONE_OF_ARGUMENTS = ("arg_max", "arg_min", "max", "min")  # with one more they give a list of so many
_SCALARS = """
BIGINT BLOB BOOL BOOLEAN BPCHAR BYTEA CHAR DATE DECIMAL DOUBLE FLOAT FLOAT4 FLOAT8 HUGEINT INT INT1 INT2 INT4 INT8
INTEGER INTERVAL NAME NUMERIC OID REAL SMALLINT STRING TEXT TIME TIMESTAMP TIMESTAMPTZ TINYINT UBIGINT UHUGEINT
UINTEGER USMALLINT UTINYINT UUID VARCHAR XID REGCLASS REGTYPE REGPROC REGPROCEDURE REGOPER REGOPERATOR REGROLE
JSONB REGCOLLATION REGCONFIG REGDICTIONARY REGNAMESPACE TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS
"""
ADDING, OF_CATALOGUE, SCALARS = (frozenset(names.split()) for names in (_ADDING, _OF_CATALOGUE, _SCALARS))
ZONED = "TIMESTAMP WITH TIME ZONE"
_VALUES = ("OPERATOR_COALESCE", "OPERATOR_NULLIF", "ARRAY_EXTRACT", "ARRAY_SLICE", "STRUCT_EXTRACT",
           "ARRAY_CONSTRUCTOR")  # fmt: skip
_TRUTHS = ("OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "COMPARE_IN", "COMPARE_NOT_IN")


class _Beyond(Exception):
    """It is not plain."""


def plain(statement: Part, parameters: Sequence[Any] = (), catalogue: Mapping[str, int] | None = None) -> bool:
    """Whether a parsed SELECT is. ``catalogue``: rows of relations of the catalogue, where it reads nothing else."""
    try:
        _Sizes(parameters, catalogue).query(statement["node"], {}, {})
    except (_Beyond, LookupError, RecursionError):  # what has another shape than is known here is not known either
        return False
    return True


class _Sizes:
    """One walk over a statement: how many bytes each value has, and all together."""

    def __init__(self, parameters: Sequence[Any], catalogue: Mapping[str, int] | None) -> None:
        self._parameters, self._catalogue = parameters, catalogue
        self._left = BYTES_MAX if catalogue is None else CATALOGUE_BYTES_MAX
        self._named = ADDING if catalogue is None else ADDING | OF_CATALOGUE
        self._read = list[int]()  # rows of what stands in FROM, so far
        self._rows = 1  # that the SELECT which it is at has, at most

    def query(self, node: Part, known: Mapping[str, Sizes], outer: Sizes) -> Sizes:
        """Of the columns that it gives. ``known``: of its WITH queries; ``outer``: of what is around it."""
        known = dict(known)
        for entry in (node.get("cte_map") or {}).get("map", ()):
            found = self.query(entry["value"]["query_node"], known, outer)
            known[entry["key"].lower()] = _renamed(found, entry["value"]["aliases"])
        if node["type"] == "SELECT_NODE":
            found, seen = self._select(node, known, outer)
        elif node["type"] == "SET_OPERATION_NODE":
            parts = node["children"] or [node["left"], node["right"]]
            found = seen = _united([self.query(part, known, outer) for part in parts])
        else:
            raise _Beyond
        for modifier in node["modifiers"]:
            self._modifier(modifier, seen, known)
        return found

    def _select(self, node: Part, known: Mapping[str, Sizes], outer: Sizes) -> tuple[Sizes, Sizes]:
        """(of its columns, of all that its clauses may name)"""
        if node["sample"] or len(node["group_sets"]) > GROUPED:
            raise _Beyond
        around, before = self._rows, len(self._read)
        source = self._source(node["from_table"], known, outer)
        self._rows = math.prod(self._read[before:])
        seen, given, total = _merged(outer, source), dict[str, int](), 0
        for place in node["select_list"]:
            if place["class"] == "STAR":
                given, size = _merged(given, self._star(place, source)), source.get("*", 0)
                self._count(size)
            else:
                size = self._value(place, seen, known)
                name = place["alias"].lower() or _name(place)
                given[name] = max(given.get(name, 0), size)
                if place["alias"]:  # it stands for this in what follows
                    seen = {**seen, name: max(seen.get(name, 0), size)}
            total += size
        self._values([node["where_clause"], node["having"], node["qualify"], *node["group_expressions"]], seen, known)
        self._rows = around
        return {**given, "*": total}, _merged(seen, {**given, "*": 0})

    def _star(self, star: Part, source: Sizes) -> Sizes:
        if star["columns"] or star["expr"] or star["replace_list"] or star["rename_list"]:
            raise _Beyond
        return source

    def _modifier(self, modifier: Part, seen: Sizes, known: Mapping[str, Sizes]) -> None:
        kind = modifier["type"]
        if kind == "ORDER_MODIFIER":
            self._orders(modifier["orders"], seen, known)
        elif kind == "DISTINCT_MODIFIER":
            self._values(modifier["distinct_on_targets"], seen, known)
        elif kind == "LIMIT_MODIFIER":
            self._values([modifier["limit"], modifier["offset"]], seen, known)
        else:
            raise _Beyond

    def _source(self, source: Part, known: Mapping[str, Sizes], outer: Sizes) -> Sizes:
        """Of the columns of what stands in FROM; a part of a join may name those before it."""
        kind, found = source["type"], dict[str, int]()
        if kind == "EMPTY":
            return found
        if source.get("sample") or source.get("at_clause"):
            raise _Beyond
        if kind == "JOIN":
            if source["ref_type"] not in ("REGULAR", "CROSS", "NATURAL") or source["ranking_expression"]:
                raise _Beyond
            left = self._source(source["left"], known, outer)
            found = _merged(left, self._source(source["right"], known, _merged(outer, left)))
            self._values([source["condition"]], _merged(outer, found), known)
            return found
        if kind == "BASE_TABLE":
            name = source["table_name"].lower()
            self._read.append(WITH_ROWS if name in known else self._rows_of(name))
            found = dict(known.get(name, {"": COLUMN_BYTES, "*": RELATION_BYTES}))
        elif kind == "SUBQUERY":
            found = dict(self.query(source["subquery"]["node"], known, outer))
        elif kind == "EXPRESSION_LIST":
            self._read.append(len(source["values"]))
            rows = [sum(self._values(row, outer, known)) for row in source["values"]]
            found = {"": max(rows), "*": max(rows)}
        elif kind == "TABLE_FUNCTION":
            size = self._called_in_from(source["function"], outer, known)
            found = {"": size, "*": RELATION_BYTES + size}
        else:
            raise _Beyond
        self._count(found.get("*", 0))
        return _renamed(found, source.get("column_name_alias") or ())

    def _rows_of(self, name: str) -> int:
        """Of a relation of the catalogue."""
        return 1 if name in _EMPTY else (self._catalogue or {}).get(name, ROWS)

    def _called_in_from(self, function: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        """Of a column of its rows; a series is counted there as it comes, and never a list."""
        name = function["function_name"].lower()
        if name not in ("range", "generate_series"):
            if name not in _SPREADING:
                self._read.append(self._rows_of(name))
            return self._value(function, seen, known)
        self._read.append(WITH_ROWS)
        self._values([each["expression"] for each in function["arguments"]], seen, known)
        return COLUMN_BYTES

    def _values(self, parts: Iterable[Part | None], seen: Sizes, known: Mapping[str, Sizes]) -> list[int]:
        return [self._value(part, seen, known) for part in parts if part is not None]

    def _orders(self, orders: Sequence[Part], seen: Sizes, known: Mapping[str, Sizes]) -> None:
        self._values([order["expression"] for order in orders], seen, known)

    def _value(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        """The bytes of a value; they are counted."""
        measure = _MEASURES.get(part["class"])
        if measure is None:
            raise _Beyond
        size = measure(self, part, seen, known)
        self._count(size)
        return size

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Beyond

    # ---- by class

    def _column(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        other = max(seen.get("", 0), COLUMN_BYTES)
        return max(seen.get(name.lower(), other) for name in part["column_names"])

    def _constant(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        return 1 + len(str(part.get("literal", {}).get("text", "")))

    def _parameter(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        bound = self._bound(part)
        return COLUMN_BYTES + (len(str(bound)) if isinstance(bound, str | bytes | list) else 0)

    def _cast(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        kind, named = part.get("type_expr") or {}, ""
        while kind and not named:  # of a list the type of its elements
            named = str(kind["type_name"]).upper()
            kind, named = (kind["children"][0], "") if named in ("LIST", "ARRAY") else ({}, named)
        if named not in SCALARS and named != ZONED:
            raise _Beyond
        return COLUMN_BYTES + self._value(part["child"], seen, known)

    def _truth(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        names = ("left", "right", "input", "lower", "upper")
        self._values([*(part.get(name) for name in names), *(part.get("children") or ())], seen, known)
        return 1

    def _case(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        once = [part["else_expr"]]  # of `CASE WHEN x IS NULL THEN ... ELSE x END`, as ARRAY(SELECT ...) is parsed
        whens = [check["when_expr"] for check in part["case_checks"]]
        self._values([when for when in whens if when.get("children") != once], seen, known)
        results = [check["then_expr"] for check in part["case_checks"]]
        return max(self._values([*results, part["else_expr"]], seen, known))

    def _operator(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        if part["type"] in _TRUTHS:
            return self._truth(part, seen, known)
        if part["type"] not in _VALUES:
            raise _Beyond
        return 1 + sum(self._values(part["children"], seen, known))

    def _subquery(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        self._values([part["child"]], seen, known)
        read = len(self._read)
        size = self.query(part["subquery"]["node"], known, seen)["*"]
        del self._read[read:]  # it makes no rows of what is around it
        return size

    def _positional(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        return max(seen.values(), default=COLUMN_BYTES)

    def _window(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        if part["distinct"] or part["arg_orders"] or part["function_name"].lower() in OF_CATALOGUE:
            raise _Beyond
        self._orders(part["orders"], seen, known)
        others = ("start_expr", "end_expr", "offset_expr", "filter_expr")
        self._values([*part["partitions"], *(part[name] for name in others)], seen, known)
        default = self._values([part["default_expr"]], seen, known)
        return self._called(part, seen, known) + sum(default)

    def _function(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        if part["export_state"] or (part["order_bys"]["orders"] and self._catalogue is None):
            raise _Beyond
        self._orders(part["order_bys"]["orders"], seen, known)
        self._values([part["filter"]], seen, known)
        return self._called(part, seen, known)

    def _called(self, part: Part, seen: Sizes, known: Mapping[str, Sizes]) -> int:
        name, arguments = part["function_name"].lower(), [each["expression"] for each in part["arguments"]]
        if part["schema"] or part["catalog"]:  # DuckDB's own, where there is another by the name
            raise _Beyond
        if name in _MATCHING:
            self._values(arguments, seen, known)
            if self._count_in(arguments[1], "%") > WILDCARDS:
                raise _Beyond
            return 1
        if name in ("->", "->>") and self._count_in(arguments[1], "*"):  # parts of parts, each anew
            raise _Beyond
        if name == "generate_series" and not all(map(_few, arguments)):
            raise _Beyond
        sizes = self._values(arguments, seen, known)
        if name in _MULTIPLYING:
            return math.prod(size + 1 for size in sizes)
        if name == "array_to_string" and not (arguments[1]["class"] == "CONSTANT" and sizes[1] <= COLUMN_BYTES):
            raise _Beyond  # it is put in for each element
        if not (name.startswith(_CATALOGUE) or name in self._named or name == "generate_series"):
            raise _Beyond
        if name in _COLLECTING:
            return COLUMN_BYTES + sum(sizes) * self._rows
        if name in _SPREADING:
            self._read.append(1 + sum(sizes) // COLUMN_BYTES)
        if name in _ONE_OF_ARGUMENTS and len(arguments) > 1 + name.startswith("arg_"):
            raise _Beyond
        return COLUMN_BYTES + sum(sizes) * _written(name, len(arguments))

    def _count_in(self, pattern: Part, sign: str) -> int:
        """How often a pattern has it that is written out, a parameter, or put together of such."""
        if pattern["class"] == "CAST":
            return self._count_in(pattern["child"], sign)
        if pattern["class"] == "FUNCTION" and pattern["function_name"] == "||":
            return sum(self._count_in(each["expression"], sign) for each in pattern["arguments"])
        if pattern["class"] == "PARAMETER":
            return str(self._bound(pattern)).count(sign)
        if pattern["class"] != "CONSTANT":
            raise _Beyond
        return str(pattern.get("literal", {}).get("text", "")).count(sign)

    def _bound(self, part: Part) -> Any:
        """The value of a parameter; None: none yet."""
        return (
            dict(enumerate(self._parameters, 1)).get(int(part["identifier"]))
            if part["identifier"].isdecimal()
            else None
        )


_MEASURES: dict[str, Callable[[_Sizes, Part, Sizes, Mapping[str, Sizes]], int]] = {
    "COLUMN_REF": _Sizes._column, "CONSTANT": _Sizes._constant, "PARAMETER": _Sizes._parameter, "CAST": _Sizes._cast,
    "COMPARISON": _Sizes._truth, "CONJUNCTION": _Sizes._truth, "BETWEEN": _Sizes._truth, "CASE": _Sizes._case,
    "OPERATOR": _Sizes._operator, "SUBQUERY": _Sizes._subquery, "POSITIONAL_REFERENCE": _Sizes._positional,
    "WINDOW": _Sizes._window, "FUNCTION": _Sizes._function,
}  # fmt: skip


def _few(argument: Part) -> bool:
    """Whether a series from or to it is short: a small number, or the length of a list."""
    if argument["class"] == "FUNCTION":
        return argument["function_name"].lower() in ("array_length", "array_lower", "array_upper", "cardinality", "len")
    text = argument.get("literal", {}).get("text", "")
    return argument["class"] == "CONSTANT" and str(text).isdecimal() and 0 < int(text) <= SERIES


def _written(name: str, count: int) -> int:
    """How often an argument of so many is written where a macro was, at most."""
    if name == "format":  # once more for each value, one within the other
        return 5 << max(count - 2, 0)
    if name == "array_to_string":
        return 2
    return _MACROS.get(name, WRITTEN if name.startswith(_NAMING) else 1)


def _name(part: Part) -> str:
    return str(part["column_names"][-1]).lower() if part["class"] == "COLUMN_REF" else ""


def _merged(one: Sizes, other: Sizes) -> dict[str, int]:
    """Of columns of both; a name may be that of either."""
    found = {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}
    return {**found, "*": one.get("*", 0) + other.get("*", 0)}


def _united(parts: Sequence[Sizes]) -> dict[str, int]:
    """Of the columns of a UNION, which have the names of those of the first."""
    widest = max(size for part in parts for name, size in part.items() if name != "*") if any(parts) else 0
    return {**dict.fromkeys(parts[0], widest), "": widest, "*": max(part.get("*", 0) for part in parts)}


def _renamed(found: Sizes, names: Sequence[str]) -> Sizes:
    """Of columns that have other names here."""
    if not names:
        return found
    widest = max((size for name, size in found.items() if name != "*"), default=COLUMN_BYTES)
    return {**found, "": widest}
