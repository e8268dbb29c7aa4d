"""The HTTP source: transactions pushed by clients, or by the same process, become batches for the log."""

from __future__ import annotations

import json
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.formats.infer import SAMPLE_ROWS, KeptSchemas, check_name, declared, inferred
from headrace.formats.json_rows import exact_numbers, parse
from headrace.formats.options import validate
from headrace.formats.secrets import resolve
from headrace.formats.types.arrow import to_arrow
from headrace.formats.types.json import exact_rule, nearest
from headrace.governance.kept import OWNERS_FILE, kept_token
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, Finding
from headrace.model.schema import Relation
from headrace.model.transaction import RefusedRow, TransactionBatch, TransactionOrigin
from headrace.sources.base import DROP, REFUSE, WAIT, Source
from headrace.sources.connectors.http.config import HttpOptions
from headrace.sources.connectors.http.queue import SubmissionQueue, stopped
from headrace.sources.connectors.http.transactions import (
    Kept,
    Submission,
    SubmissionsRefused,
    Transaction,
    merge,
    read_transaction,
)
from headrace.web.listening import hosts, listen

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.web.server import ServerThread

BATCH_TRANSACTIONS = 5_000
BATCH_ROWS = 200_000
REMEMBERED_KEYS = 10_000
ROW_BYTES = 128  # what a row pushed in-process counts for in the queue


