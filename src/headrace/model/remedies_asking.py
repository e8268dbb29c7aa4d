"""For every error code of who asks (searches, queries, PostgreSQL's protocol, the API, access): see ``remedies``."""

from __future__ import annotations

from headrace.model.remedy import Remedy

# In the order of ``headrace.model.errors.CODES``.
ASKING: dict[str, Remedy] = {
    "search.query": Remedy(
        "A bracket or a quote is open, a column is misspelt or of another type, or OR stands beside words without any.",
        "The error says which word; [search](search.md) lists what may be written.",
    ),
    "search.unknown": Remedy(
        "The name is misspelt, or the file of the query was removed.",
        "`headrace queries ls` shows the names.",
    ),
    "search.exists": Remedy(
        "A query of that name was stored before, perhaps in other letters: names do not tell upper from lower case.",
        "Change it by `headrace queries change NAME`, or take another name.",
    ),
    "search.index": Remedy(
        "No space is left, or a right to the folder .headrace/search is missing.",
        "Free the space or grant the right; the folder may be removed, the next search makes it anew.",
    ),
    "search.busy": Remedy(
        "Another process makes the index of a large view, or was halted while it did.",
        "Search again when it is done, or end that process.",
    ),
    "wait.token": Remedy(
        "The token is spelled wrong, or of a source that is not there.",
        "A commit number, or SOURCE:POINT such as `shop:0/16B3748` ([read your writes](read_your_writes.md)).",
    ),
    "wait.timeout": Remedy(
        "A view or a sink is behind, or failed: the error names it.",
        "`headrace frontier` shows how far each is; wait longer with `--timeout`.",
    ),
    "wait.busy": Remedy(
        "More callers wait, ask what takes long, or follow views than are served at once, or by one token.",
        "Try again; ask `headrace frontier` without waiting; make a view of what is asked often; end streams.",
    ),
    "query.filter": Remedy(
        "A column is spelled wrong, a value is not of the column's type, or a key is not complete.",
        "As the error says; `headrace views` lists columns and keys.",
    ),
    "query.bounds": Remedy(
        "`seconds` over HTTP, `--timeout` or `statement_timeout` is more than `query_seconds` in headrace.yaml.",
        "Allow it less, or set `query_seconds`, then start `headrace up` again.",
    ),
    "query.timeout": Remedy(
        "The query reads or joins very much.",
        "Ask for less, or make it a view, which is kept up to date. More time by `seconds` over HTTP, `--timeout` or "
        "`SET statement_timeout`, up to `query_seconds` in headrace.yaml, which is 60.",
    ),
    "query.memory": Remedy(
        "The query makes or joins very much, or its answer is large.",
        "Ask for less, make it a view, or set `api.memory`, and `psql.memory` for psql, in headrace.yaml.",
    ),
    "query.size": Remedy(
        "The answer's rows are many, or its values large.",
        "Ask for fewer rows, for less of them, or for a page at a time by `limit` and `offset`.",
    ),
    "query.failed": Remedy(
        "DuckDB cannot bind or run the query: an unknown column, types that do not fit, a value out of range.",
        "As DuckDB's message says; `--engine spark` has the functions and types of Spark.",
    ),
    "query.parameter": Remedy(
        "A client bound a value that is not of the type it declared, or text that is no value of that type.",
        "Bind a value of the type, or cast the parameter in the query: `$1::date`.",
    ),
    "query.read_only": Remedy(
        "A client of PostgreSQL's protocol sent INSERT, GRANT, COPY FROM or the like.",
        "Change data at its source, and a view by `CREATE OR REPLACE VIEW`, or in its file and `headrace apply`.",
    ),
    "query.canceled": Remedy(
        "The client cancelled it (Ctrl-C in psql), or the server ended.",
        "Ask again; or make it a view, which is kept up to date.",
    ),
    "psql.protocol": Remedy(
        "What connects is no client of PostgreSQL, or its message is longer than 16 MiB or comes out of order.",
        "Connect with psql or a driver for PostgreSQL, and send large values in parts.",
    ),
    "psql.password": Remedy(
        "The password is no token, or the connection is neither encrypted nor from this machine.",
        "Give a token as the password; from another machine with `sslmode=require` ([psql](psql.md)).",
    ),
    "psql.port": Remedy(
        "Another process, perhaps another project, listens on the port of `psql:` in headrace.yaml.",
        "Stop it, or give this project another port: `psql: {port: 7433}`.",
    ),
    "psql.busy": Remedy(
        "A pool is larger than `psql.connections`, or a client never closes what it prepares or declares.",
        "End connections that are not used, use a smaller pool, or raise `psql.connections` in headrace.yaml.",
    ),
    "psql.full": Remedy(
        "Large statements, values or settings are kept in a connection and never closed, or savepoints never released.",
        "DEALLOCATE, CLOSE and RELEASE what is not used any more; DISCARD ALL, or a new connection, keeps none of it.",
    ),
    "psql.stopped": Remedy(
        "`headrace up` is ending while a client connects.",
        "Connect again once `headrace up` runs.",
    ),
    "psql.setting": Remedy(
        "A client sets what PostgreSQL has and Headrace has not, or an encoding or style of dates that is not offered.",
        "Leave the setting out; `SHOW ALL` lists those that there are.",
    ),
    "psql.unknown": Remedy(
        "The client executes a statement that it did not prepare in this connection, as behind a pool of transactions.",
        "Prepare it first, or turn prepared statements off in the driver when a pool is between.",
    ),
    "psql.cursor": Remedy(
        "A cursor ends with its transaction, and outside of one none can be declared without hold.",
        "Put DECLARE and FETCH between BEGIN and COMMIT, or declare it WITH HOLD.",
    ),
    "psql.exists": Remedy(
        "A name of a statement, portal or cursor is used twice in one connection.",
        "Close or deallocate the first one, or take another name.",
    ),
    "psql.changed": Remedy(
        "A view that a prepared statement reads, or that is subscribed to, was edited since.",
        "Prepare the statement, or SUBSCRIBE, anew; a new connection does.",
    ),
    "psql.outside": Remedy(
        "SAVEPOINT, RELEASE or ROLLBACK TO comes before BEGIN, or the driver commits after each statement.",
        "Send BEGIN first, or turn the driver's autocommit off.",
    ),
    "psql.savepoint": Remedy(
        "`ROLLBACK TO` or `RELEASE` names a savepoint that this transaction has not, or not any more.",
        "`SAVEPOINT name` makes one; it ends with its transaction.",
    ),
    "psql.transaction": Remedy(
        "A statement of this transaction failed before.",
        "ROLLBACK, then begin anew; savepoints keep a failure to themselves.",
    ),
    "api.port": Remedy(
        "Another project, or another program, listens there.",
        "`api: {port: 7080}` in headrace.yaml names another one; without `port` a free one is taken.",
    ),
    "api.unreachable": Remedy(
        "No `headrace up` runs at that address, or it serves no API, or a proxy in between answers in its place.",
        "`api: {port: 7080}` in headrace.yaml, then `headrace up`; `headrace status` tells the address.",
    ),
    "api.request": Remedy(
        "A parameter or the body of a request is not of the form that its route takes.",
        "As the error says; the routes are in [the HTTP API](api.md), their contract at `/api/openapi.json`.",
    ),
    "api.route": Remedy(
        "The path is spelled wrong, or is asked with another method.",
        "The routes are in [the HTTP API](api.md).",
    ),
    "row.unknown": Remedy(
        "The row was deleted, or never was.",
        "Ask by `rows` with a filter to see what there is; `at` shows what there was.",
    ),
    "access.token": Remedy(
        "The token was not sent, was cut off in copying, is over, or was revoked.",
        "Send `Authorization: Bearer TOKEN`; `headrace token ls` shows which are live.",
    ),
    "access.denied": Remedy(
        "The token's role is too small, or it is limited to some views and this is about more.",
        "An admin makes another one: `headrace token create NAME --role ROLE`.",
    ),
    "access.unknown": Remedy(
        "The id or the name is spelled wrong.",
        "`headrace token ls` shows all tokens with their ids.",
    ),
    "access.exists": Remedy(
        "A live token has that name: two that are told apart by nothing could not be told apart in the audit log.",
        "Take another name, or `headrace token revoke NAME` first.",
    ),
    "access.invalid": Remedy(
        "A name, a role, a pattern or a lifetime is not of the form that it must have.",
        "As the error says, which names what it takes.",
    ),
    "audit.failed": Remedy(
        "The disk is full, or the folder `.headrace/audit` cannot be written.",
        "Make room, or give back the right to write there; nothing was changed.",
    ),
    "audit.damaged": Remedy(
        "An entry of the audit log was changed, removed or moved, or the disk damaged it.",
        "`headrace audit --verify` names the first; compare with a backup.",
    ),
}
