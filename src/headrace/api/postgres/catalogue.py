"""The views and tables of a project as PostgreSQL's catalogue and information schema show them.

What is the same for every project is in catalogue.sql and catalogue_empty.sql; the rest is made here of what the asker
may read. Object ids of relations are those of their names: they stay as long as the process.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headrace.api.postgres import patterns, types
from headrace.api.postgres.types import PostgresType
from headrace.formats.types.duckdb import compose
from headrace.serve.relation import Described

STATIC = [Path(__file__).with_name(name) for name in ("catalogue_empty.sql", "catalogue.sql")]
_PUBLIC, _OWNER, _HEAP, _BTREE, _CLASSES = 2200, 10, 2, 403, 1259
_FIRST_OID = 16_384  # of what is not PostgreSQL's own
# Functions by which clients know a type as an array; they are the rows of pg_proc.
_OF_ARRAYS = {"typinput": 750, "typoutput": 751, "typreceive": 2400, "typsend": 2401, "typsubscript": 6179}


def install(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """What does not differ from asker to asker, into a new database of DuckDB's; clients see it as ``database``."""
    varchar = duckdb.sqltypes.VARCHAR
    connection.create_function("headrace_to_char", patterns.to_char, [varchar] * 3, varchar)
    connection.create_function("headrace_to_timestamp", patterns.to_timestamp, [varchar] * 2, varchar)
    text = "'" + database.replace("'", "''") + "'"
    connection.execute(compose("CREATE MACRO headrace_database() AS {text}", text=text))
    connection.register("made_types", pa.table(_types()))
    connection.execute("CREATE TABLE pg_type AS SELECT * EXCLUDE (name) FROM made_types")
    connection.execute("CREATE TABLE headrace_types AS SELECT oid, typname AS short, name FROM made_types")
    connection.unregister("made_types")
    for name, table in tables(
        [], {}, ObjectIds(), "", "", {}
    ).items():  # macros may name them; a connection has its own
        connection.register("made", table)
        connection.execute(compose("CREATE TABLE {name} AS FROM made", name=name))
    connection.unregister("made")
    for path in STATIC:
        for statement in connection.extract_statements(path.read_text(encoding="utf-8")):
            connection.execute(statement)


def without_rows() -> frozenset[str]:
    """Relations, and functions in FROM, that are the same for every project and have no rows."""
    empty, filled = (path.read_text(encoding="utf-8") for path in STATIC)
    relations = frozenset(re.findall(r"^CREATE TABLE (\w+)", empty, re.MULTILINE))
    functions = re.findall(r"^CREATE MACRO (\w+)\([^)]*\) AS TABLE [^;]* WHERE false;", filled, re.MULTILINE)
    return relations.difference(re.findall(r"^INSERT INTO (\w+)", filled, re.MULTILINE)).union(functions)


@dataclass
class ObjectIds:
    """A number for each name, the same at every asking; used by any thread."""

    _known: dict[str, int] = field(default_factory=dict)
    _next: Iterable[int] = field(default_factory=lambda: itertools.count(_FIRST_OID))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, name: str) -> int:
        with self._lock:
            if name not in self._known:
                self._known[name] = next(iter(self._next))
            return self._known[name]