class HttpSource(Source):
    """Transactions pushed over HTTP or by ``submit`` and ``push``. Every declared table is taken, used or not."""

    fullness = (WAIT, REFUSE, DROP)

    def __init__(self, name: str, options: Mapping[str, Any], where: str = "", base: Path | None = None) -> None:
        if name == OWNERS_FILE.name:
            raise HeadraceError(
                "config.invalid", f"a source of type http cannot be called '{name}'", where=where,
                why="the token of who pushes would be kept where the owner's is, who may do all",
                next="rename its file",
            )  # fmt: skip
        self.name, self.where = name, where
        self.base = base if base is not None else Path()
        self.options = validate(HttpOptions, options, where)
        self.queue = SubmissionQueue(self.options.max_queue or 2 * self.options.max_body)
        self.wait_s = self.options.wait_seconds
        self.port: int | None = None  # the port listened on, once started
        self._keys = {table: tuple(given.key) for table, given in self.options.tables.items()}
        self._kept = KeptSchemas(self.base / ".headrace" / "schemas" / f"{name}.json")
        self._strict = frozenset(t for t, given in self.options.tables.items() if given.on_conflict != "replace")
        self.refuses = frozenset(t for t, given in self.options.tables.items() if given.on_conflict == "refuse")
        self._known = self._relations_known()
        self._declared = frozenset(table for table, given in self.options.tables.items() if given.columns)
        self._exact = any(exact_numbers(relation.columns) for relation in self._known.values())
        self._server: ServerThread | None = None
        self._polled: dict[int, tuple[TransactionBatch, list[Submission]]] = {}
        self._count = 0  # transactions taken since ever
        self._last: dict[str, Any] = {}  # the position that the log held last, when this process started
        self._lock = threading.Lock()  # over the three below
        self._pending: dict[str, Submission] = {}  # idempotency key -> the submission not yet answered
        self._done: OrderedDict[str, tuple[int, int]] = OrderedDict()  # key -> first commit, number of transactions
        self._aside: OrderedDict[str, Kept] = OrderedDict()  # key -> the answer for a request in the quarantine

    # --- the engine's side

    def relations(self) -> tuple[Relation, ...]:
        """Every table whose columns are declared, or were inferred from a push."""
        return tuple(self._known.values())

    def examine(self, wanted: Callable[[str], bool]) -> Iterator[Finding]:
        """Raises ``HeadraceError``: source.port, config.secret."""
        yield from super().examine(wanted)
        if not self.options.listen:
            return
        for option, configured in (("token", self.options.token), ("read_token", self.options.read_token)):
            if configured is not None:
                self._resolved(option, configured)
        self._listener().close()
        port = f"port {self.options.port}" if self.options.port else "some port"
        yield Finding(OK, f"{port} on {self.options.host} is free")

    def start(self, tables: frozenset[str], position: str | None) -> None:
        """Listen, at first or again after ``close``. Raises ``HeadraceError``: source.port, source.no_table, config."""
        self.add(tables)
        self.queue.open()
        self._last = json.loads(position) if position else {}
        self._count = self._last.get("n", 0)
        if self.options.listen:
            from headrace.sources.connectors.http.server import make_app
            from headrace.web.server import ServerThread

            listener = self._listener()
            try:
                app = make_app(self, self.token(), self.read_token(), self.options.max_body, hosts(self.options.host))
                self._server = ServerThread(app, listener)
            except BaseException:
                listener.close()
                raise
            self.port = self._server.port

    def _listener(self) -> socket.socket:
        """Raises ``HeadraceError`` (source.port)."""
        host, port = self.options.host, self.options.port
        other = f"stop it, or set another port here: port: {port + 1 if port < 65535 else 7071}"
        return listen(host, port, self.where, code="source.port", next=other)

    def add(self, tables: frozenset[str]) -> None:
        """Nothing to do but to know the tables: what is pushed is logged from the start."""
        for table in sorted(tables - self._keys.keys()):
            raise HeadraceError(
                "source.no_table",
                f"the source '{self.name}' has no table '{table}'",
                where=self.where,
                next=nearest(table, list(self._keys)),
            )

    def poll(self, wait_s: float) -> TransactionBatch | None:
        """What was pushed: whole submissions, up to 5,000 transactions or about 200,000 rows (but at least one)."""
        taken = self.queue.take(wait_s, BATCH_TRANSACTIONS, BATCH_ROWS)
        try:
            return self._merged(taken)
        except Exception as error:  # nobody is left without an answer
            self._fail([submission for submission in taken if not submission.future.done()], _untaken(error))
            raise

    def _merged(self, taken: list[Submission]) -> TransactionBatch | None:
        """All of it but what is refused, whose clients are told."""
        new, refused = self._settle(taken)
        tables: dict[int, str] = {}
        while True:
            for index, error in refused.items():
                self._refuse(taken[index], error, tables.get(index))
            taken = [submission for index, submission in enumerate(taken) if index not in refused]
            if not taken:
                return None
            try:
                return self._batch(taken, merge(taken, {**self._known, **new}, self._strict), new)
            except SubmissionsRefused as refusal:
                refused, tables = refusal.errors, refusal.tables

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        """Answer every client of the batch with its commit numbers."""
        _, submissions = self._polled.pop(id(batch))
        for submission in submissions:
            count = len(submission.transactions)
            if submission.key is not None:
                with self._lock:
                    self._pending.pop(submission.key, None)
                    self._done[submission.key] = (first_commit, count + submission.skipped)
                    while len(self._done) > REMEMBERED_KEYS:
                        self._done.popitem(last=False)
            submission.future.set_result(first_commit)
            first_commit += count

    def reject(self, batch: TransactionBatch, error: Exception) -> None:
        """Tell every client of the batch that the log did not take it."""
        _, submissions = self._polled.pop(id(batch))
        self._fail(submissions, _untaken(error))

    def reread(self, refused: RefusedRow) -> dict[str, pa.Table]:
        lines = len([line for line in refused.payload.split(b"\n") if line.strip()]) > 1
        try:
            submission = self.read(refused.payload, lines, None)
        except HeadraceError:
            if not lines:
                raise
            submission = self.read(refused.payload, False, None)  # one transaction over several lines
        runs = [run for transaction in submission.transactions for run in transaction]
        known, strange = self._known, [run.table for run in runs if run.table not in self._known]
        if strange:
            raise HeadraceError("source.row", f"the columns of '{strange[0]}' are not known yet", where=refused.place)
        try:
            return merge([Submission([runs], single=True)], known, self._strict)
        except SubmissionsRefused as refusal:
            error = refusal.errors[0]
            why = "the row does not fit its table; nothing was sent again"
            raise HeadraceError(error.code, error.what, where=error.where, why=why) from None

    def close(self) -> None:
        """Stop listening; whoever still waits is told so."""
        self._fail(self.queue.close(), stopped())
        unsure = HeadraceError(
            "source.busy",
            "the source stopped before the log answered",
            why="the transactions may have been kept",
            next="push again with the same Idempotency-Key",
        )
        for batch, submissions in list(self._polled.values()):
            del self._polled[id(batch)]
            self._fail(submissions, unsure)
        if self._server is not None:
            self._server.close()
            self._server = None

    def pressure(self) -> dict[str, Any]:
        queue = self.queue
        return {
            "when_full": self.when_full, "queued_bytes": queue.held, "max_queue": queue.limit,
            "refused": queue.refused, "dropped": queue.dropped, "dropped_bytes": queue.dropped_bytes,
        }  # fmt: skip

    def endpoint(self) -> dict[str, str]:
        if self.port is None:
            return {}
        found = {"endpoint": f"http://{self.options.host}:{self.port}"}
        if self.options.auth != "none" and self.options.token is None:
            found["token_file"] = str(self.token_path)
        if self.options.auth != "none" and self.options.read_token is None:
            found["read_token_file"] = str(self.read_token_path)
        return found

    def drop(self) -> None:
        """Forget the inferred columns and the token."""
        self._kept.drop()
        self.token_path.unlink(missing_ok=True)
        self.read_token_path.unlink(missing_ok=True)

    # --- the client's side

    @property
    def token_path(self) -> Path:
        """Where the token is kept that was made because none is configured."""
        return self.base / ".headrace" / "tokens" / self.name

    def token(self) -> str | None:
        """The token that clients must send: configured, or made and kept; None with ``auth: none``."""
        return self._token("token", self.options.token, self.token_path)

    @property
    def read_token_path(self) -> Path:
        """Where the token of readers is kept that was made because none is configured."""
        return self.token_path.with_name(f"{self.name}.read")

    def read_token(self) -> str | None:
        """The token of who reads consumer groups, as ``token``; with it nothing can be pushed."""
        return self._token("read_token", self.options.read_token, self.read_token_path)

    def _token(self, option: str, configured: str | None, kept: Path) -> str | None:
        if self.options.auth == "none":
            return None
        if configured is None:
            return kept_token(kept)
        return self._resolved(option, configured)

    def _resolved(self, option: str, configured: str) -> str:
        token = resolve(configured, self.where)
        if not token:
            raise HeadraceError(
                "config.secret", f"the {option} is empty", where=self.where, next=f"set '{option}', or leave it out"
            )
        return token

    def submit(self, transaction: Mapping[str, Any], key: str | None = None) -> Future[int]:
        """Push one transaction (the JSON form as Python values) from this process; gives its commit number.

        The future fails with ``HeadraceError`` where HTTP would answer with an error. ``key``: as Idempotency-Key;
        the number is 0 when the log had the transaction before a restart.
        """
        try:
            submission = Submission([read_transaction(transaction, self._keys)], key=key, single=True)
            submission.size = submission.rows * ROW_BYTES
            self._room(submission.size)
            try:
                return self.enqueue(submission).future
            except BaseException:
                self.queue.release(submission.size)
                raise
        except HeadraceError as error:
            failed: Future[int] = Future()
            failed.set_exception(error)
            return failed

    def _room(self, size: int) -> None:
        """Raises ``HeadraceError``: source.busy, source.dropped."""
        try:
            self.queue.wait_for_room(size, self.wait_s if self.when_full == WAIT else 0.0)
        except HeadraceError as busy:
            raise self.queue.turned_away(size, busy, drop=self.when_full == DROP) from None

    def push(self, transactions: Iterable[Mapping[str, Any]]) -> list[Future[int]]:
        """``submit`` each of several transactions, in order."""
        return [self.submit(transaction) for transaction in transactions]

    def read(self, body: bytes, lines: bool, key: str | None) -> Submission:
        """A request's body as a submission; ``lines``: one transaction a line. Raises ``HeadraceError``."""
        single = False
        try:
            if lines:
                documents = [parse(line, self._exact) for line in body.split(b"\n") if line.strip()]
            else:
                parsed = parse(body, self._exact)
                single = not isinstance(parsed, list)
                documents = [parsed] if single else parsed
        except ValueError as error:
            raise HeadraceError("source.request", "the body is not JSON", why=str(error)) from None
        if not documents:
            raise HeadraceError("source.request", "the request holds no transaction")
        transactions = [
            read_transaction(document, self._keys, "" if single else f"transaction {number}")
            for number, document in enumerate(documents, 1)
        ]
        kept = body if self.options.on_error == "quarantine" else b""
        return Submission(transactions, size=len(body), body=kept, key=key, single=single)

    def enqueue(self, submission: Submission) -> Submission:
        """Queue it, its room being reserved. The answer is another one when its key was used before."""
        key, count = submission.key, len(submission.transactions)
        if key is None:
            self.queue.put(submission)
            return submission
        with self._lock:
            earlier = self._pending.get(key)
            if earlier is not None:
                self._same_count(key, len(earlier.transactions) + earlier.skipped, count)
                self.queue.release(submission.size)
                return earlier
            if key in self._aside:
                self.queue.release(submission.size)
                again = Submission(submission.transactions, key=key, single=submission.single)
                again.future.set_exception(self._aside[key])
                return again
            if key in self._done:
                first, before = self._done[key]
                return self._answered(submission, first, before)
            if self._last.get("key") == key:
                submission.skipped = self._last["at"]
                if submission.skipped == self._last["of"]:
                    return self._answered(submission, 0, self._last["of"])
                self._same_count(key, self._last["of"], count)
                submission.transactions = submission.transactions[submission.skipped :]
            self.queue.put(submission)
            self._pending[key] = submission
        return submission

    def describe(self) -> dict[str, Any]:
        """Tables for ``GET /tables``; columns are null where nothing was pushed yet."""
        tables: dict[str, Any] = {}
        for table, key in self._keys.items():
            relation = self._known.get(table)
            columns = None
            if relation is not None:
                columns = {c.name: c.type if c.nullable else f"{c.type} not null" for c in relation.columns}
            tables[table] = {"columns": columns, "key": list(key), "inferred": table not in self._declared}
        return tables

    # --- inside

    def _relations_known(self) -> dict[str, Relation]:
        known = {}
        for table, given in self.options.tables.items():
            check_name(table, self.where)
            if given.columns is not None:
                known[table] = declared(table, given.columns, given.key, self.where)
                for column in known[table].columns:
                    exact_rule(to_arrow(column.type))  # refuses types that JSON cannot spell
            else:
                kept = self._kept.get(table, given.key)
                if kept is not None:
                    known[table] = kept
        return known

    def _settle(self, submissions: Sequence[Submission]) -> tuple[dict[str, Relation], dict[int, HeadraceError]]:
        """Columns for tables without any, from the first good transaction that names each; errors by submission.

        A submission that brings a new table is tried alone, as the columns it shows stand only if it is taken.
        """
        new: dict[str, Relation] = {}
        errors: dict[int, HeadraceError] = {}
        for index, submission in enumerate(submissions):
            if len(self._known) + len(new) == len(self._keys):
                break
            known, shown = {**self._known, **new}, dict[str, Relation]()
            try:
                for number, transaction in enumerate(submission.transactions, submission.skipped + 1):
                    for table in {run.table: None for run in transaction if run.table not in known}:
                        if table not in shown:
                            place = f"transaction {number}, table '{table}'" if not submission.single else ""
                            shown[table] = self._shown(table, transaction, place or f"table '{table}'")
                if shown:
                    merge([submission], {**known, **shown})
            except SubmissionsRefused as refusal:
                errors[index] = refusal.errors[0]
            except HeadraceError as error:
                errors[index] = error
            else:
                new.update(shown)
        return new, errors

    def _shown(self, table: str, transaction: Transaction, place: str) -> Relation:
        """The relation as the rows of one transaction show it."""
        runs = [run for run in transaction if run.table == table and run.verb in ("insert", "upsert")]
        rows = list(islice((row for run in runs for row in run.rows), SAMPLE_ROWS))
        if not rows:
            raise HeadraceError(
                "source.row",
                f"the columns of '{table}' are not known yet",
                where=place,
                why="they are neither declared nor was a row ever inserted",
                next="insert rows first, or declare the table's columns",
            )
        return inferred(table, rows, self._keys[table], place)

    def _batch(
        self, submissions: list[Submission], changes: Mapping[str, Any], new: Mapping[str, Relation]
    ) -> TransactionBatch:
        if new:
            self._kept.keep(new.values())
            self._known = {**self._known, **new}
            self._exact = any(exact_numbers(relation.columns) for relation in self._known.values())
        origins = []
        for submission in submissions:
            count = len(submission.transactions) + submission.skipped
            for number in range(submission.skipped + 1, count + 1):
                self._count += 1
                position = f'{{"n":{self._count}}}'
                if submission.key is not None:
                    position = json.dumps({"n": self._count, "key": submission.key, "at": number, "of": count})
                origins.append(TransactionOrigin(self.name, position, submission.arrived_us))
        batch = TransactionBatch(tuple(origins), changes)
        self._polled[id(batch)] = (batch, submissions)
        return batch

    def _answered(self, submission: Submission, first: int, before: int) -> Submission:
        """A submission that the log has already."""
        self._same_count(submission.key, before, len(submission.transactions))
        self.queue.release(submission.size)
        answered = Submission(submission.transactions, key=submission.key, single=submission.single)
        answered.future.set_result(first)
        return answered

    def _same_count(self, key: str | None, before: int, now: int) -> None:
        if before != now:
            raise HeadraceError(
                "source.key",
                f"the Idempotency-Key '{key}' was used for another request",
                why=f"that one had {before} transactions, this one has {now}",
                next="use a new key for every new request",
            )

    def _forget(self, submission: Submission) -> None:
        if submission.key is not None:
            with self._lock:
                self._pending.pop(submission.key, None)

    def _refuse(self, submission: Submission, error: HeadraceError, table: str | None) -> None:
        """Tell its client; with `on_error: quarantine` what was pushed over HTTP is kept whole before."""
        answer: Exception = error
        if submission.body and self.keeper is not None and error.code == "source.row":
            of = table or submission.transactions[0][0].table
            try:
                id = self.keeper.keep(RefusedRow(of, error.where, error.what, submission.body, "request"))
            except Exception as failure:
                answer = failure if isinstance(failure, HeadraceError) else HeadraceError(
                    "log.failed", "the request could not be kept in the quarantine", why=str(failure)
                )  # fmt: skip
            else:
                answer = Kept(id, error)
                if submission.key is not None:
                    with self._lock:
                        self._aside[submission.key] = answer
                        while len(self._aside) > REMEMBERED_KEYS:
                            self._aside.popitem(last=False)
        self._fail([submission], answer)

    def _fail(self, submissions: Iterable[Submission], error: Exception) -> None:
        for submission in submissions:
            self._forget(submission)
            submission.future.set_exception(error)


def _untaken(error: Exception) -> HeadraceError:
    """What the clients are told of an error that is none of theirs."""
    if isinstance(error, HeadraceError):
        return error
    return HeadraceError("log.failed", "the log did not take the transactions", why=str(error))
