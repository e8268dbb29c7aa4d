"""What can be done in a project, and the least role that may do it: one table, for whoever asks.

Actions have the names of the verbs of ``control``, so that each verb finds its own here; the others are of the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class Role(StrEnum):
    """Each may do what those before it may."""

    VIEWER = "viewer"  # reads
    EDITOR = "editor"  # also changes definitions, and settles what is in the quarantine
    OPERATOR = "operator"  # also runs it: pauses, rebuilds, keeps safe, stops
    ADMIN = "admin"  # also says who may do what, and reads what was done

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {role: rank for rank, role in enumerate(Role)}


class Action(StrEnum):
    """What can be done. ``Action(verb)`` is a verb's."""

    READ = "read"  # rows, changes, lists of views and tables, searches
    SHOW = "show"
    SQL = "sql"
    WAIT = "wait"
    STATUS = "status"  # of the whole project: also its sources, sinks and metrics
    FRONTIER = "frontier"
    TOP = "top"
    EXPLAIN = "explain"
    LINEAGE = "lineage"  # of columns
    PLAN = "plan"
    APPLY = "apply"
    CREATE = "create"
    DEFINE = "define"  # several CREATE and DROP as one
    DROP = "drop"
    CONNECTOR = "connector"  # the CREATE or DROP of a source or a sink, from afar
    QUARANTINE_FIX = "quarantine_fix"
    QUARANTINE_REPLAY = "quarantine_replay"
    QUARANTINE_DROP = "quarantine_drop"
    QUERY_ADD = "query_add"
    QUERY_CHANGE = "query_change"
    QUERY_REMOVE = "query_remove"
    SINK_PAUSE = "sink_pause"
    SINK_RESUME = "sink_resume"
    ALERT_REPLAY = "alert_replay"
    ALERT_DROP = "alert_drop"
    GROUP_CREATE = "group_create"
    GROUP_DROP = "group_drop"
    GROUP_DEAD_REPLAY = "group_dead_replay"
    GROUP_DEAD_DROP = "group_dead_drop"
    VERIFY = "verify"
    PROFILE = "profile"
    REBUILD = "rebuild"
    REPAIR = "repair"
    LOG_RETAIN = "log_retain"
    LOG_COMPACT = "log_compact"
    BACKUP = "backup"
    MIGRATE = "migrate"
    STOP = "stop"
    TOKEN_LIST = "token_list"
    TOKEN_CREATE = "token_create"
    TOKEN_REVOKE = "token_revoke"
    AUDIT = "audit"


class Scope(Enum):
    """What an action is about, and so what a token that is limited to some relations may do."""

    LISTED = auto()  # relations; asked without one, its answer tells of no relation that the token does not reach
    EACH = auto()  # relations: who asks names each that is touched, and without one it is about all
    PROJECT = auto()  # more than any relation: never for a limited token


@dataclass(frozen=True, slots=True)
class Rule:
    """``least``: the role that it takes; ``changes``: whether it is written down in the audit log."""

    least: Role
    scope: Scope = Scope.PROJECT
    changes: bool = True


RULES: dict[Action, Rule] = {
    Action.READ: Rule(Role.VIEWER, Scope.LISTED, changes=False),
    Action.SHOW: Rule(Role.VIEWER, Scope.EACH, changes=False),
    Action.SQL: Rule(Role.VIEWER, Scope.EACH, changes=False),
    Action.WAIT: Rule(Role.VIEWER, Scope.EACH, changes=False),
    Action.STATUS: Rule(Role.VIEWER, changes=False),
    Action.FRONTIER: Rule(Role.VIEWER, changes=False),
    Action.TOP: Rule(Role.VIEWER, changes=False),
    Action.EXPLAIN: Rule(Role.VIEWER, Scope.EACH, changes=False),
    Action.LINEAGE: Rule(Role.VIEWER, Scope.LISTED, changes=False),
    Action.PLAN: Rule(Role.EDITOR, changes=False),
    Action.APPLY: Rule(Role.EDITOR),
    Action.CREATE: Rule(Role.EDITOR),
    Action.DEFINE: Rule(Role.EDITOR),
    Action.DROP: Rule(Role.EDITOR),
    Action.CONNECTOR: Rule(Role.ADMIN),
    Action.QUARANTINE_FIX: Rule(Role.EDITOR, Scope.EACH),
    Action.QUARANTINE_REPLAY: Rule(Role.EDITOR, Scope.EACH),
    Action.QUARANTINE_DROP: Rule(Role.EDITOR, Scope.EACH),
    Action.QUERY_ADD: Rule(Role.EDITOR, Scope.EACH),
    Action.QUERY_CHANGE: Rule(Role.EDITOR, Scope.EACH),
    Action.QUERY_REMOVE: Rule(Role.EDITOR, Scope.EACH),
    Action.SINK_PAUSE: Rule(Role.OPERATOR),
    Action.SINK_RESUME: Rule(Role.OPERATOR),
    Action.ALERT_REPLAY: Rule(Role.OPERATOR),
    Action.ALERT_DROP: Rule(Role.OPERATOR),
    Action.GROUP_CREATE: Rule(Role.OPERATOR),
    Action.GROUP_DROP: Rule(Role.OPERATOR),
    Action.GROUP_DEAD_REPLAY: Rule(Role.OPERATOR),
    Action.GROUP_DEAD_DROP: Rule(Role.OPERATOR),
    Action.VERIFY: Rule(Role.OPERATOR, changes=False),
    Action.PROFILE: Rule(Role.OPERATOR, changes=False),
    Action.REBUILD: Rule(Role.OPERATOR, Scope.EACH),
    Action.REPAIR: Rule(Role.OPERATOR),
    Action.LOG_RETAIN: Rule(Role.OPERATOR),
    Action.LOG_COMPACT: Rule(Role.OPERATOR),
    Action.BACKUP: Rule(Role.OPERATOR),
    Action.MIGRATE: Rule(Role.OPERATOR),
    Action.STOP: Rule(Role.OPERATOR),
    Action.TOKEN_LIST: Rule(Role.ADMIN, changes=False),
    Action.TOKEN_CREATE: Rule(Role.ADMIN),
    Action.TOKEN_REVOKE: Rule(Role.ADMIN),
    Action.AUDIT: Rule(Role.ADMIN, changes=False),
}
