"""Functions that users wrote in Python: what is taken for one, and how a session of Spark is told of it.

Spark runs them, in the circuit as in batch. They are deterministic by declaration: nothing can check that.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
import sysconfig
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.errors import ParseException
from pyspark.sql import functions as F
from pyspark.util import PythonEvalType

from headrace.model.errors import HeadraceError
from headrace.model.function import Function
from headrace.sql.functions import verdicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALAR = frozenset({
    PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF,
    PythonEvalType.SQL_SCALAR_PANDAS_UDF, PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF,
    PythonEvalType.SQL_SCALAR_ARROW_UDF, PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF,
})  # fmt: skip
GROUPED = frozenset({PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF, PythonEvalType.SQL_GROUPED_AGG_ARROW_UDF})
RESULTS: dict[Any, str] = {
    int: "bigint", float: "double", str: "string", bool: "boolean", bytes: "binary", datetime.date: "date",
    datetime.datetime: "timestamp",
}  # fmt: skip
TYPES = 'say it as Spark SQL does: @function(returns="decimal(10,2)")'
FORMS = "a function with `@headrace.function(returns=...)`, or one that pyspark's udf, pandas_udf or arrow_udf made"


@dataclass(frozen=True, slots=True)
class UserFunction:
    """``digest`` changes whenever the function may give another value."""

    name: str
    made: Any
    digest: str


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """Functions by their lower-case names. ``withheld``: name -> file of those that are not allowed to run."""

    known: Mapping[str, UserFunction] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, functions: Iterable[UserFunction]) -> UserFunctions:
        """Raises ``HeadraceError`` (function.invalid) for a name that stands twice."""
        known: dict[str, UserFunction] = {}
        for function in functions:
            if function.name.lower() in known:
                raise invalid(function.name, "the name stands twice", "names in SQL do not tell upper from lower case")
            known[function.name.lower()] = function
        return cls(known)

    def register(self, spark: SparkSession) -> None:
        """Tell a session of them."""
        for function in self.known.values():
            with whole(function.made.func):
                spark.udf.register(function.name, function.made)

    def digest(self, name: str) -> str:
        """What tells the function from earlier ones of its name; nothing for a function of another kind."""
        function = self.known.get(name.lower())
        return function.digest if function is not None else ""


NONE = UserFunctions()


def user_function(name: str, given: Any, digest: str | None = None, where: str = "") -> UserFunction:
    """A function of that name. ``given``: what ``headrace.function`` or pyspark's ``udf``, ``pandas_udf`` or
    ``arrow_udf`` made, or a Python function whose annotations tell the type of its result.

    ``digest``: by default one of its code and all that it refers to. Raises ``HeadraceError`` (function.invalid).
    """
    if name.lower() in verdicts():
        raise invalid(name, "Spark has a function of that name", where=where, next="give it another name")
    made = given if _made_by_spark(given) else _declared(name, given, where)
    if not made.deterministic:
        raise invalid(
            name, "it is declared nondeterministic", "a row that leaves a view must have the value it came with",
            where, "leave out asNondeterministic() if the same arguments always give the same value",
        )  # fmt: skip
    if made.evalType not in SCALAR | GROUPED:
        raise invalid(
            name, "it is neither a function of single rows nor one of groups",
            f"it is of Spark's kind {made.evalType}", where, FORMS,
        )  # fmt: skip
    return UserFunction(name, made, digest or _digest(name, made, where))


def _digest(name: str, made: Any, where: str) -> str:
    """Of all that is sent to a worker; refuses what cannot be sent."""
    try:
        with whole(made.func):
            sent = cloudpickle.dumps((made.func, made.returnType.simpleString(), made.evalType))
    except Exception as error:
        raise invalid(
            name, f"it cannot be sent to Spark's workers: {error}", "it refers to something of this process alone",
            where, "make that inside the function",
        ) from error  # fmt: skip
    return hashlib.blake2b(sent, digest_size=16).hexdigest()


@contextmanager
def whole(body: Any) -> Iterator[None]:
    """While it lasts a function is sent with the code of its module, which workers need not be able to import."""
    module = sys.modules.get(getattr(body, "__module__", None) or "")
    file = str(getattr(module, "__file__", None) or "")
    known = module is not None and module.__name__ in cloudpickle.list_registry_pickle_by_value()
    if module is None or not file or file.startswith(_installed()) or known:
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _installed() -> tuple[str, ...]:
    """Folders of what workers import too."""
    return tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))


def invalid(name: str, what: str, why: str = "", where: str = "", next: str = "") -> HeadraceError:
    sentence = f"the function {name} cannot be used: {what}"
    return HeadraceError("function.invalid", sentence, where=where, why=why, next=next)


def _made_by_spark(given: Any) -> bool:
    return hasattr(given, "asNondeterministic")


def _declared(name: str, given: Any, where: str) -> Any:
    function = given if isinstance(given, Function) else Function(given, None) if _plain(given) else None
    if function is None:
        raise invalid(name, f"{given!r} is no function", where=where, next=FORMS)
    if _made_by_spark(function.body):
        return function.body
    try:
        hints = typing.get_type_hints(function.body)
    except Exception:  # names that only a type checker knows
        hints = {}
    kinds = " ".join(map(repr, hints.values()))
    returns = function.returns or _result(name, hints, where)
    try:
        if "pandas." in kinds:
            return F.pandas_udf(function.body, returns)
        if "pyarrow." in kinds:
            return F.arrow_udf(function.body, returns)
        return F.udf(function.body, returns, useArrow=True)
    except ParseException as error:
        raise invalid(name, f"{returns} is no type that Spark SQL has", where=where, next=TYPES) from error
    except Exception as error:
        raise invalid(name, str(error).split("\n", 1)[0], where=where, next=FORMS) from error


def _plain(given: Any) -> bool:
    return isinstance(given, types.FunctionType | types.BuiltinFunctionType | types.MethodType)


def _result(name: str, hints: Mapping[str, Any], where: str) -> str:
    """The type of the result as the annotation tells it."""
    found = hints.get("return")
    options = [option for option in typing.get_args(found) if option is not type(None)]
    if isinstance(found, types.UnionType) or typing.get_origin(found) is typing.Union:
        found = options[0] if len(options) == 1 else None
    if found in RESULTS:
        return RESULTS[found]
    known = ", ".join(kind.__name__ for kind in RESULTS)
    raise invalid(
        name, "the type of its result is not known", f"of annotations only {known} tell it",
        where, TYPES,
    )  # fmt: skip