def tables(
    relations: Sequence[Described],
    definitions: Mapping[str, str],
    ids: ObjectIds,
    database: str,
    user: str,
    settings: Mapping[str, str],
) -> dict[str, pa.Table]:
    """The catalogue's tables that differ, by name. ``definitions``: the SQL of views."""
    classes, attributes, indexes, constraints, described, defined = [], [], [], [], [], []
    for relation in relations:
        oid, is_view = ids.of(relation.name), relation.kind == "view"
        classes.append(_class(oid, relation.name, "v" if is_view else "r", len(relation.columns), bool(relation.key)))
        for number, column in enumerate(relation.columns, 1):
            attributes.append(
                _attribute(oid, number, column.name, types.of_spark(column.type), column.name in relation.key)
            )
        if is_view:
            defined.append((oid, " " + definitions.get(relation.name, "").strip().rstrip(";") + ";"))
        if relation.reason:
            described.append((oid, _CLASSES, 0, f"stale: {relation.reason}"))
        if relation.key:
            name = f"{relation.name}_pkey"
            index, constraint = ids.of(f"index {name}"), ids.of(f"constraint {name}")
            places = [number for number, column in enumerate(relation.columns, 1) if column.name in relation.key]
            classes.append(_class(index, name, "i", len(places), False))
            for number, place in enumerate(places, 1):
                column = relation.columns[place - 1]
                attributes.append(_attribute(index, number, column.name, types.of_spark(column.type), False))
            zeros = [0] * len(places)
            indexes.append((index, oid, len(places), len(places), True, True, True, False, True, False, places,
                            True, True, False, False, False, 1, zeros, zeros, zeros))  # fmt: skip
            constraints.append((constraint, name, _PUBLIC, "p", False, False, True, oid, 0, index, 0, places, 2606, 1,
                                0, True, 0, True, " ", " ", " "))  # fmt: skip
            columns = ", ".join(quoted(column) for column in relation.key)
            defined.append(
                (index, f"CREATE UNIQUE INDEX {quoted(name)} ON public.{quoted(relation.name)} USING btree ({columns})")
            )
            defined.append((constraint, f"PRIMARY KEY ({columns})"))
    texts = dict(defined)
    views = [relation for relation in relations if relation.kind == "view"]
    return {
        "pg_class": _table(_CLASS, classes),
        "pg_attribute": _table(_ATTRIBUTE, attributes),
        "pg_index": _table(_INDEX, indexes),
        "pg_constraint": _table(_CONSTRAINT, constraints),
        "pg_description": _table("objoid:l classoid:l objsubid:i description:s", described),
        "headrace_definitions": _table("oid:l definition:s", defined),
        "pg_indexes": _table(
            "schemaname:s tablename:s indexname:s tablespace:s indexdef:s",
            [
                ("public", each.name, f"{each.name}_pkey", None, texts[ids.of(f"index {each.name}_pkey")])
                for each in relations
                if each.key
            ],
        ),
        "pg_views": _table(
            "schemaname:s viewname:s viewowner:s definition:s",
            [("public", view.name, "headrace", texts[ids.of(view.name)]) for view in views],
        ),
        "pg_tables": _table(
            "schemaname:s tablename:s tableowner:s tablespace:s hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
            [
                ("public", each.name, "headrace", None, bool(each.key), False, False, False)
                for each in relations
                if each.kind == "table"
            ],
        ),
        **_around(database, user, settings),
    }  # fmt: skip


def _around(database: str, user: str, settings: Mapping[str, str]) -> dict[str, pa.Table]:
    """The one database, the one role, and the settings of the connection."""
    return {
        "pg_database": _table(
            "oid:l datname:s datdba:l encoding:i datlocprovider:s datistemplate:b datallowconn:b datconnlimit:i "
            "datcollate:s datctype:s dattablespace:l datfrozenxid:l datminmxid:l xmin:l daticulocale:s daticurules:s "
            "datlocale:s datcollversion:s datacl:S",
            [(1, database, _OWNER, 6, "c", False, True, -1, "C", "C", 1663, 0, 0, 1)],
        ),
        "pg_roles": _table(
            "oid:l rolname:s rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
            "rolconnlimit:i rolbypassrls:b rolpassword:s rolvaliduntil:t rolconfig:S",
            [(_OWNER, user, False, True, False, False, True, False, -1, False, "********")],
        ),
        "pg_user": _table(
            "usename:s usesysid:l usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:s valuntil:t useconfig:S",
            [(user, _OWNER, False, False, False, False, "********")],
        ),
        "pg_settings": _table(
            "name:s setting:s boot_val:s reset_val:s source:s context:s vartype:s category:s short_desc:s "
            "pending_restart:b unit:s extra_desc:s min_val:s max_val:s enumvals:S sourcefile:s sourceline:i",
            [
                (name, value, value, value, "default", "user", "string", "Preset Options", "", False)
                for name, value in settings.items()
            ],
        ),
    }  # fmt: skip


