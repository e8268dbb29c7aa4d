"""What each route needs: the one place that says who may reach what."""

from __future__ import annotations

from typing import Literal

# From little to much. A role may do what it names and all that stands before it.
Action = Literal["none", "read", "define", "operate", "administer"]
ROLES: dict[str, tuple[Action, ...]] = {
    "viewer": ("none", "read"),
    "editor": ("none", "read", "define"),
    "operator": ("none", "read", "define", "operate"),
    "admin": ("none", "read", "define", "operate", "administer"),
}

ACTIONS: dict[str, Action] = {
    "GET /health": "none",
    "POST /session": "none",
    "DELETE /session": "none",
    "GET /me": "read",
    "GET /status": "read",
    "GET /top": "read",
    "GET /frontier": "read",
    "GET /lineage": "read",
    "GET /sources": "read",
    "GET /sinks": "read",
    "GET /views": "read",
    "GET /views/{name}": "read",
    "GET /views/{name}/rows": "read",
    "GET /views/{name}/row": "read",
    "GET /views/{name}/explain": "read",
    "GET /views/{name}/changes": "read",
    "GET /feeds": "read",
    "GET /feeds/{name}/transactions": "read",
    "POST /sql": "read",
    "POST /wait": "read",
    "GET /quarantine": "read",
    "POST /plan": "define",
    "POST /apply": "define",
    "POST /quarantine/{id}/replay": "define",
    "POST /quarantine/{id}/fix": "define",
    "DELETE /quarantine/{id}": "define",
    "GET /metrics": "read",
}
