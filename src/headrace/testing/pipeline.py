"""Views under test: tables and views of your own, stepped by hand through the product's own engine.

    from headrace.testing import Pipeline

    with Pipeline(
        tables={"orders": "id bigint, customer bigint, amount decimal(12,2)"},
        keys={"orders": ["id"]},
        views={"by_customer": "select customer, sum(amount) total from orders group by customer"},
    ) as p:
        p.step({"orders": [{"id": 1, "customer": 7, "amount": "9.50"}]})
        p.expect("by_customer", [{"customer": 7, "total": "9.50"}])

What runs is what `headrace up` runs: transactions enter the log, a step is recorded, run and published, state is kept
in checkpoints. Only the sources are left out. Spark is started by the first pipeline of a process, not by the import.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from headrace.catalog.document import did_you_mean
from headrace.catalog.project import check_name
from headrace.formats.types.arrow import to_arrow
from headrace.formats.types.json import exact_rule
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.testing.changes import Rows, weighted
from headrace.testing.compared import Unequal, compared, told
from headrace.testing.tables import relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sql.user_functions import UserFunctions

Time: TypeAlias = datetime.datetime | str
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ROWS_MAX = 1 << 62  # a step takes all that it is given


class Pipeline:
    """Tables and views in a folder of their own, which goes with ``close``. Methods are called from one thread.

    ``tables``: name -> columns as Spark DDL. ``keys``: name -> the columns of its key, for tables that have one.
    ``views``: name -> one SELECT. ``spark``: a session to work beside; by default one of the process, made on first
    use (some seconds) and shared by all pipelines. ``settings``: as in headrace.yaml, as ``{"time_zone": "UTC"}``.

    ``now``: the time at which the clock of ``current_timestamp()`` stands, a datetime or ISO text (UTC where it has no
    zone); ``step`` moves it. Without it the clock goes, a tick a step.

    Raises ``HeadraceError`` for whatever is wrong with them, as `headrace plan` would.
    """

    def __init__(
        self,
        tables: Mapping[str, str],
        views: Mapping[str, str],
        keys: Mapping[str, Sequence[str]] | None = None,
        *,
        functions: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        settings: Mapping[str, Any] | None = None,
        now: Time | None = None,
    ) -> None:
        chosen = _settings(settings or {})
        for kind, name in [*(("table", t) for t in tables), *(("view", v) for v in views)]:
            check_name(kind, name)
        from headrace.engine.session import open_session

        session = spark if spark is not None else open_session(chosen, brief=True)
        offered = relations(session, tables, keys or {})
        definitions = [ViewDefinition(name, sql) for name, sql in views.items()]
        self._open(session, chosen, offered, definitions, now, user_functions(functions or {}))

    @classmethod
    def over(
        cls, tables: Mapping[str, Relation], views: Iterable[ViewDefinition], settings: Settings,
        spark: SparkSession | None = None, now: Time | None = None, functions: UserFunctions | None = None,
    ) -> Self:  # fmt: skip
        """The same for definitions that a project has."""
        from headrace.engine.session import open_session

        made = cls.__new__(cls)
        session = spark if spark is not None else open_session(settings, brief=True)
        whole = replace(settings, step_rows=_ROWS_MAX)
        made._open(session, whole, dict(tables), list(views), now, functions or user_functions({}))
        return made

    def _open(
        self, spark: SparkSession, settings: Settings, tables: dict[str, Relation], views: list[ViewDefinition],
        now: Time | None, functions: UserFunctions,
    ) -> None:  # fmt: skip
        from headrace.testing.stepped import Stepped

        now_us = None if now is None else _microseconds(now)
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-")
        self._tables = tables
        self._closed = False
        try:
            self._at = Stepped(Path(self._folder.name), spark, settings, tables, views, now_us, functions)
        except BaseException:
            self._folder.cleanup()
            raise

    # -- steps ----------------------------------------------------------------------------------------------

    def step(self, changes: Mapping[str, Rows], *, now: Time | None = None) -> dict[str, pa.Table]:
        """One transaction in one step: table -> its changed rows; returns view -> its delta.

        Rows are a pyarrow table or a list of dicts, with an optional column ``_w``: +1 (the default) for a row that
        comes, -1 for one that goes; columns left out are NULL. In a table with a key +1 takes the place of the row
        that the key has, and for -1 the key suffices. A delta has the view's columns and ``_w``; a row stands in it
        once. ``now`` moves the clock first: ``step({}, now=later)`` lets time pass, and nothing else.
        """
        return self.steps([changes], now=now)[0]

    def steps(
        self, transactions: Sequence[Mapping[str, Rows]], *, now: Time | None = None
    ) -> list[dict[str, pa.Table]]:
        """Several transactions in one step, each an instant of its own: for each what ``step`` returns.

        What leaves by ``now`` leaves with the first of them.
        """
        self._check_open()
        if isinstance(transactions, Mapping):
            raise TypeError("steps takes a list of transactions; one alone goes to step")
        for transaction in transactions:
            for name in transaction:
                self._known_table(name)
        if not transactions:
            return []
        return self._at.steps(list(transactions), None if now is None else _microseconds(now))

    def restart(self) -> None:
        """As after a crash: everything is let go without a word; state comes from the last checkpoint and the log."""
        self._check_open()
        self._at.restart()

    # -- what there is --------------------------------------------------------------------------------------

    def read(self, view: str) -> pa.Table:
        """The view's contents now, each row as often as it stands there; of a failed view those it stood at."""
        self._check_open()
        return self._at.read(view)

    def batch(self, view: str) -> pa.Table:
        """The same SQL by Spark batch over the tables now; ``view.failed`` where that throws."""
        self._check_open()
        self._at.record(view)
        return self._at.batch(view)

    def expect(self, view: str, rows: Rows) -> None:
        """Raises ``AssertionError``, with the rows that are missing and unexpected, unless the view holds these rows.

        Also where the view has failed, whatever it held before.

        In any order; a row counts as often as it stands there (``_w``: so many times). Columns left out are NULL.
        """
        failed = self.failure(view)
        if failed is not None:
            raise AssertionError(failed)
        found = self.differences(view, rows)
        if found:
            raise AssertionError(told(view, found))

    def differences(self, view: str, rows: Rows) -> list[Unequal]:
        """What ``expect`` would raise for: each ``row`` that is missing (``times`` < 0) or unexpected (> 0)."""
        self._check_open()
        record = self._at.record(view)
        expected = weighted(record.schema.columns, rows, f"expected rows of {view}")
        return compared(self._at.read(view), expected)

    def work(self) -> dict[str, dict[str, dict[str, int]]]:
        """What the last step took: view -> operator -> ``rows_in``, ``rows_out``, ``rows_probed``, ``state_rows``.

        Operators as `headrace explain` names them, what is below first, with the tables and the shared subqueries that
        the view reads. ``rows_probed``: rows of kept state that the operator read. ``state_rows``: rows that it keeps.
        """
        self._check_open()
        return self._at.work()

    def errors(self) -> dict[str, list[dict[str, Any]]]:
        """Failed views, each with the rows that made its SQL throw.

        Of each row ``table`` (or ``view``) and ``row``, its ``weight`` and the ``message``; rows of one ``together``
        throw only together. Where no row could be named ``row`` is None.
        """
        self._check_open()
        return self._at.errors()

    def failure(self, view: str) -> str | None:
        """Why a view has failed, in a sentence; None for one that is well."""
        self._check_open()
        record = self._at.record(view)
        return record.reason if record.state == "failed" else None

    def refused(self) -> dict[str, pa.Table]:
        """Rows that the last step set aside: -1 of a row that a table without a key does not hold."""
        self._check_open()
        return self._at.refused()

    # -- life -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End it and delete its folder; may be called twice. Spark goes on."""
        if not self._closed:
            self._closed = True
            self._at.close()
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this pipeline is closed")

    def _known_table(self, name: str) -> None:
        if name not in self._tables:
            hint = did_you_mean(name, self._tables) or f"tables: {', '.join(sorted(self._tables))}"
            raise HeadraceError("source.no_table", f"there is no table '{name}'", next=hint)


def _settings(given: Mapping[str, Any]) -> Settings:
    known = {field.name for field in fields(Settings)}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"settings: {', '.join(sorted(known))}"
            raise HeadraceError("config.unknown_key", f"there is no setting '{name}'", next=hint)
    return Settings(**{"step_rows": _ROWS_MAX, **given})


def user_functions(given: Mapping[str, Any]) -> UserFunctions:
    """Functions for views by their names. Raises ``HeadraceError`` (config.invalid, function.invalid)."""
    from headrace.sql.user_functions import UserFunctions, user_function

    for name in given:
        check_name("function", name)
    return UserFunctions.of(user_function(name, function) for name, function in given.items())


def _microseconds(now: Time) -> int:
    """A time as microseconds since the epoch; ``TypeError`` or ``ValueError`` for what is none."""
    if not isinstance(now, datetime.datetime | str):
        raise TypeError(f"now is a datetime or ISO text, not {type(now).__name__}")
    try:
        at: datetime.datetime = exact_rule(to_arrow("timestamp"))(now)
    except ValueError as error:
        raise ValueError(f"now {error}") from None
    return (at - _EPOCH) // datetime.timedelta(microseconds=1)