def quoted(name: str) -> str:
    """A name as PostgreSQL writes it: in quotes where it is more than a plain word."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and not name[0].isdigit()
    return name if plain else '"' + name.replace('"', '""') + '"'


_KINDS = {"t": pa.timestamp("us", "UTC"), "L": pa.list_(pa.int64()), "l": pa.int64(),
          "i": pa.int32(), "h": pa.int16(), "s": pa.string(), "b": pa.bool_(), "f": pa.float32(),
          "S": pa.list_(pa.string()), "H": pa.list_(pa.int16())}  # fmt: skip
_CLASS = (
    "oid:l relname:s relnamespace:l reltype:l reloftype:l relowner:l relam:l relfilenode:l reltablespace:l relpages:i "
    "reltuples:f relallvisible:i reltoastrelid:l relhasindex:b relisshared:b relpersistence:s relkind:s relnatts:h "
    "relchecks:h relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b "
    "relispopulated:b relreplident:s relispartition:b relrewrite:l relfrozenxid:l relminmxid:l tableoid:l xmin:l "
    "relacl:S reloptions:S relpartbound:s"
)
_ATTRIBUTE = (
    "attrelid:l attname:s atttypid:l attstattarget:i attlen:h attnum:h attndims:i attcacheoff:i atttypmod:i attbyval:b "
    "attalign:s attstorage:s attcompression:s attnotnull:b atthasdef:b atthasmissing:b attidentity:s attgenerated:s "
    "attisdropped:b attislocal:b attinhcount:i attcollation:l attacl:S attoptions:S attfdwoptions:S attmissingval:s"
)
_INDEX = (
    "indexrelid:l indrelid:l indnatts:h indnkeyatts:h indisunique:b indisprimary:b indimmediate:b indisclustered:b "
    "indisvalid:b indisreplident:b indkey:H indisready:b indislive:b indisexclusion:b indnullsnotdistinct:b "
    "indcheckxmin:b xmin:l indoption:H indcollation:L indclass:L indpred:s indexprs:s"
)
_CONSTRAINT = (
    "oid:l conname:s connamespace:l contype:s condeferrable:b condeferred:b convalidated:b conrelid:l contypid:l "
    "conindid:l confrelid:l conkey:H tableoid:l xmin:l conparentid:l conislocal:b "
    "coninhcount:i connoinherit:b confupdtype:s confdeltype:s confmatchtype:s confkey:H conpfeqop:L conppeqop:L "
    "conffeqop:L confdelsetcols:H conexclop:L conbin:s"
)


def _class(oid: int, name: str, kind: str, columns: int, indexed: bool) -> tuple[Any, ...]:
    access = {"r": _HEAP, "i": _BTREE}.get(kind, 0)
    return (
        oid, name, _PUBLIC, 0, 0, _OWNER, access, oid, 0, 0, -1.0, 0, 0, indexed, False, "p", kind, columns, 0, False,
        False, False, False, False, True, "d", False, 0, 0, 0, _CLASSES, 1,
    )  # fmt: skip


def _attribute(relation: int, number: int, name: str, kind: PostgresType, required: bool) -> tuple[Any, ...]:
    collation = 100 if kind.category == "S" else 0
    storage = "p" if kind.size != types.VARIABLE else "m" if kind.short == "numeric" else "x"
    return (
        relation, name, kind.oid, -1, kind.size, number, int(kind.element is not None), -1, kind.modifier,
        kind.size in (1, 2, 4, 8), "i", storage, "", required, False, False, "", "", False, True, 0, collation,
    )  # fmt: skip


def _table(columns: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table, whose columns are ``name:kind`` each; those after the last value of the rows are NULL."""
    fields = [(name, _KINDS[kind]) for name, _, kind in (part.partition(":") for part in columns.split())]
    values = list(zip(*rows, strict=True))
    values += [(None,) * len(rows)] * (len(fields) - len(values))
    return pa.table(
        [pa.array(part, kind) for part, (_, kind) in zip(values, fields, strict=True)], names=[n for n, _ in fields]
    )


def _types() -> dict[str, pa.Array]:
    """``pg_type``, and the name of each as ``format_type()`` spells it."""
    arrays = [
        types.array(each) for each in (*types.SCALARS, *types.NAMES) if each.array_oid and each is not types.JSONB
    ]
    every = [*types.SCALARS, *types.NAMES, *arrays]
    return {
        "oid": pa.array([each.oid for each in every], pa.int64()),
        **{name: pa.array([value] * len(every), pa.int64()) for name, value in (("tableoid", 1247), ("xmin", 1))},
        "typname": pa.array([each.short for each in every]),
        "typnamespace": pa.array([11] * len(every), pa.int64()),
        "typowner": pa.array([_OWNER] * len(every), pa.int64()),
        "typlen": pa.array([each.size for each in every], pa.int16()),
        "typbyval": pa.array([each.size in (1, 2, 4, 8) for each in every]),
        "typtype": pa.array(["p" if each.category == "X" else "b" for each in every]),
        "typcategory": pa.array([each.category for each in every]),
        "typispreferred": pa.array([False] * len(every)),
        "typisdefined": pa.array([True] * len(every)),
        "typdelim": pa.array([","] * len(every)),
        "typrelid": pa.array([0] * len(every), pa.int64()),
        "typelem": pa.array([each.element.oid if each.element else 0 for each in every], pa.int64()),
        "typarray": pa.array([each.array_oid for each in every], pa.int64()),
        **{
            name: pa.array([function if each in arrays else 0 for each in every], pa.int64())
            for name, function in _OF_ARRAYS.items()
        },
        **{name: pa.array([0] * len(every), pa.int64()) for name in ("typmodin", "typmodout", "typanalyze")},
        "typalign": pa.array(["i"] * len(every)),
        "typstorage": pa.array(["p" if each.size != types.VARIABLE else "x" for each in every]),
        "typnotnull": pa.array([False] * len(every)),
        "typbasetype": pa.array([0] * len(every), pa.int64()),
        "typtypmod": pa.array([-1] * len(every), pa.int32()),
        "typndims": pa.array([0] * len(every), pa.int32()),
        "typcollation": pa.array([100 if each.category == "S" else 0 for each in every], pa.int64()),
        **{name: pa.array([None] * len(every), pa.string()) for name in ("typdefault", "typdefaultbin")},
        "typacl": pa.array([None] * len(every), pa.list_(pa.string())),
        "name": pa.array([each.name for each in every]),
    }  # fmt: skip
