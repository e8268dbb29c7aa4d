"""Windows in which the answer depends on how rows that tie in ORDER BY happen to lie, rewritten so that it does not.

The *total* order is the user's order, then every other column of the input, ascending. Functions that see single
rows (row_number, lag, ROWS frames) get the total order. Functions of peers (rank, RANGE frames) keep the user's; where
such a frame is asked for its first or n-th row, the row's number in the total order decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.sql.build import Build
from headrace.sql.canonical_aggregate import Aggregates
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.aggregate_functions import adds_up
from headrace.sql.lowering.per_place import is_of_partition, is_of_place
from headrace.sql.lowering.running import grows, takes
from headrace.sql.total_order import total
from headrace.sql.tree import Tree

PEERS = ("Rank", "DenseRank", "PercentRank", "CumeDist")
SEQUENCES = ("First", "Last", "NthValue", "CollectList")


@dataclass(slots=True)
class _Parts:
    """What becomes of one Window node: two nodes, and the columns made of theirs."""

    total: list[Any] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)
    finished: dict[int, Any] = field(default_factory=dict)
    number: Any = None  # the row's number in the total order, once some frame needs it
    changed: bool = False


class Windows:
    """The rewriting of Window nodes. Bound to one session."""

    def __init__(self, build: Build, tree: Tree, aggregates: Aggregates, for_batch: bool) -> None:
        self.build, self.tree, self.aggregates, self.for_batch = build, tree, aggregates, for_batch
        self.catalyst, self.expressions = build.catalyst, build.expressions

    def unordered(self, plan: Any) -> bool:
        """Whether the node is a window whose order is that in which its rows come."""
        return class_name(plan) == "Window" and bool(plan.orderSpec().isEmpty())

    def rewrite(self, plan: Any) -> Any:
        """The node itself if nothing is open, else one or two Window nodes under a Project with the same output."""
        partition = self.catalyst.items(plan.partitionSpec())
        child, given = self.sorted_below(plan.child()) if self.unordered(plan) else (plan.child(), [])
        order = self.catalyst.items(plan.orderSpec())
        # Spark lists a correlated subquery's outer key here too, which is the child's column already.
        listed = self.catalyst.items(plan.windowExpressions())
        entries = [e for e in listed if class_name(e) == "Alias"]
        parts = _Parts(changed=len(entries) < len(listed))
        for entry in entries:
            self.entry(entry, parts)
        if not parts.changed and not parts.total and not given and len({*map(self.way, entries)}) == 1:
            return plan
        node = child
        if parts.total:
            # Rows that differ in nothing, or in nothing but their partition, lie in any order.
            alike = partition[0] if partition else self.build.literal(1)
            whole = total(self.build, node, partition, order or given) or [self.build.ascending(alike)]
            node = self.windows(plan, node, partition, whole, parts.total)
        if parts.peers:
            node = self.windows(plan, node, partition, order, parts.peers)
        attributes = self.catalyst.items(plan.child().output())
        made = [parts.finished.get(e.exprId().id()) or e.toAttribute() for e in entries]
        return self.catalyst.logical.Project(self.catalyst.seq(attributes + made), node)

    def sorted_below(self, plan: Any) -> tuple[Any, list[Any]]:
        """(the plan without the Sort that its rows come from, that order).

        So a correlated subquery with ORDER BY and LIMIT arrives: its columns are chosen between the Sort and a window
        that has no order of its own. The columns of the order are carried on.
        """
        between, node = [], plan
        while class_name(node) in ("Project", "SubqueryAlias"):
            between.append(node)
            node = node.child()
        if class_name(node) != "Sort":
            return plan, []
        order, node = self.catalyst.items(node.order()), node.child()
        used = [a for o in order for a in self.attributes(o)]
        for project in reversed([n for n in between if class_name(n) == "Project"]):
            entries = self.catalyst.items(project.projectList())
            known = {e.exprId().id() for e in entries}
            for attribute in used:
                if attribute.exprId().id() not in known:
                    known.add(attribute.exprId().id())
                    entries.append(attribute)
            node = self.catalyst.logical.Project(self.catalyst.seq(entries), node)
        return node, order

    def attributes(self, expression: Any) -> list[Any]:
        if class_name(expression) == "AttributeReference":
            return [expression]
        return [a for child in self.catalyst.items(expression.children()) for a in self.attributes(child)]

    def windows(self, plan: Any, child: Any, partition: list[Any], order: list[Any], entries: list[Any]) -> Any:
        """One node for each way in which some of the entries are maintained."""
        by_way: dict[str, list[Any]] = {}
        for entry in entries:
            by_way.setdefault(self.way(entry), []).append(entry)
        for _, some in sorted(by_way.items()):
            child = self.window(plan, child, partition, order, some)
        return child

    def way(self, entry: Any) -> str:
        if self.for_batch:
            return "in batch"
        if takes(self.catalyst, entry):
            return "by the order"
        if is_of_place(self.catalyst, entry):
            return "by their places"
        return "of their partitions" if is_of_partition(self.catalyst, entry) else "recomputed"

    def window(self, plan: Any, child: Any, partition: list[Any], order: list[Any], entries: list[Any]) -> Any:
        seq = self.catalyst.seq
        placed = []
        for entry in entries:
            expression = entry.child()
            frame = expression.windowSpec().frameSpecification()
            spec = self.expressions.WindowSpecDefinition(seq(partition), seq(order), frame)
            new = self.expressions.WindowExpression(expression.windowFunction(), spec)
            placed.append(entry.withNewChildren(seq([new])))
        return self.catalyst.logical.Window(seq(placed), seq(partition), seq(order), child, plan.hint())

    def entry(self, entry: Any, parts: _Parts) -> None:
        expression = entry.child()
        function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
        rows, whole = class_name(frame.frameType()) == "RowFrame", self.is_whole(frame)
        inner = function.aggregateFunction() if class_name(function) == "AggregateExpression" else function
        if class_name(inner) in PEERS:
            parts.peers.append(entry)
        elif class_name(inner) == "ListAgg" and not expression.windowSpec().orderSpec().isEmpty():
            self.listed(entry, function, parts)
        elif class_name(inner) in SEQUENCES and not rows and not whole:
            self.range_sequence(entry, inner, parts)
        elif class_name(inner) in SEQUENCES:
            parts.total.append(self.framed(entry, function, self.row_frame() if whole else frame))
        elif class_name(function) == "AggregateExpression":
            self.aggregate(entry, function, parts.total if rows and not whole else parts.peers, parts)
        else:
            parts.total.append(entry)

    def listed(self, entry: Any, function: Any, parts: _Parts) -> None:
        """The texts of a frame in the window's order, by their list: Spark gives LISTAGG there no other order."""
        listed, old = function.aggregateFunction(), entry.child().windowSpec()
        made = self.aggregates.made.CollectList(listed.child()).toAggregateExpression(False, function.filter())
        collected = self.build.alias(self.expressions.WindowExpression(made, old), "listed")
        self.entry(collected, parts)
        known = parts.finished.pop(collected.exprId().id(), None)
        texts = collected.toAttribute() if known is None else known.child()
        parts.changed = True
        joined = self.aggregates.joined(texts, listed)
        parts.finished[entry.exprId().id()] = entry.withNewChildren(self.catalyst.seq([joined]))

    def aggregate(self, entry: Any, function: Any, group: list[Any], parts: _Parts) -> None:
        """An aggregate over the set of a frame's rows, each of its parts in a window of its own."""
        by_order = not self.for_batch and takes(self.catalyst, entry) and grows(self.catalyst, entry.child())
        if by_order and adds_up(self.catalyst, function):
            group.append(entry)
            return
        # A sum of integers stays one: that it overflows on the way is left to Spark here.
        integral = type_text(function.aggregateFunction()) == "bigint"
        grouped = not self.for_batch and is_of_partition(self.catalyst, entry)
        replaced = self.aggregates.replace(function, exact=not integral and not grouped)
        if replaced is function:
            group.append(entry)
            return
        frame = entry.child().windowSpec().frameSpecification()
        self.finish(entry, replaced, frame, group, parts)

    def finish(self, entry: Any, replaced: Any, frame: Any, group: list[Any], parts: _Parts) -> None:
        def windowed(expression: Any) -> Any:
            if class_name(expression) != "AggregateExpression":
                return expression
            inner = self.build.alias(self.framed(entry, expression, frame).child(), "part")
            group.append(inner)
            return inner.toAttribute()

        parts.changed = True
        result = self.tree.transformed(replaced, windowed)
        parts.finished[entry.exprId().id()] = entry.withNewChildren(self.catalyst.seq([result]))

    def range_sequence(self, entry: Any, function: Any, parts: _Parts) -> None:
        """The first, last, n-th or all rows of a RANGE frame, told apart by their number in the total order."""
        frame = entry.child().windowSpec().frameSpecification()
        kind = class_name(function)
        shortcut = self.shortcut(function, frame)
        if shortcut is not None:
            parts.total.append(self.framed(entry, entry.child().windowFunction(), shortcut))
            return
        if parts.number is None:
            number = self.framed(entry, self.expressions.RowNumber(), self.row_frame(upper="CurrentRow"))
            parts.number = self.build.alias(number.child(), "number")
            parts.total.append(parts.number)
        value = self.catalyst.items(function.children())[0]
        pair = self.build.struct(n=parts.number.toAttribute(), v=value)
        if function.ignoreNulls():
            pair = self.build.present(value, pair)
        made = self.aggregates.made
        if kind in ("First", "Last"):
            self.build.orderable(value, function.prettyName())
            least = made.Min(pair) if kind == "First" else made.Max(pair)
            result = self.build.field(self.over(least, entry), 1)
        else:
            self.build.orderable(value, function.prettyName())
            rows = self.expressions.SortArray(self.over(made.CollectList(pair), entry))
            result = self.values(rows) if kind == "CollectList" else self.nth(rows, function)
        self.finish(entry, result, frame, parts.peers, parts)

    def over(self, function: Any, entry: Any) -> Any:
        given = entry.child().windowFunction()
        chosen = given.filter() if class_name(given) == "AggregateExpression" else self.build.none()
        return function.toAggregateExpression(False, chosen)

    def values(self, rows: Any) -> Any:
        element = rows.dataType().elementType()
        return self.expressions.GetArrayStructFields(rows, element.fields()[1], 1, 2, False)

    def nth(self, rows: Any, function: Any) -> Any:
        offset = self.expressions.Subtract(function.offset(), self.build.literal(1))
        return self.build.field(self.expressions.GetArrayItem(rows, offset, False), 1)

    def shortcut(self, function: Any, frame: Any) -> Any | None:
        """A ROWS frame that begins (or ends) with the same row, when nothing but that row is asked for."""
        kind, lower, upper = class_name(function), class_name(frame.lower()), class_name(frame.upper())
        if kind not in ("First", "Last") or function.ignoreNulls():
            return None
        if kind == "First" and lower == "UnboundedPreceding" and upper == "CurrentRow":
            return self.row_frame(upper="CurrentRow")
        if kind == "Last" and lower == "CurrentRow" and upper == "UnboundedFollowing":
            return self.row_frame(lower="CurrentRow")
        return None

    def row_frame(self, lower: str = "UnboundedPreceding", upper: str = "UnboundedFollowing") -> Any:
        single = self.build.single
        return self.expressions.SpecifiedWindowFrame(single("RowFrame"), single(lower), single(upper))

    def is_whole(self, frame: Any) -> bool:
        return (class_name(frame.lower()), class_name(frame.upper())) == ("UnboundedPreceding", "UnboundedFollowing")

    def framed(self, entry: Any, function: Any, frame: Any) -> Any:
        """The entry with another function or frame; partition and order are put in with the node's."""
        old = entry.child().windowSpec()
        spec = self.expressions.WindowSpecDefinition(old.partitionSpec(), old.orderSpec(), frame)
        return entry.withNewChildren(self.catalyst.seq([self.expressions.WindowExpression(function, spec)]))
