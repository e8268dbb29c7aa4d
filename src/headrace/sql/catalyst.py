"""Catalyst from Python: sequences, expressions rebound by position, types as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column

from headrace.circuit.node import Expression
from headrace.model.errors import HeadraceError
from headrace.sql.java_names import class_name, type_text
from headrace.sql.local import local
from headrace.sql.user_functions import NONE, UserFunctions


class Catalyst:
    """The JVM classes that lowering needs, looked up once. Bound to one session.

    ``functions``: those of users, which the session has been told of.
    """

    def __init__(self, spark: SparkSession, functions: UserFunctions = NONE) -> None:
        self.spark = spark
        self.functions = functions
        self.jvm: Any = spark.sparkContext._jvm
        catalyst = self.jvm.org.apache.spark.sql.catalyst
        self.expressions = catalyst.expressions
        self.logical = catalyst.plans.logical
        self.unresolved = catalyst.analysis.UnresolvedAttribute
        self._list: Any = self.jvm.java.util.ArrayList  # once: every part of a class's name is a call over the bridge
        self.converters = self.jvm.scala.jdk.javaapi.CollectionConverters
        self._reads, self._decides = set[str](), set[str]()  # positions that the expression under way has named
        self.to_column: Any = self.jvm.org.apache.spark.sql.classic.ExpressionUtils.column

    def seq(self, values: list[Any]) -> Any:
        """A Scala ``Seq`` of JVM objects."""
        array = self._list()
        for value in values:
            array.add(value)
        return self.converters.asScala(array).toSeq()

    def items(self, seq: Any) -> list[Any]:
        """A Scala collection as a Python list."""
        # By index: iterating ends in a Java exception, which costs a hundred calls over the bridge to convert.
        return [seq.apply(i) for i in range(seq.size())]

    def attribute(self, name: str) -> Any:
        self._reads.add(name)
        return self.unresolved(self.seq([name]))

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """What is bound inside only decides which rows go into an expression."""
        reads, self._reads = self._reads, self._decides
        yield
        self._reads = reads

    def rebind(
        self, expression: Any, names: Mapping[int, str], replace: Callable[[Any], Any | None] | None = None
    ) -> Any:
        """The expression with each attribute replaced by its positional name; ``replace`` may take a sub-tree first."""
        if replace is not None:
            taken = replace(expression)
            if taken is not None:
                return taken
        kind = class_name(expression)
        if kind == "AttributeReference":
            return self.attribute(names[expression.exprId().id()])
        if kind == "Alias":
            return self.rebind(expression.child(), names, replace)
        if kind == "ScalarSubquery":
            raise HeadraceError(
                "sql.not_incremental", "a subquery used as a value cannot be maintained incrementally in this place",
                next="use it in WHERE, or in the SELECT list of a view that this one reads",
            )  # fmt: skip
        children = self.items(expression.children())
        if not children:
            return expression
        if kind in RANKS:  # their constructors look at their children's types; analysis gives them the order again
            return getattr(self.expressions, kind)(self.seq([]))
        return expression.withNewChildren(self.seq([self.rebind(child, names, replace) for child in children]))

    def expression(
        self,
        expression: Any,
        names: Mapping[int, str],
        replace: Callable[[Any], Any | None] | None = None,
        suffix: str = "",
    ) -> Expression:
        """A rebound expression as a value that nodes hold."""
        around, (self._reads, self._decides) = (self._reads, self._decides), (set(), set())
        rebound = self.rebind(expression, names, replace)
        (reads, decides), (self._reads, self._decides) = (self._reads, self._decides), around
        return Expression(
            Column(self.to_column(rebound)),
            self._text(rebound) + suffix,
            type_text(expression),
            bool(expression.nullable()),
            local(self, expression, names, replace),
            frozenset(reads),
            frozenset(decides),
        )

    def text(self, expression: Any, names: Mapping[int, str]) -> str:
        """What tells an expression from others; see ``Expression``."""
        return self._text(self.rebind(expression, names))

    def _text(self, rebound: Any) -> str:
        told = literals(self, rebound)
        return renumbered(f"{rebound.toString()}:{told}{shape(self, rebound) if QUOTED in told else ''}")


RANKS = frozenset({"Rank", "DenseRank", "PercentRank"})
_NUMBERS = re.compile(r"#\d+")


def renumbered(text: str) -> str:
    """Expression ids inside (lambda variables) in order of appearance: they are new at every planning."""
    seen: dict[str, str] = {}
    return _NUMBERS.sub(lambda m: seen.setdefault(m[0], f"#{len(seen)}"), text)


def singleton(scala_class: Any, name: str) -> Any:
    """A Scala object, by the package or class that holds it."""
    return getattr(getattr(scala_class, name + "$"), "MODULE$")


QUOTED = "\\'"  # stands in the text of an expression with a literal that could read as a column
_PATTERNS = frozenset({"LikeAll", "NotLikeAll", "LikeAny", "NotLikeAny"})
_MODES = frozenset({"Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod"})
_STRICT = frozenset({"GetArrayItem", "ElementAt", "UnaryMinus", "Abs"})  # may or may not throw


def literals(catalyst: Catalyst, expression: Any) -> str:
    """What ``toString`` leaves out and equality needs: types of literals, values and patterns that are no literals,
    whether an operation throws, which code a user's function has."""
    kind = class_name(expression)
    own = ""
    if kind == "Literal":
        own = f"{kind}:{expression.dataType().sql()};"
        if "'" in str(expression.value()):
            own += expression.sql()
    elif kind == "InSet":
        own = f"{kind}:{sorted(map(str, catalyst.items(expression.hset().toSeq())))};"
    elif kind in _PATTERNS:
        own = f"{kind}:{[str(pattern) for pattern in catalyst.items(expression.patterns().toSeq())]};"
    elif kind in _MODES and (mode := str(expression.evalMode())) != "ANSI":
        own = f"{kind}:{mode};"
    elif kind in _STRICT and not expression.failOnError():
        own = f"{kind}:NULL;"
    elif kind == "PythonUDF" and (digest := catalyst.functions.digest(str(expression.name()))):
        own = f"{kind}:{digest};"
    return own + "".join(literals(catalyst, child) for child in catalyst.items(expression.children()))


def shape(catalyst: Catalyst, expression: Any) -> str:
    """Which place of an expression has which literal, or column."""
    children = catalyst.items(expression.children())
    if not children:
        return str(expression.sql() if class_name(expression) == "Literal" else expression.toString())
    return f"({','.join(shape(catalyst, child) for child in children)})"
