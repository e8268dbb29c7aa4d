"""View definitions to node trees: admitted, optimized by Spark, put in canonical form, lowered; with keys inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.store import ViewRecord, feed_of
from headrace.circuit.appended import only_comes, with_less_kept
from headrace.circuit.handed import handed_type, has_months, taken_back
from headrace.circuit.lineage import Lineage, lineage
from headrace.circuit.node import (
    PREVIOUS,
    Aggregate,
    AsOf,
    Feed,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Regroup,
    Running,
    Single,
    Threshold,
    TopK,
    Union,
    Window,
    with_children,
)
from headrace.circuit.one_row import has_one_row
from headrace.engine.lost import lost_spark
from headrace.engine.session import computed_by
from headrace.engine.unroll import LOOP
from headrace.formats.types.arrow import quote, to_arrow
from headrace.model.clock import CLOCK
from headrace.model.definition import ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation, ViewSchema
from headrace.sql.admit import Admitted, admit, check_analyzed
from headrace.sql.canonical import canonical, optimized
from headrace.sql.catalyst import Catalyst
from headrace.sql.collated import named_in
from headrace.sql.errors import UnknownRelation, analysis_error
from headrace.sql.lowering.base import output_types, refuse
from headrace.sql.lowering.linear import LEAF_PREFIX
from headrace.sql.plan import lower
from headrace.sql.present import last_tick
from headrace.sql.user_functions import NONE, UserFunctions

ON_ERROR = ("stop", "set_aside", "stop_source")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A view that can be maintained."""

    definition: ViewDefinition
    schema: ViewSchema
    root: Node
    reads: tuple[str, ...]
    fingerprint: str  # of its nodes, and of what they are computed by
    calls: tuple[str, ...] = ()  # functions of users, by their lower-case names
    lineage: Lineage = field(default_factory=Lineage)  # of the columns of ``schema``

    @property
    def feed(self) -> str:
        return feed_of(self.schema.name, self.schema.version)


@dataclass(frozen=True, slots=True)
class Compilation:
    """All views of a project, upstream first; those that cannot be maintained with the reason, and of those that name
    a table that is not there its name."""

    views: dict[str, Compiled]
    refused: dict[str, HeadraceError]
    tables: frozenset[str]  # the tables that the views read
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A view's text as nodes, with the columns of its result, those unique together, and where they come from."""

    root: Node
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    lineage: Lineage


