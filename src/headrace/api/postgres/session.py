"""One connection after its start: statements by the simple and by the extended protocol, in transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pygwire import TransactionStatus
from pygwire.messages import (
    Bind,
    BindComplete,
    Close,
    CloseComplete,
    CommandComplete,
    Describe,
    EmptyQueryResponse,
    Execute,
    Flush,
    NoData,
    NoticeResponse,
    ParameterDescription,
    ParameterStatus,
    Parse,
    ParseComplete,
    PGMessage,
    Query,
    ReadyForQuery,
    Sync,
    Terminate,
)

from headrace.api.postgres import sqlstate, statements, values
from headrace.api.postgres.apart import Apart
from headrace.api.postgres.cancelling import Cancelling, canceled
from headrace.api.postgres.defining import Defining
from headrace.api.postgres.opened import Kept, Opened, Prepared
from headrace.api.postgres.pending import Pending, require_sound
from headrace.api.postgres.portals import Fetched, Portal, Source, described, told
from headrace.api.postgres.reading import Asker, Reader, Transaction
from headrace.api.postgres.result import Result, ResultColumn
from headrace.api.postgres.rewrite import Rewritten, rewritten
from headrace.api.postgres.settings import Settings, given
from headrace.api.postgres.subscribing import Subscription
from headrace.api.postgres.types import TEXT, declared_in
from headrace.api.postgres.wire import Gone, Malformed, Wire
from headrace.api.who import heard
from headrace.model.errors import HeadraceError
from headrace.sql import definitions, lexer
from headrace.sql.lexer import Token

_log = logging.getLogger(__name__)


class Session:
    """Runs in a thread of its own; ``cancel`` and ``stop`` come from others."""

    def __init__(
        self, wire: Wire, reader: Reader, asker: Asker, parameters: Mapping[str, str], number: int, folder: Path,
        defining: Defining,
    ) -> None:  # fmt: skip
        self._wire, self._reader, self._asker, self._number, self._folder = wire, reader, asker, number, folder
        self._defining = defining
        self._settings = Settings(asker.user, reader.questions.seconds, given(parameters))
        self._kept = Kept(self._settings)
        self._parsed: str | None = None  # the statement that the message before has parsed
        self._transaction: Transaction | None = None
        self._pending = Pending()
        self._in_block = self._failed = self._skipping = False
        self._cancelling = Cancelling()
        self._stopped = False

    def greet(self, secret: PGMessage) -> None:
        """What a client is told before its first statement."""
        self._wire.write(*(ParameterStatus(name=n, value=v) for n, v in self._settings.reported().items()), secret)
        self._ready()

    def serve(self) -> None:
        """Until the client ends it, or ``stop``. Raises ``Gone``, ``Malformed``."""
        try:
            while not self._stopped:
                message = self._wire.read(None)
                if isinstance(message, Terminate):
                    return
                self._take(message)
        finally:
            self._end_transaction(everything=True)

    def cancel(self, why: str = "the client asked for it") -> None:
        """End the statement that is running, if one is."""
        self._cancelling.cancel(canceled(why))

    def stop(self) -> None:
        """End it: the server ends."""
        self._stopped = True
        self.cancel("the server ends")

    # ---- messages

    def _take(self, message: PGMessage) -> None:
        if self._skipping and not isinstance(message, Sync):
            return
        if isinstance(message, Query):
            self._simple(message.query_string)
        elif isinstance(message, Sync):
            self._synchronize()
        elif isinstance(message, Flush):
            self._wire.flush()
        elif step := self._steps.get(type(message)):
            self._parsed = None
            try:
                step(self, message)
            except Exception as error:
                self._fail(error)
                self._skipping = True
        else:
            raise Malformed(f"{type(message).__name__} is not taken here")

    def _simple(self, text: str) -> None:
        try:
            found = statements.split(text)
            if not found:
                self._wire.write(EmptyQueryResponse())
            for tokens in found:
                self._one(tokens)
            self._define()
        except Exception as error:
            self._fail(error)
        self._ready()

    def _one(self, tokens: list[Token]) -> None:
        prepared = Prepared(tokens, statements.read(tokens), [])
        if isinstance(prepared.statement, definitions.Change) and not self._in_block:
            self._wait(prepared.statement)  # for those behind it: they are one
            return
        self._define()
        opened = self._open(prepared, [], [])
        if opened.portal is None:
            self._command(opened)
            return
        with closing(opened.portal) as portal:
            self._wire.write(portal.description())
            self._send(portal, 0)

    def _synchronize(self) -> None:
        """Whoever has a statement parsed and waits is told what is wrong with it, as by PostgreSQL."""
        name, self._parsed, self._skipping = self._parsed, None, False
        if name is not None:
            try:
                self._columns(self._kept.statement(name))
            except Exception as error:
                del self._kept.prepared[name]
                self._fail(error)
        self._ready()

    def _parse(self, message: Parse) -> None:
        found = statements.split(message.query)
        if len(found) > 1:
            raise HeadraceError(
                "sql.syntax", "a prepared statement is one statement", next=f"prepare each of the {len(found)}"
            )
        tokens = found[0] if found else []
        statement = statements.read(tokens) if tokens else None
        prepared = Prepared(tokens, statement, declared_in(tokens, message.param_types))
        self._kept.prepare(message.statement, prepared)
        self._parsed = message.statement
        self._wire.write(ParseComplete())

    def _bind(self, message: Bind) -> None:
        prepared = self._kept.statement(message.statement)
        forms = message.param_formats
        if len(forms) not in (0, 1, len(message.param_values)) or len(message.param_values) != len(prepared.declared):
            raise HeadraceError(
                "psql.protocol", f"{len(message.param_values)} parameters for {len(prepared.declared)}",
                where=lexer.joined(prepared.tokens)[:100],
            )  # fmt: skip
        self._decide(prepared)
        forms = forms if len(forms) == len(message.param_values) else list(forms or (0,)) * len(message.param_values)
        bound = [
            values.parameter(value, oid, form)
            for value, oid, form in zip(message.param_values, prepared.declared, forms, strict=True)
        ]
        given = sum(len(value) for value in message.param_values if value is not None)
        self._kept.make_room(message.portal, "portal", prepared.chars + given)
        opened = self._open(prepared, bound, message.result_formats)
        opened.given = given
        self._kept.portals[message.portal] = opened
        self._wire.write(BindComplete())

    def _describe(self, message: Describe) -> None:
        if message.kind == "P":
            opened = self._kept.portal(message.name)
            self._wire.write(opened.portal.description() if opened.portal else NoData())
            return
        prepared = self._kept.statement(message.name)
        if prepared.columns is None:
            prepared.columns = self._columns(prepared)
        self._wire.write(ParameterDescription(type_oids=[oid or TEXT.oid for oid in prepared.declared]))
        self._wire.write(described(prepared.columns, [0] * len(prepared.columns)))

    def _columns(self, prepared: Prepared) -> list[ResultColumn]:
        self._decide(prepared)
        portal = self._open(prepared, [None] * len(prepared.declared), None).portal
        if portal is None:
            return []
        with closing(portal):
            return list(portal.source.columns)

    def _decide(self, prepared: Prepared) -> None:
        """The types that neither the client nor a cast names, by what the parameters are compared with."""
        if prepared.decided or self._failed or 0 not in prepared.declared:
            return
        if isinstance(prepared.statement, statements.Query):
            found = self._reading().compared(self._rewritten(prepared.tokens, prepared.declared))
            prepared.declared = [oid or found.get(n, 0) for n, oid in enumerate(prepared.declared, 1)]
        prepared.decided = True

    def _execute(self, message: Execute) -> None:
        opened = self._kept.portal(message.portal)
        self._asker.reaches()
        require_sound(opened.prepared.statement, self._failed)
        if opened.prepared.statement is None:
            self._wire.write(EmptyQueryResponse())
        elif opened.portal is None:
            self._command(opened)
        else:
            self._send(opened.portal, message.max_rows)

    def _close(self, message: Close) -> None:
        if message.kind == "P":
            self._kept.drop(message.name)
        else:
            self._kept.prepared.pop(message.name, None)
        self._wire.write(CloseComplete())

    _steps: Mapping[type[PGMessage], Callable[[Session, Any], None]] = {
        Parse: _parse, Bind: _bind, Describe: _describe, Execute: _execute, Close: _close,
    }  # fmt: skip

    # ---- statements

    def _open(self, prepared: Prepared, bound: Sequence[Any], forms: Sequence[int] | None) -> Opened:
        """What gives the statement's rows, ``forms`` None: only their columns; a command, which has none, runs when it
        is executed."""
        statement = prepared.statement
        require_sound(statement, self._failed)
        source, tag = self._source(prepared, statement, bound, forms)
        return Opened(prepared, bound, Portal(source, self._asker, forms or (), tag) if source else None)

    def _source(
        self, prepared: Prepared, statement: statements.Statement | None, bound: Sequence[Any],
        forms: Sequence[int] | None,
    ) -> tuple[Source | None, str]:  # fmt: skip
        """(what gives the rows, what the tag begins with); None: a command."""
        if isinstance(statement, statements.Query):
            return self._asked(prepared, bound, forms), "SELECT"
        if isinstance(statement, statements.Show):
            return told(*self._settings.rows(statement.setting)), "SHOW"
        if isinstance(statement, statements.Explain):
            return self._explained(statement.query), "EXPLAIN"
        if isinstance(statement, definitions.Explain):
            return self._defining.tell(self._asker, statement), "EXPLAIN"
        if isinstance(statement, definitions.Look):
            return self._defining.tell(self._asker, statement), "SHOW"
        if isinstance(statement, statements.Subscribe):
            return self._subscribed(statement), "SUBSCRIBE"
        if isinstance(statement, statements.Fetch) and not statement.move:
            return Fetched(self._cursor(statement.name), statement.count), "FETCH"
        return None, ""

    def _asked(self, prepared: Prepared, bound: Sequence[Any], forms: Sequence[int] | None) -> Result | Apart:
        result = self._ask(prepared.tokens, prepared.declared, bound, forms)
        if prepared.columns is not None and [c.type for c in prepared.columns] != [c.type for c in result.columns]:
            result.close()
            raise HeadraceError(
                "psql.changed", "what the statement reads has other columns now", next="prepare it anew"
            )
        return result

    def _ask(
        self, tokens: Sequence[Token], declared: Sequence[int], bound: Sequence[Any], forms: Sequence[int] | None
    ) -> Result | Apart:
        """Raises what ``Transaction.ask`` does; a view that is behind is told of once in a transaction."""
        reading, query = self._reading(), self._rewritten(tokens, declared)
        told_before = set(reading.stale)
        with self._running():
            result = reading.ask(query, bound, self._cancelling.runs, forms)
            self._cancelling.check()
        for name in reading.stale.keys() - told_before:
            self._notice(f"view {name} is behind: {reading.stale[name]}", f"headrace status says more of {name}")
        return result

    def _reading(self) -> Transaction:
        if self._transaction is None:
            self._transaction = Transaction(self._reader, self._asker, self._settings.all())
        return self._transaction

    def _rewritten(self, tokens: Sequence[Token], declared: Sequence[int]) -> Rewritten:
        project = self._reader.project
        return rewritten(tokens, self._settings.constants(project, self._number), declared, project)

    def _explained(self, query: statements.Query) -> Source:
        with closing(self._ask(query.tokens, (), (), None)) as result, self._running():
            self._cancelling.runs(result.interrupt)
            return told(["QUERY PLAN"], [[line] for line in result.plan().splitlines()])

    def _subscribed(self, statement: statements.Subscribe) -> Source:
        relation = self._reader.known(self._asker, statement.view)
        return Subscription(self._reader, self._folder, relation, statement.contents, self._quiet)

    def _quiet(self, relation: str) -> bool:
        """Whether a subscription is to end: it was canceled, or nobody listens any more."""
        self._asker.require([relation])
        return self._cancelling.canceled or self._stopped or self._wire.closed()

    def _command(self, opened: Opened) -> None:
        statement = opened.prepared.statement
        if isinstance(statement, statements.Copy):
            self._copy(opened, statement)
        elif isinstance(statement, definitions.Change):
            self._wait(statement)
            if self._in_block:
                self._done(statement.tag)
            else:
                self._define()
        elif isinstance(statement, statements.Begin):
            if self._in_block:
                self._notice("there is a transaction already", state="25001")
            self._in_block = True
            self._done(statement.tag)
        elif isinstance(statement, statements.End):
            self._end(statement)
        elif isinstance(statement, statements.Savepoint):
            depth = self._pending.savepoint(statement, inside=self._in_block)
            self._report(self._settings.savepoint(depth, back=statement.back))
            self._failed = self._failed and not statement.back
            self._done(statement.tag)
        elif isinstance(statement, statements.Set):
            self._set(statement)
        elif isinstance(statement, statements.Declare):
            self._declare(statement, opened)
        elif isinstance(statement, statements.Fetch):
            self._move(statement)
        elif isinstance(statement, statements.CloseCursor):
            for name in [statement.name] if statement.name else list(self._kept.portals):
                self._kept.drop(name)
            self._done("CLOSE CURSOR")
        elif isinstance(statement, statements.Deallocate):
            self._deallocate(statement.name)
        elif isinstance(statement, statements.Nothing):
            if statement.tag == "DISCARD ALL":
                self._report(self._settings.reset())
                self._kept.end(everything=True)
                self._kept.prepared.clear()
            self._done(statement.tag)

    def _set(self, statement: statements.Set) -> None:
        if statement.local and not self._in_block:
            self._notice("SET LOCAL is for a transaction, and there is none", state="25P01")
        self._kept.check(0 if statement.value is None else len(statement.setting) + len(statement.value))
        given = (statement.setting, statement.value)
        self._report(self._settings.reset() if given[0] == "all" else self._settings.set(*given, local=statement.local))
        self._done(statement.tag)

    def _end(self, statement: statements.End) -> None:
        if not self._in_block:
            self._notice("there is no transaction", state="25P01")
        tag = "ROLLBACK" if self._failed else statement.tag
        self._in_block = self._failed = False
        changes = self._pending.taken() if tag == "COMMIT" else []
        told = self._defining.change(self._asker, changes)  # where that fails, what was set is undone
        self._end_transaction(undone=tag == "ROLLBACK")
        for notices in told:
            self._tell(notices)
        self._done(tag)

    def _wait(self, statement: definitions.Change) -> None:
        """Until the transaction's end, or that of a text without one."""
        self._defining.require(self._asker, statement)
        self._pending.add(statement)

    def _define(self) -> None:
        """What waits, where no transaction is."""
        if self._in_block or not self._pending.changes:
            return
        changes = self._pending.taken()
        for change, notices in zip(changes, self._defining.change(self._asker, changes), strict=True):
            self._tell(notices)
            self._done(change.tag)
        self._transaction = None  # what follows in the same text sees it

    def _declare(self, statement: statements.Declare, opened: Opened) -> None:
        if not (self._in_block or statement.hold):
            raise HeadraceError(
                "psql.cursor", "a cursor ends with its transaction, and there is none", next="BEGIN first, or WITH HOLD"
            )
        self._kept.make_room(statement.name, "cursor", opened.chars)
        forms = [int(statement.binary)]
        result = self._ask(statement.query.tokens, opened.prepared.declared, opened.bound, forms)
        portal = Portal(result, self._asker, forms)
        self._kept.portals[statement.name] = replace(opened, portal=portal, hold=statement.hold)
        self._done("DECLARE CURSOR")

    def _move(self, statement: statements.Fetch) -> None:
        cursor, count = self._cursor(statement.name), 0
        with self._running(cursor):
            self._cancelling.runs(cursor.interrupt)
            for part in cursor.take(statement.count):
                self._cancelling.check()
                count += part.num_rows
            self._cancelling.check()
        self._done(f"MOVE {count}")

    def _cursor(self, name: str) -> Portal:
        self._asker.reaches()
        return self._kept.cursor(name)

    def _copy(self, opened: Opened, statement: statements.Copy) -> None:
        source: Source
        if isinstance(statement.source, statements.Subscribe):
            source = self._subscribed(statement.source)
        else:
            forms = [int(statement.form == "binary")]
            source = self._ask(statement.source.tokens, opened.prepared.declared, opened.bound, forms)
        with closing(Portal(source, self._asker)) as portal, self._running(portal):
            self._cancelling.runs(portal.interrupt)
            portal.copy(self._wire, statement, self._cancelling.check)

    def _deallocate(self, name: str | None) -> None:
        if name is None:
            self._kept.prepared.clear()
        else:
            self._kept.statement(name)
            del self._kept.prepared[name]
        self._done("DEALLOCATE" if name else "DEALLOCATE ALL")

    def _send(self, portal: Portal, most: int) -> None:
        with self._running(portal):
            self._cancelling.runs(portal.interrupt)
            portal.send(self._wire, most, self._cancelling.check)

    def _running(self, portal: Portal | None = None) -> AbstractContextManager[None]:
        """A subscription has no end but one that the client has set."""
        follows = portal is not None and isinstance(portal.source, Subscription)
        return self._cancelling.running(self._settings.own_timeout_s if follows else self._settings.timeout_s)

    # ---- what they share

    def _end_transaction(self, *, undone: bool = False, everything: bool = False) -> None:
        self._transaction = None
        self._pending.clear()
        self._kept.end(everything=everything)
        self._report(self._settings.end(undone=undone))

    def _report(self, changed: Sequence[tuple[str, str]]) -> None:
        self._wire.write(*(ParameterStatus(name=name, value=value) for name, value in changed))

    def _done(self, tag: str) -> None:
        self._wire.write(CommandComplete(tag=tag))

    def _tell(self, notices: Sequence[str]) -> None:
        for notice in notices:
            self._notice(notice, state="00000")

    def _notice(self, message: str, hint: str = "", state: str = "01000") -> None:
        fields = {"S": "NOTICE", "V": "NOTICE", "C": state, "M": message, **({"H": hint} if hint else {})}
        self._wire.write(NoticeResponse(fields=fields))

    def _fail(self, error: Exception) -> None:
        if isinstance(error, Gone | Malformed):
            raise error
        self._failed = self._in_block
        self._report([] if self._in_block else self._settings.end(undone=True))
        answer = sqlstate.response(self._heard(error))
        if answer.code == sqlstate.INTERNAL:
            _log.error("psql: %s", answer.message, exc_info=error)
        self._wire.write(answer)

    def _heard(self, error: Exception) -> Exception:
        """As who asks may hear it; where their token opens nothing any more, that it does not."""
        if not isinstance(error, HeadraceError):
            return error
        try:
            return heard(error, self._asker.principal())
        except HeadraceError as over:
            return over

    def _ready(self) -> None:
        if not self._in_block:
            self._end_transaction()
        inside = TransactionStatus.ERROR_TRANSACTION if self._failed else TransactionStatus.IN_TRANSACTION
        self._wire.write(ReadyForQuery(status=inside if self._in_block else TransactionStatus.IDLE))
        self._wire.flush()
