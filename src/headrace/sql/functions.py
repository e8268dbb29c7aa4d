"""Every function of Spark's registry in one of three classes; what is in none is refused.

*exact*: the value follows from the row, or from the group's rows whatever their order and partitioning.
*canonicalised*: Spark leaves the answer open; headrace.sql.canonical closes it, the same way in circuit and batch.
*refused*: the value depends on something else, or the function runs or reads what a view must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

OPERATORS = "! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~ and between case in like ilike rlike not or when"

CASTS = "bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint"

SCALARS = """
abs acos acosh add_months aes_decrypt array array_append array_compact array_contains array_distinct array_except
array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh base64 bin
bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count bround btrim cardinality cbrt ceil
ceiling char char_length character_length chr coalesce collate collation concat concat_ws contains conv convert_timezone
cos cosh cot crc32 csc current_timezone date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decode degrees div e element_at elt encode endswith
equal_null exp expm1 extract factorial find_in_set floor format_number format_string from_base32 from_unixtime
flatten
from_utc_timestamp get get_json_object getbit greatest hash hex hmac hour hypot if ifnull initcap instr is_valid_utf8
is_valid_variant is_variant_null isnan isnotnull isnull jaro_winkler_similarity json_array_length json_object_keys
last_day lcase least left len length levenshtein ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date
make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8
make_ym_interval map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values mask
md5 minute mod month monthname months_between named_struct nanvl negative next_day nullif nullifzero nvl nvl2
octet_length overlay parse_json parse_url pi pmod position positive pow power printf quarter quote radians raise_error
regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat
replace reverse right rint round rpad rtrim schema_of_csv schema_of_json schema_of_variant sec second sentences sequence
session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice sort_array soundex
space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map struct
substr substring substring_index tan tanh time_bucket time_diff time_from_micros time_from_millis time_from_seconds
time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_nanos
timestamp_seconds to_base32 to_binary to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz
to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml translate trim trunc try_add
try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date
try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append try_variant_get
try_variant_insert try_variant_set typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_nanos
unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 variant_array_append variant_delete variant_get
variant_insert variant_set variant_strip_nulls vector_cosine_similarity vector_inner_product vector_l2_distance
vector_norm vector_normalize weekday weekofyear width_bucket window window_time xpath xpath_boolean xpath_double
xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year zeroifnull from_csv from_json
"""

LAMBDAS = (
    "aggregate exists filter forall map_filter map_zip_with reduce transform transform_keys transform_values zip_with"
)

GENERATORS = """
explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
variant_explode_outer
"""

AGGREGATES = """
any approx_count_distinct bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
count count_if every
grouping grouping_id median percentile percentile_cont percentile_disc regr_count some
"""

TABLES = "range"

RANKINGS = "cume_dist dense_rank percent_rank rank"

EXACT = " ".join((OPERATORS, CASTS, SCALARS, LAMBDAS, GENERATORS, TABLES, AGGREGATES, RANKINGS))

# What the canonical form makes of each.
CANONICALISED: tuple[tuple[str, str], ...] = (
    ("max min", "over float and double, -0.0 is shown as 0.0"),
    (
        "avg mean regr_avgx regr_avgy sum",
        "over float and double the correctly rounded exact result, whatever the order",
    ),
    (
        "corr covar_pop covar_samp kurtosis regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness std "
        "stddev stddev_pop stddev_samp var_pop var_samp variance",
        "the correctly rounded exact result over the values as doubles, whatever the order",
    ),
    ("try_avg try_sum", "as avg and sum; NULL where the exact result does not fit"),
    ("array_agg collect_list", "sorted, NULLs first where kept; in a window, in the window's order"),
    ("collect_set collect_union", "sorted"),
    ("any_value first first_value", "the least value, NULL first; in a window, the first row in its order"),
    ("last last_value", "the greatest value; in a window, the last row in its order"),
    ("max_by min_by", "among equal maxima (minima) the greatest (least) value"),
    ("mode", "among equally frequent values the least"),
    ("listagg string_agg", "without WITHIN GROUP sorted by the text; with it, ties by the text"),
    (
        "counter_diff lag lead nth_value ntile row_number",
        "rows that tie in ORDER BY are ordered by the remaining columns, ascending",
    ),
)

# (names, what they mean)
CLOCKS = (
    "curdate current_date current_timestamp localtimestamp now",
    "in a view the last tick of the clock, in filters only; in a one-off query the time at which it runs",
)

# What to write in the place of a refused function; of others only their reason helps.
INSTEAD: tuple[tuple[str, str], ...] = (
    (
        "approx_percentile percentile_approx",
        "write percentile(x, p), percentile_disc or median: exact, and kept in order",
    ),
    (
        "approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate",
        "count in a query below, and take the first: GROUP BY x, then ORDER BY count(*) DESC LIMIT k",
    ),
    ("histogram_numeric", "count by a bucket: GROUP BY width_bucket(x, low, high, n)"),
    ("hll_sketch_agg hll_sketch_estimate theta_sketch_agg theta_sketch_estimate", "write count(DISTINCT x)"),
    ("rand randn random uniform uuid", "derive it from the row: pmod(xxhash64(id), 100), sha2(id, 256)"),
    ("shuffle", "write array_sort(x)"),
)

# (error code, reason, names)
REFUSED: tuple[tuple[str, str, str], ...] = (
    (
        "sql.not_deterministic",
        "it begins anew every day; compare timestamps instead",
        "current_time localtime",
    ),
    (
        "sql.not_deterministic",
        "its value is random",
        "aes_encrypt rand randn random randstr shuffle uniform uuid",
    ),
    (
        "sql.not_deterministic",
        "it depends on how rows are placed in partitions and files",
        "input_file_block_length input_file_block_start input_file_name monotonically_increasing_id spark_partition_id",
    ),
    (
        "sql.not_deterministic",
        "it depends on the session, not on the data",
        "current_catalog current_database current_path current_schema current_user session_user user version",
    ),
    ("sql.refused", "it calls code of the JVM", "java_method reflect try_reflect"),
    (
        "sql.refused",
        "its options may name files that are then read, or it needs a module that is not shipped",
        "from_avro from_protobuf from_xml schema_of_avro schema_of_xml to_avro to_protobuf",
    ),
    (
        "sql.not_deterministic",
        "it is approximate: its answer depends on the order of the rows",
        "approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine "
        "approx_top_k_estimate histogram_numeric percentile_approx",
    ),
    (
        "sql.not_deterministic",
        "it is a sketch: its bytes depend on the order of the rows",
        """
        count_min_sketch hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg
        kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
        kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
        kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
        kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
        kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
        kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
        kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
        theta_difference theta_intersection theta_intersection_agg theta_sketch_agg theta_sketch_estimate
        theta_union theta_union_agg
        tuple_difference_double tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
        tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
        tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
        tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
        tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
        tuple_union_theta_double tuple_union_theta_integer
        """,
    ),
    (
        "sql.not_deterministic",
        "its floating accumulation is not exact yet",
        "vector_avg vector_sum",
    ),
    (
        "sql.not_deterministic",
        "its answer is not shown to be independent of the order of the rows",
        "schema_of_variant_agg",
    ),
    (
        "sql.refused",
        "it makes a table of its own, not of relations of the project",
        "collations python_worker_logs sql_keywords",
    ),
    ("sql.refused", "it belongs to metric views, which do not exist here", "measure"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``kind``: exact, canonicalised or refused; ``note`` why or how; ``code`` the error of a refusal, ``instead`` what
    to write in its place, where something is known."""

    name: str
    kind: str
    note: str = ""
    code: str = ""
    instead: str = ""


@cache
def verdicts() -> dict[str, Verdict]:
    """Every classed function by its lower-case name. Raises ``ValueError`` when a name stands twice."""
    entries = [Verdict(name, "exact") for name in EXACT.split()]
    closed = (*CANONICALISED, CLOCKS)
    entries += [Verdict(name, "canonicalised", note) for names, note in closed for name in names.split()]
    instead = {name: rewrite for names, rewrite in INSTEAD for name in names.split()}
    entries += [
        Verdict(name, "refused", why, code, instead.get(name, ""))
        for code, why, names in REFUSED
        for name in names.split()
    ]
    table = {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}
    if len(table) != len(entries):
        names = [entry.name for entry in entries]
        raise ValueError(f"classed twice: {sorted({name for name in names if names.count(name) > 1})}")
    return table


def is_generator(name: str) -> bool:
    """Whether a function may stand in FROM, LATERAL VIEW or LATERAL."""
    return name.lower() in (*GENERATORS.split(), *TABLES.split(), "unnest")