class Compiler:
    """Compiles view definitions against tables. Bound to a session, whose temporary views it replaces.

    What the last compilation has admitted and lowered is taken again where text and relations are as they were:
    `up` compiles after its recovery what it compiled for it, and `apply` only what an edit has changed.
    """

    def __init__(self, spark: SparkSession, functions: UserFunctions = NONE) -> None:
        self.spark = spark
        self.catalyst = Catalyst(spark)
        self.computed_by = computed_by(spark)
        self._admitted: dict[Any, Admitted] = {}  # by text and all names there are
        self._lowered: dict[Any, Lowered] = {}  # by text and the relations it reads
        self.use(functions)
        self.clocked = False  # whether the session knows the clock's relation
        self._registered: dict[str, tuple[str, str]] = {}  # by this compilation: name -> (feed, columns)

    def use(self, functions: UserFunctions) -> None:
        """The functions of users that views may call from now on."""
        if functions is not self.catalyst.functions:
            functions.register(self.spark)
            self.catalyst.functions = functions
            self._admitted, self._lowered = {}, {}

    def compile(
        self, tables: Mapping[str, Relation], definitions: Iterable[ViewDefinition], known: Mapping[str, ViewRecord]
    ) -> Compilation:
        """``known``: the versions in the catalogue; a view whose fingerprint is new becomes the next version."""
        self._registered.clear()
        wanted = {d.name: d for d in definitions}
        names = [*tables, *wanted]
        admitted_before, self._admitted = self._admitted, {}
        lowered_before, self._lowered = self._lowered, {}
        admitted: dict[str, Admitted] = {}
        refused: dict[str, HeadraceError] = {}
        for name, definition in wanted.items():
            try:
                if name in tables:
                    raise HeadraceError("sql.refused", f"view {name} has the name of a table", where=where(definition))
                taken = admitted_before.get((definition.sql, *names))
                admitted[name] = taken or admit(self.catalyst, definition.sql, names, where(definition))
                self._admitted[definition.sql, *names] = admitted[name]
            except HeadraceError as error:
                refused[name] = error
            except Exception as error:
                refused[name] = self.fault(error, definition)
        views: dict[str, Compiled] = {}
        used: set[str] = set()
        keys: dict[str, tuple[str, ...]] = {n: r.key for n, r in tables.items()}
        columns: dict[str, tuple[str, ...]] = {n: r.names for n, r in tables.items()}
        appended = {n for n, r in tables.items() if r.append_only}
        for name in ordered(admitted, wanted, refused):
            broken = [r for r in admitted[name].relations if r in refused]
            if broken:
                refused[name] = HeadraceError(
                    "sql.analysis", f"view {name} reads {broken[0]}, which is refused", where=where(wanted[name])
                )
                continue
            try:
                reads = [(r, *feed_and_columns(r, tables, views)) for r in admitted[name].relations]
                same = (
                    wanted[name].sql,
                    wanted[name].on_error == "set_aside" and name,
                    *((r, feed, shown, keys[feed], feed in appended) for r, feed, shown in reads),
                )
                lowered = lowered_before.get(same) or self.lowered(wanted[name], reads, keys, columns, appended)
                self._lowered[same] = lowered
            except HeadraceError as error:
                refused[name] = error
                continue
            except Exception as error:
                refused[name] = self.fault(error, wanted[name])
                continue
            compiled = views[name] = self.versioned(wanted[name], admitted[name], lowered, known.get(name))
            keys[compiled.feed], columns[compiled.feed] = compiled.schema.key, compiled.schema.names
            appended |= {compiled.feed} if only_comes(compiled.root, appended) else set()
            used |= {r for r in compiled.reads if r in tables}
        told = {name: advised(error, wanted[name]) for name, error in refused.items()}
        absent = {name: error.name for name, error in refused.items() if isinstance(error, UnknownRelation)}
        return Compilation(views, told, frozenset(used), absent)

    def lowered(
        self, definition: ViewDefinition, reads: Iterable[tuple[str, str, tuple[Column, ...]]],
        keys: Mapping[str, tuple[str, ...]], columns: Mapping[str, tuple[str, ...]], appended: Set[str],
    ) -> Lowered:  # fmt: skip
        """``reads``: name, feed and columns of each relation that the text names;
        ``appended``: feeds that only grow.
        """
        for relation in reads:
            self.register(*relation)
        plan_of_text = self.optimized(definition)
        plan = canonical(self.catalyst, plan_of_text, for_batch=False, collations=named_in(definition.sql))
        try:
            root = lower(self.catalyst, plan)
            root = with_less_kept(leaving_out(root, definition), appended)
            check_cost(root, definition)
            check_types(root)
        except HeadraceError as error:
            raise HeadraceError(
                error.code, error.what, where=where(definition), why=error.why, next=error.next
            ) from error
        outputs = output_types(self.catalyst, plan_of_text)
        _check_names([name for name, _, _ in outputs], definition)
        result = tuple(Column(name, root.types[i], root.nullables[i]) for i, (name, _, _) in enumerate(outputs))
        unique = unique_columns(root, keys, columns)
        return Lowered(root, result, tuple(result[i].name for i in unique) if unique else (), lineage(root))

    def fault(self, error: Exception, definition: ViewDefinition) -> HeadraceError:
        """The refusal of the one view whose text the code does not expect; raises what no text is to blame for."""
        if isinstance(error, OSError | MemoryError):
            raise error
        if gone := lost_spark(self.spark, error):
            raise gone from error
        said = str(error).split("\n", 1)[0]
        return HeadraceError(
            "internal", f"view {definition.name} could not be compiled: {type(error).__name__}: {said}",
            where=where(definition), why="this is a fault in Headrace, not in your project",
            next="write the view in another way, and report this one with its text; the other views are maintained",
        )  # fmt: skip

    def versioned(
        self, definition: ViewDefinition, admitted: Admitted, lowered: Lowered, known: ViewRecord | None
    ) -> Compiled:
        """A view as the version that the catalogue knows it by, or the next one."""
        version, fingerprint = 1, f"{lowered.root.fingerprint}.{self.computed_by}"
        if known is not None:
            same = known.fingerprint == fingerprint and known.schema.names == tuple(c.name for c in lowered.columns)
            version = known.schema.version if same else known.schema.version + 1
        order = tuple(spelled(o.column, o.descending, o.nulls_last) for o in admitted.order)
        schema = ViewSchema(definition.name, version, lowered.columns, lowered.key, order)
        return Compiled(
            definition, schema, lowered.root, admitted.relations, fingerprint, admitted.functions, lowered.lineage
        )

    def optimized(self, definition: ViewDefinition) -> Any:
        try:
            frame = self.spark.sql(definition.sql)
            check_analyzed(self.catalyst, frame._jdf.queryExecution().analyzed(), where(definition))
            return optimized(self.catalyst, frame, self.present)
        except HeadraceError:
            raise
        except Exception as error:
            raise analysis_error(error, where(definition)) from error

    def present(self) -> Any:
        """The present time in a view: the value of the clock's relation."""
        if not self.clocked:
            self.register(CLOCK.name, CLOCK.name, CLOCK.columns)
            self.clocked = True
        return last_tick(self.catalyst)

    def register(self, name: str, feed: str, columns: Iterable[Column]) -> None:
        """A temporary view whose contents the optimizer cannot see, recognised later by its function's name."""

        def opaque(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches

        columns = tuple(columns)
        ddl = ", ".join(f"{quote(c.name)} {c.type}{'' if c.nullable else ' not null'}" for c in columns)
        if self._registered.get(name) == (feed, ddl):
            return  # for another view, a while ago: planning it again costs more than admitting a small query
        self._registered[name] = feed, ddl
        opaque.__name__ = LEAF_PREFIX + feed
        self._leaf(opaque, ddl, columns).createOrReplaceTempView(quote(name))

    def _leaf(self, opaque: Any, ddl: str, columns: tuple[Column, ...]) -> DataFrame:
        one = self.spark.range(0, 1, 1, 1)
        if not any(has_months(c.type) for c in columns):
            return one.mapInArrow(opaque, ddl)
        # Spark does not let such a type come out of Python, even where nothing ever does.
        handed = (f"{quote(c.name)} {handed_type(c.type)}{'' if c.nullable else ' not null'}" for c in columns)
        return taken_back(one.mapInArrow(opaque, ", ".join(handed)), tuple((c.name, c.type) for c in columns))


def feed_and_columns(
    name: str, tables: Mapping[str, Relation], views: Mapping[str, Compiled]
) -> tuple[str, tuple[Column, ...]]:
    """The feed of a table or view, with its columns."""
    return (name, tables[name].columns) if name in tables else (views[name].feed, views[name].schema.columns)


def columns(tables: Mapping[str, Relation], views: Iterable[Compiled]) -> dict[str, tuple[str, ...]]:
    """Column names of every feed that a view may read."""
    return {**{n: r.names for n, r in tables.items()}, **{c.feed: c.schema.names for c in views}}


def leaving_out(root: Node, definition: ViewDefinition) -> Node:
    """Over leaves that leave out the rows on which the SQL throws, where the view says so."""
    if definition.on_error not in ON_ERROR:
        raise HeadraceError(
            "config.invalid", f"on_error: '{definition.on_error}' is not known",
            next=f"one of {', '.join(ON_ERROR)}, in a line `-- on_error: set_aside` that the view begins with",
        )  # fmt: skip

    def wrapped(node: Node) -> Node:
        if isinstance(node, Feed) and node.relation != CLOCK.name and not node.relation.startswith((PREVIOUS, LOOP)):
            return replace(node, without=f"{definition.name}:{node.relation.split('@')[0]}")
        return with_children(node, [wrapped(child) for child in node.children])

    return wrapped(root) if definition.on_error == "set_aside" else root


def check_cost(root: Node, definition: ViewDefinition) -> None:
    """Refuse what every change would recompute over the whole input, unless the view says that it may."""
    if not definition.recomputes and any(isinstance(n, Window) and not n.keys for n in root.walk()):
        raise refuse(
            "this window without PARTITION BY", "each change would recompute it over the whole input",
            "add PARTITION BY, or accept the cost: begin the view with the line `-- on_change: recompute`",
        )  # fmt: skip
    if not definition.recomputes and any(scans_at_ticks(n) for n in root.walk()):
        raise refuse(
            "this condition on the clock", "each tick would test it on all rows of its input",
            "compare a value of the row alone with the clock, `ts > now() - INTERVAL 1 HOUR`, and join such "
            "comparisons by AND; or accept the cost: begin the view with the line `-- on_change: recompute`",
        )  # fmt: skip


def check_types(root: Node) -> None:
    """Refuse columns whose values cannot be handed from one step to the next."""
    for type_text in {t for n in root.walk() for t in n.types}:
        try:
            to_arrow(type_text)
        except HeadraceError as error:
            raise refuse(
                f"a column of type {type_text}", "its values are not kept from one step to the next",
                "make it text or a number in the query that computes it, as CAST(... AS STRING)",
            ) from error  # fmt: skip


def scans_at_ticks(node: Node) -> bool:
    """Whether an operator looks at all of its input when the clock moves."""
    if not isinstance(node, Join) or node.left_keys:
        return False
    return any(isinstance(n, Feed) and n.relation == CLOCK.name for n in clocks(node.right))


def clocks(node: Node) -> Iterator[Node]:
    """A value's nodes down to the clock, where it is one of the clock's or made of such."""
    yield node
    if isinstance(node, Project | Single) or (isinstance(node, Join) and has_one_row(node)):
        for child in node.children:
            yield from clocks(child)


def spelled(column: str, descending: bool, nulls_last: bool) -> str:
    """One column of a presentation order as SQL spells it; ``headrace.cli.contents`` reads it."""
    return f"{column} {'desc' if descending else 'asc'} nulls {'last' if nulls_last else 'first'}"


def where(definition: ViewDefinition) -> str:
    """``views/NAME.sql``, as seen from the project's folder."""
    path = definition.path
    return f"{path.parent.name}/{path.name}" if path else f"view {definition.name}"


def advised(error: HeadraceError, definition: ViewDefinition) -> HeadraceError:
    """The error with a next step, whoever raised it."""
    hint = f"edit {where(definition)}, then look again with `headrace plan`"
    return HeadraceError(error.code, error.what, where=error.where, why=error.why, next=error.next or hint)


def ordered(
    admitted: Mapping[str, Admitted], wanted: Mapping[str, ViewDefinition], refused: dict[str, HeadraceError]
) -> list[str]:
    """Views after the views they read; those in a circle go to ``refused``."""
    done: list[str] = []
    placed = set(refused)
    pending = list(admitted)
    while pending:
        ready = [n for n in pending if all(r not in wanted or r in placed for r in admitted[n].relations)]
        if not ready:
            circle = ", ".join(sorted(pending))
            for name in pending:
                refused[name] = HeadraceError(
                    "view.cycle", f"views read each other in a circle: {circle}", where=where(wanted[name])
                )
            return done
        done += ready
        placed |= set(ready)
        pending = [n for n in pending if n not in placed]
    return done


def _check_names(names: list[str], definition: ViewDefinition) -> None:
    lower_names = [n.lower() for n in names]
    for name in names:
        if lower_names.count(name.lower()) > 1:
            raise HeadraceError(
                "sql.refused", f"two columns of the result are named '{name}'", where=where(definition),
                next="give one of them another name with AS",
            )  # fmt: skip
        if name.startswith("_"):
            raise HeadraceError(
                "sql.refused", f"the column name '{name}' begins with an underscore", where=where(definition),
                why="such names are Headrace's own (_w, _row, ...)", next="give it another name with AS",
            )  # fmt: skip


def unique_columns(
    node: Node, keys: Mapping[str, tuple[str, ...]], columns: Mapping[str, tuple[str, ...]]
) -> tuple[int, ...] | None:
    """Ordinals of output columns that are unique together, as far as the plan shows it; None otherwise."""
    if isinstance(node, Feed):
        names = [columns[node.relation][o] for o in node.ordinals] if node.relation in columns else []
        key = keys.get(node.relation, ())
        return tuple(names.index(k) for k in key) if key and all(k in names for k in key) else None
    if isinstance(node, Filter | Limit | Window | Running | TopK):
        return unique_columns(node.child, keys, columns)
    if isinstance(node, AsOf) and isinstance(node.child, Union):  # of the left, then of the right
        left = unique_columns(node.child.inputs[0], keys, columns)
        return tuple(map(node.lefts.index, left)) if left is not None and set(left) <= set(node.lefts) else None
    if isinstance(node, Threshold):
        return unique_columns(node.left, keys, columns)
    if isinstance(node, Project):
        return _through([e.text for e in node.expressions], "c", unique_columns(node.child, keys, columns))
    if isinstance(node, Aggregate):
        return _through([e.text for e in node.results], "g", tuple(range(len(node.keys))) or None)
    if isinstance(node, Regroup):
        texts = [e.text for e in node.results]
        found = [texts.index(k.text) if k.text in texts else -1 for k in node.keys]
        return tuple(found) if found and -1 not in found else None
    if isinstance(node, Join):
        return _join_key(node, unique_columns(node.left, keys, columns), unique_columns(node.right, keys, columns))
    return None


def _through(texts: list[str], letter: str, key: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if key is None:
        return None
    plain = {text.split(":")[0]: i for i, text in enumerate(texts)}
    found = [plain.get(f"'{letter}{k}", -1) for k in key]
    return None if -1 in found else tuple(found)


def _join_key(node: Join, left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> tuple[int, ...] | None:
    one = node.kind in ("inner", "left") and has_one_row(node.right)
    if one or node.kind in ("semi", "anti", "existence", "filter", "single"):
        return left  # each row of the left stands in the result once at most
    right_at = len(node.left.types)
    bound_right = {k.text.split(":")[0] for k in node.right_keys}
    bound_left = {k.text.split(":")[0] for k in node.left_keys}
    if left and right and node.kind != "full" and {f"'c{k}" for k in right} <= bound_right:
        return left  # each row of the left meets one row at most
    if left and right and node.kind == "inner" and {f"'c{k}" for k in left} <= bound_left:
        return tuple(right_at + k for k in right)
    return (*left, *(right_at + k for k in right)) if left and right else None
