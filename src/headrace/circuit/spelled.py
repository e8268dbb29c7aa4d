"""What a node does in the words of the query: its expressions over the columns' names instead of their positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from headrace.circuit import node
from headrace.circuit.levels import over
from headrace.circuit.node import PREVIOUS, Expression, Node, SortKey, with_children

SHOWN_MAX = 100  # characters of what an operator does
_TYPES = re.compile(r":(?:\w+:[^;]*;)*$")  # behind an expression's text: the types of its literals, digests
_CALLS = re.compile(r"(?<=\))#\d+|@[0-9a-f]{32}(?=\()")  # marks of calls of Python
_PLACE = re.compile(r"'([clrgv])(\d+)\b")
_OVER = re.compile(r"(\w+\((?:[^()]|\([^()]*\))*\)) windowspecdefinition")
Names = Sequence[str]


class Spelling:
    """``relations``: the column names of each feed. A column is named with the table or view that it comes from."""

    def __init__(self, relations: Mapping[str, Names]) -> None:
        self.relations = dict(relations)

    def columns(self, of: Node) -> Names:
        """A node's output columns: those of tables and views by name, others by what they are."""
        match of:
            case node.Feed():
                return [self._column(of.relation, i) for i in of.ordinals]
            case node.Project():
                return self._all(of.expressions, c=self.columns(of.child))
            case node.Generate():
                kept = [self.columns(of.child)[i] for i in of.required]
                return [*kept, *("element" if of.outputs == 1 else f"element.{i}" for i in range(of.outputs))]
            case node.Expand():
                places = zip(*of.projections, strict=True)  # a column, or NULL where it is not of the set
                child = self.columns(of.child)
                return [next((self._text(e, c=child) for e in p if e.text[0] == "'"), "grouping") for p in places]
            case node.Aggregate():
                child = self.columns(of.child)
                return self._all(of.results, g=self._all(of.keys, c=child), v=self._accumulations(of, child))
            case node.Regroup():
                return self._all(of.results, c=self.columns(of.child))
            case node.Window():
                return [*self.columns(of.child), *self._functions(of.functions, self.columns(of.child))]
            case node.Running():
                return [*self.columns(of.child), *self._running(of, self.columns(of.child))]
            case node.TopK():
                return [*self.columns(of.child), f"{of.function}()"]
            case node.AsOf():
                child = self.columns(of.child)
                return [child[i] for i in (*of.lefts, *of.rights)]
            case node.Join() if len(of.types) > len(self.columns(of.left)):
                right = self.columns(of.right) if of.kind != "existence" else ["exists"]
                return [*self.columns(of.left), *right]
            case node.Constant():
                return [f"constant.{i}" for i in range(len(of.types))]
            case node.Loop():
                return self.columns(of.anchor)
            case _:
                return self.columns(of.children[0])

    def detail(self, of: Node) -> str:
        """What the operator does to its input, in at most ``SHOWN_MAX`` characters."""
        text = self._detail(of)
        return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"

    def _detail(self, of: Node) -> str:
        child = self.columns(of.children[0]) if of.children else ()
        match of:
            case node.Feed():
                return f"{_shown(of.relation)}: {_list(n.rpartition('.')[2] for n in self.columns(of))}"
            case node.Project():
                return _list(self.columns(of))
            case node.Filter():
                return self._text(of.condition, c=child)
            case node.Generate():
                return self._text(of.generator, c=child)
            case node.Expand():
                return f"each row {len(of.projections)} times, once for each grouping"
            case node.Aggregate():
                return _by(self._all(of.keys, c=child)) + _list(self._accumulations(of, child))
            case node.Regroup():
                keys = self._all(of.keys, c=child)
                return _by(keys) + _list(r for r in self._all(of.results, c=child) if r not in keys)
            case node.Window():
                return _by(self._all(of.keys, c=child)) + _list(self._functions(of.functions, child))
            case node.Running():
                functions = _list(self._running(of, child))
                return f"{_by(self._all(of.keys, c=child))}{functions} in order of {self._order(of.order, child)}"
            case node.TopK():
                keys = _by(self._all(of.keys, c=child))
                return f"{keys}{of.function}() <= {of.most} in order of {self._order(of.order, child)}"
            case node.AsOf():
                return f"{_by(self._all(of.keys, c=child))}in order of {self._order(of.order, child)}"
            case node.Limit():
                rows = f"rows from {of.start + 1} on" if of.stop is None else f"rows {of.start + 1} to {of.stop}"
                return f"{rows} in order of {self._order(of.order, child)}"
            case node.Threshold():
                return f"{child[of.value]} {of.comparison} {self.columns(of.right)[0]}"
            case node.Join():
                condition = self._text(of.condition, l=child, r=self.columns(of.right))
                return "" if condition == "true" else condition
        return ""

    def _column(self, relation: str, ordinal: int) -> str:
        names = self.relations.get(relation, ())
        return f"{_shown(relation)}.{names[ordinal] if ordinal < len(names) else ordinal}"

    def told_apart(self, of: Node) -> Node:
        """The same query, in which each recursive query reads a level before of its own, with its anchor's columns."""
        if not isinstance(of, node.Loop):
            return with_children(of, [self.told_apart(child) for child in of.children])
        anchor, relation = self.told_apart(of.anchor), f"{PREVIOUS}{of.fingerprint}"
        self.relations[relation] = [name.rpartition(".")[2] for name in self.columns(anchor)]
        return with_children(of, [anchor, self.told_apart(over(of.body, relation))])

    def _accumulations(self, of: node.Aggregate, child: Names) -> Names:
        return [self._accumulation(a, child) for a in of.accumulations]

    def _accumulation(self, of: node.Accumulation, child: Names) -> str:
        given = _list(self._all(of.arguments, c=child)) or "*"
        return f"{of.function}({'distinct ' if of.distinct else ''}{given})"

    def _running(self, of: node.Running, child: Names) -> Names:
        grown = [self._accumulation(g.accumulation, child) if g.accumulation else g.text for g in of.growing]
        return [*grown, *self._functions(of.functions, child)]

    def _functions(self, functions: Iterable[Expression], child: Names) -> Names:
        """Window functions without the window, which is told once."""
        texts = self._all(functions, c=child)
        return [_list(dict.fromkeys(_OVER.findall(text))) or text for text in texts]

    def _order(self, order: Iterable[SortKey], child: Names) -> str:
        return _list(self._text(k.expression, c=child) + (" desc" if k.descending else "") for k in order)

    def _all(self, expressions: Iterable[Expression], **names: Names) -> Names:
        return [self._text(e, **names) for e in expressions]

    def _text(self, expression: Expression, **names: Names) -> str:
        """``names``: by the letter of a position, ``c`` and, in a join, ``l`` and ``r``."""

        def name(place: re.Match[str]) -> str:
            known = names.get(place[1], ())
            number = int(place[2])
            return known[number] if number < len(known) else place[0]

        return _bare(_PLACE.sub(name, _CALLS.sub("", _TYPES.sub("", expression.text))))


def _bare(text: str) -> str:
    """Without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1]


def _shown(relation: str) -> str:
    """A feed as the query names it: a view without its version, the product's own without its mark."""
    if relation.startswith(PREVIOUS):
        return "level before"
    return relation.partition("@")[0].rpartition(":")[2]


def _by(keys: Names) -> str:
    return f"by {_list(keys)}: " if keys else ""


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts)
