"""Goal: who may do what is exactly the table below. Method: it is written here a second time, by hand, role by role.

Names of relations that hide something are drawn at random, and judged by comparing letters.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.control.verbs import VERBS
from headrace.governance.principal import PATTERN, Principal, allowed, local, require
from headrace.governance.roles import RULES, Action, Role
from headrace.model.errors import HeadraceError

VIEWER = "read show sql wait status frontier top explain lineage"
EDITOR = (
    "plan apply create define drop quarantine_fix quarantine_replay quarantine_drop query_add query_change query_remove"
)
OPERATOR = "sink_pause sink_resume alert_replay alert_drop group_create group_drop group_dead_replay group_dead_drop verify profile rebuild repair log_retain log_compact backup migrate stop"
ADMIN = "connector token_list token_create token_revoke audit"
MAY = {
    "viewer": VIEWER.split(),
    "editor": f"{VIEWER} {EDITOR}".split(),
    "operator": f"{VIEWER} {EDITOR} {OPERATOR}".split(),
    "admin": f"{VIEWER} {EDITOR} {OPERATOR} {ADMIN}".split(),
}
# What a limited token may do where its role permits: to what it reaches, and with no relation named.
TO_ONE = ["read", "show", "sql", "wait", "quarantine_fix", "quarantine_replay", "quarantine_drop", "query_add", "query_change",
          "query_remove", "rebuild", "explain", "lineage"]  # fmt: skip
TO_NONE = ["read", "lineage"]
UNWRITTEN = [
    "read",
    "show",
    "sql",
    "wait",
    "status",
    "frontier",
    "top",
    "explain",
    "lineage",
    "plan",
    "verify",
    "profile",
    "token_list",
    "audit",
]
CASES = [(role, action) for role in Role for action in Action]


@pytest.mark.parametrize(("role", "action"), CASES)
def test_an_action_takes_its_role(role: Role, action: Action) -> None:
    for relation in (None, "orders"):
        assert allowed(Principal("p", role), action, relation) == (action in MAY[role])
        code = "" if action in MAY[role] else "access.denied"
        assert refusal(Principal("p", role), action, relation) == code


@pytest.mark.parametrize(("role", "action"), [case for case in CASES if case[0] is not Role.ADMIN])
def test_a_limited_token_does_what_its_role_may_to_what_it_reaches(role: Role, action: Action) -> None:
    limited = Principal("p", role, ("orders", "sales_*"), "4fd9d7fc")
    may, one = action in MAY[role], action in TO_ONE
    assert allowed(limited, action, "sales_2026") == (may and one)
    assert allowed(limited, action, "ORDERS") == (may and one)
    assert not allowed(limited, action, "orders_2026")
    assert allowed(limited, action, None) == (may and action in TO_NONE)
    assert refusal(limited, action, "salaries") == ("view.unknown" if may and one else "access.denied")


@pytest.mark.parametrize(("role", "action"), [case for case in CASES if case[0] is not Role.ADMIN])
def test_a_role_of_its_own_on_some_relations_counts_there_alone(role: Role, action: Action) -> None:
    """A viewer of all, or of some; ``role`` of the sales."""
    one = action in TO_ONE
    for grants, elsewhere in (((), "viewer"), (("orders",), "viewer")):
        raised = Principal("p", Role.VIEWER, grants, "4fd9d7fc", ((role, "sales_*"),))
        if one:
            assert allowed(raised, action, "Sales_2026") == (action in MAY[role])
            assert allowed(raised, action, "orders") == (action in MAY[elsewhere])
            assert allowed(raised, action, "salaries") == (not grants and action in MAY[elsewhere])
        else:
            assert allowed(raised, action, "sales_2026") == (not grants and action in MAY[elsewhere])
        assert allowed(raised, action, None) == allowed(Principal("p", Role.VIEWER, grants), action, None)
    limited = Principal("p", Role.VIEWER, ("orders",), "", ((role, "sales_*"),))
    assert (limited.reaches("SALES_1"), limited.reaches("salaries")) == (True, False)
    assert refusal(limited, Action.READ, "salaries") == "view.unknown"
    assert refusal(limited, Action.QUERY_ADD, "orders") == "access.denied"


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
@pytest.mark.parametrize("action", list(Action))
def test_a_lesser_role_on_what_is_not_reached_otherwise_is_all_that_counts_there(role: Role, action: Action) -> None:
    """Of some, in a role that may much; a viewer of the sales."""
    if action in TO_ONE:
        mixed = Principal("p", role, ("orders",), "4fd9d7fc", ((Role.VIEWER, "sales_*"),))
        assert allowed(mixed, action, "sales_2026") == (action in MAY["viewer"])
        assert allowed(mixed, action, "orders") == (action in MAY[role])
        everywhere = Principal("p", role, (), "4fd9d7fc", ((Role.VIEWER, "sales_*"),))
        assert allowed(everywhere, action, "sales_2026") == (action in MAY[role])


def refusal(principal: Principal, action: Action, relation: str | None) -> str:
    try:
        require(principal, action, relation)
    except HeadraceError as error:
        return error.code
    return ""


def test_every_action_is_in_the_table_once_and_every_verb_has_one() -> None:
    assert sorted(MAY["admin"]) == sorted(action.value for action in Action)
    assert set(RULES) == set(Action)
    assert {Action(verb) for verb in VERBS} <= set(Action)
    assert {action.value for action, rule in RULES.items() if not rule.changes} == set(UNWRITTEN)


def test_what_is_not_reached_is_not_told_of() -> None:
    """There may be such a view or not: the error is the same, but for the name that was asked for."""
    limited = Principal("p", Role.VIEWER, ("sales_*",))
    told = []
    for name in ("salaries", "no_such_view"):
        with pytest.raises(HeadraceError) as refused:
            require(limited, Action.READ, name)
        told.append(str(refused.value).replace(name, "X"))
    assert told[0] == told[1] == "[view.unknown] there is no view or table 'X'\n  next: this token reaches: sales_*"


def test_a_refusal_names_who_what_and_the_role_that_it_takes() -> None:
    with pytest.raises(HeadraceError) as refused:
        require(Principal("dashboard", Role.VIEWER), Action.STOP)
    assert refused.value.as_dict() == {
        "code": "access.denied",
        "what": "'dashboard' may not do this: stop",
        "where": "",
        "why": "its role is viewer, and this takes operator",
        "next": "an admin makes another token: `headrace token create NAME --role operator`",
    }


def test_who_is_at_the_machine_may_do_all() -> None:
    assert local().name
    assert all(allowed(local(), action) for action in Action)


def taken(name: str, pattern: str) -> bool:
    """Letter by letter, with no expression: the slow way."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return taken(name, pattern[1:]) or (bool(name) and taken(name[1:], pattern))
    return bool(name) and pattern[0] in ("?", name[0]) and taken(name[1:], pattern[1:])


@given(st.text("aB_.$", max_size=7), st.text("ab_.$*?", min_size=1, max_size=6))
def test_patterns_take_the_names_that_they_say(name: str, pattern: str) -> None:
    assert PATTERN.fullmatch(pattern)
    principal = Principal("p", Role.VIEWER, (pattern,))
    assert principal.reaches(name) == taken(name.lower(), pattern.lower())


@pytest.mark.parametrize(
    "name", ["orders\n", "orders\x00", "x\norders", " orders", "ordersa", "order", "", "../orders"]
)
def test_a_name_that_only_resembles_a_limit_is_not_reached(name: str) -> None:
    assert not Principal("p", Role.VIEWER, ("orders",)).reaches(name)
    assert not allowed(Principal("p", Role.VIEWER, ("orders",)), Action.READ, name)
