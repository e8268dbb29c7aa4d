"""What each route does, as the table of roles names it: the one place that says who may reach what."""

from __future__ import annotations

from headrace.governance.roles import Action

# METHOD PATH, with the names of its parameters; None: no token is needed.
ACTIONS: dict[str, Action | None] = {
    "GET /health": None,
    "POST /session": None,
    "DELETE /session": None,
    "GET /me": Action.READ,
    "GET /status": Action.STATUS,
    "GET /sources": Action.STATUS,
    "GET /sinks": Action.STATUS,
    "GET /lineage": Action.STATUS,
    "GET /metrics": Action.STATUS,
    "GET /top": Action.TOP,
    "GET /frontier": Action.FRONTIER,
    "GET /views": Action.READ,
    "GET /views/{name}": Action.READ,
    "GET /views/{name}/versions": Action.READ,
    "GET /views/{name}/rows": Action.READ,
    "GET /views/{name}/series": Action.READ,
    "GET /views/{name}/row": Action.READ,
    "GET /views/{name}/changes": Action.READ,
    "GET /views/{name}/search": Action.READ,
    "GET /views/{name}/explain": Action.EXPLAIN,
    "GET /views/{name}/lineage": Action.LINEAGE,
    "GET /feeds": Action.READ,
    "GET /feeds/{name}/transactions": Action.READ,
    "POST /sql": Action.SQL,
    "POST /wait": Action.WAIT,
    "POST /plan": Action.PLAN,
    "POST /apply": Action.APPLY,
    "POST /sinks/{sink}/pause": Action.SINK_PAUSE,
    "POST /sinks/{sink}/resume": Action.SINK_RESUME,
    "GET /quarantine": Action.READ,
    "POST /quarantine/{id}/replay": Action.QUARANTINE_REPLAY,
    "POST /quarantine/{id}/fix": Action.QUARANTINE_FIX,
    "DELETE /quarantine/{id}": Action.QUARANTINE_DROP,
    "GET /tokens": Action.TOKEN_LIST,
    "POST /tokens": Action.TOKEN_CREATE,
    "DELETE /tokens/{id}": Action.TOKEN_REVOKE,
    "GET /audit": Action.AUDIT,
}
