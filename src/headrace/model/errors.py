"""Errors a user meets: what, where, why, and the next step; each with a code that the reference explains."""

from __future__ import annotations

# code -> what it means in general. Sorted by room; docs/reference/errors.md is generated from this table.
CODES: dict[str, str] = {
    # project
    "project.not_found": "The folder is not a Headrace project.",
    "project.locked": "Another process runs this project.",
    "project.not_running": "The command needs a running `headrace up`.",
    "project.exists": "The folder already holds a project.",
    "project.copied": "The project is a copy of another one that is still there.",
    "backup.damaged": "A backup is not whole, or its bytes are not those that were written.",
    "config.unknown_key": "A configuration file has a key that is not known.",
    "config.invalid": "A configuration value has the wrong type or form.",
    "config.secret": "A secret reference cannot be resolved.",
    "config.unknown_type": "No connector of that type exists.",
    "config.library": "A connector or a command needs a library that is not installed.",
    # sql
    "sql.syntax": "The SQL text cannot be parsed.",
    "sql.refused": "The SQL contains something that is not admitted in a view.",
    "sql.unknown_relation": "The SQL names a table or view that does not exist.",
    "sql.unknown_column": "The SQL names a column that does not exist.",
    "sql.analysis": "Spark refuses the query.",
    "sql.not_deterministic": "The SQL contains an expression whose value is not determined by its input.",
    "sql.not_incremental": "The query is valid but cannot be maintained incrementally yet.",
    # functions of users
    "function.invalid": "A function in Python cannot be used in views.",
    "function.not_allowed": "A view calls a function in Python, and the project's settings do not allow code.",
    # views
    "definition.exists": "There is a source, view or sink of that name already.",
    "definition.unknown": "There is no source or sink of that name.",
    "definition.in_use": "A definition is named by another one.",
    "view.unknown": "There is no view of that name.",
    "view.not_at": "Nothing tells what a view held at that commit.",
    "view.has_readers": "Other views read this view.",
    "view.failed": "A view stopped because its SQL failed on the data.",
    "view.cycle": "Views read each other in a circle.",
    # log
    "log.corrupt": "A log segment is damaged before its end.",
    "log.full": "The log cannot be written: no space is left.",
    "log.failed": "The log cannot be written.",
    "log.retained": "Commits were asked for that retention or compaction has removed.",
    "log.layout": "The log was written by another version of Headrace.",
    # state
    "state.missing": "A file that the catalogue names is missing.",
    "state.corrupt": "A file that the catalogue names is not as it was written.",
    "state.layout": "Kept files were written by another version of Headrace.",
    "state.full": "What is kept cannot be written: no space is left.",
    "state.failed": "What is kept cannot be written or read: the disk refuses.",
    "state.mismatch": "A step that ran again after a crash gave a view other rows than it had published.",
    "spark.lost": "Spark's Java process has ended by itself.",
    # sources
    "source.connect": "The source cannot be reached.",
    "source.auth": "The source refuses the user or the password.",
    "source.setup": "The source is not set up for replication.",
    "source.rights": "The source's role lacks a right.",
    "source.no_table": "The source has no such table.",
    "source.no_identity": "A table without key or identity got an update or a delete.",
    "source.row": "A row does not fit its relation.",
    "source.conflict": "A change does not fit what its table holds, and its source refuses to go on without it.",
    "source.schema": "A table's columns changed in a way that its views cannot follow.",
    "source.port": "The port is taken.",
    "source.request": "A request to a push source has the wrong form.",
    "source.key": "An Idempotency-Key was used for another request.",
    "source.busy": "A push source takes no more for now.",
    "source.dropped": "A push source had no room, and dropped what was pushed, as it says that it does.",
    "source.file": "A file does not have the form it should have, or was changed after it was read.",
    # quarantine
    "quarantine.unknown": "Nothing with that id is in the quarantine.",
    "quarantine.replay": "A change in the quarantine cannot be sent again as asked.",
    # sinks
    "sink.unknown": "There is no sink of that name.",
    "sink.connect": "The sink cannot be reached.",
    "sink.auth": "The sink refuses the user or the password.",
    "sink.rights": "The sink's role lacks a right.",
    "sink.conflict": "The sink holds a table that Headrace did not make, objects that depend on ours, or a key twice.",
    "sink.diverged": "The sink does not hold what Headrace wrote to it.",
    "sink.fenced": "Another instance has taken over this sink.",
    "sink.value": "The sink's store cannot hold a value or a name.",
    "sink.gone": "The sink's receiver says that it takes nothing any more.",
    "sink.letter": "A sink has no such dead letter.",
    "sink.refused": "The sink's store refused a statement.",
    "sink.unsupported": "The sink's store cannot do what was asked.",
    # consumer groups
    "group.unknown": "There is no consumer group of that name.",
    "group.exists": "There is a consumer group of that name already.",
    "group.invalid": "An option of a consumer group has the wrong form.",
    "group.relation": "A consumer group follows another feed.",
    "group.lease": "A delivery is not with its reader any more: its lease is over, or it was never delivered.",
    "group.position": "A consumer group needs commits that are not kept any more, or not there yet.",
    "group.letter": "A consumer group has no such dead letter.",
    # search
    "search.query": "The text of a search cannot be understood.",
    "search.unknown": "There is no stored query of that name.",
    "search.exists": "There is a stored query of that name already.",
    "search.index": "The index of a view cannot be written or read.",
    "search.busy": "Another process has been indexing the view for too long.",
    # waiting for a write
    "wait.token": "The token is neither a commit of the log nor a point of a source that can be waited for.",
    "wait.timeout": "Views or sinks have not reached a write in the time given.",
    "wait.busy": "Too many wait at once.",
    # asking
    "query.filter": "A filter, an order or a key does not fit the relation that is asked.",
    "query.bounds": "A query was to be allowed more time than queries may have.",
    "query.timeout": "A query took longer than it may.",
    "query.memory": "A query needed more memory than it may use.",
    "query.size": "The answer of a query has more bytes than it may have.",
    "query.failed": "A query could not be run.",
    "query.parameter": "A value that was bound to a query does not fit its type.",
    "query.read_only": "A statement would change something where all is only read.",
    "query.canceled": "A query was ended at somebody's wish.",
    # PostgreSQL's protocol
    "psql.protocol": "A client of PostgreSQL's protocol sent what is not a message of it, or not now.",
    "psql.password": "A client of PostgreSQL's protocol has no password that is taken.",
    "psql.port": "The port of PostgreSQL's protocol is taken.",
    "psql.busy": "There are as many connections, or as much kept in one, as are allowed.",
    "psql.full": "A connection is to keep more than it may.",
    "psql.stopped": "The server of PostgreSQL's protocol ends.",
    "psql.setting": "A setting of a connection does not exist or cannot have that value.",
    "psql.unknown": "There is no prepared statement of that name.",
    "psql.cursor": "There is no cursor or portal of that name, or none can be.",
    "psql.exists": "There is a prepared statement, portal or cursor of that name already.",
    "psql.changed": "The columns of a prepared statement, or of a view that is subscribed to, are others now.",
    "psql.outside": "A savepoint is named outside of a transaction.",
    "psql.savepoint": "There is no savepoint of that name.",
    "psql.transaction": "A transaction in which a statement failed takes no more of them.",
    # the API
    "api.port": "The port of the API is taken.",
    "api.unreachable": "The server of a project cannot be reached.",
    "api.request": "A request to the API has the wrong form.",
    "api.route": "The API has nothing at that address.",
    "row.unknown": "A view has no row with that key.",
    # who may do what, and what was done
    "access.token": "The request has no token, or one that is not known, is over, or was revoked.",
    "access.denied": "The token's role, or what it is limited to, does not permit this.",
    "access.unknown": "There is no such token.",
    "access.exists": "There is a live token of that name already.",
    "access.invalid": "What was asked for cannot be a token's name, role, limit or lifetime.",
    "audit.failed": "What is about to be done cannot be written down in the audit log, so it is not done.",
    "audit.damaged": "The audit log is not as it was written.",
    # profile
    "profile.flame": "The flame graph of a profile cannot be drawn.",
    # internal
    "internal": "A fault in Headrace itself.",
}


class HeadraceError(Exception):
    """An error with a code, and the four things a user needs.

    ``what`` happened, ``where`` (file:line, relation and row, LSN, offset), ``why``, and ``next``: the
    command or change that helps.
    """

    def __init__(self, code: str, what: str, *, where: str = "", why: str = "", next: str = "") -> None:
        if code not in CODES:
            raise KeyError(f"error code {code!r} is not in the table")
        self.code, self.what, self.where, self.why, self.next = code, what, where, why, next
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.what}"]
        lines += [f"  {label}: {text}" for label, text in self.parts() if text]
        return "\n".join(lines)

    def parts(self) -> tuple[tuple[str, str], ...]:
        return (("where", self.where), ("why", self.why), ("next", self.next))

    def as_dict(self) -> dict[str, str]:
        """For ``--json`` and the HTTP answers."""
        return {"code": self.code, "what": self.what, "where": self.where, "why": self.why, "next": self.next}

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.code, self.what, self.where, self.why, self.next))


def _rebuild(code: str, what: str, where: str, why: str, next: str) -> HeadraceError:
    return HeadraceError(code, what, where=where, why=why, next=next)
