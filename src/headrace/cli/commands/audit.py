"""headrace audit"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.access import since
from headrace.cli.options import JsonOption, ProjectOption, folder
from headrace.governance.chain import REMOVED
from headrace.governance.roles import RULES, Action
from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.governance.audit import AuditLog, Event

EPILOG = """
headrace audit
headrace audit --who dashboard --outcome refused --since 7d
headrace audit --action token_create --json | jq .entries
headrace audit --verify                   # note the head that it tells elsewhere, and later:
headrace audit --verify --head 42:9f2c...
"""
ACTIONS = (*sorted(action for action, rule in RULES.items() if rule.changes), Action.AUDIT, REMOVED, "connect")
OUTCOMES = ("begun", "done", "failed", "refused")
FIELDS = ("number", "at", "who", "action", "relation", "outcome", "address", "detail")


def run(
    *,
    who: Annotated[
        str | None, typer.Option("--who", metavar="NAME", help="Only what that token, or user, did.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="ACTION", help="Only this: apply, rebuild, token_create, ...")
    ] = None,
    relation: Annotated[
        str | None, typer.Option("--relation", metavar="NAME", help="Only what concerned that view or table.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="OUTCOME", help="Only: begun, done, failed or refused.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only from then on: 2h, 7d or 2026-03-01T08:00.")
    ] = None,
    most: Annotated[
        int, typer.Option("-n", "--most", metavar="N", min=1, help="The last N entries. Default: 50.")
    ] = 50,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that no entry was changed, removed or moved; exit status 1 if so.")
    ] = False,
    head: Annotated[
        str, typer.Option("--head", metavar="HEAD", help="With --verify: one noted before, which must still be there.")
    ] = "",
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show what was done and by whom, and what was refused.

    Every change, every refusal and every token made or revoked is an entry, sealed by a hash over itself and the one
    before. What was done is two of them: begun, and done or failed; the text shows the first only where the second is
    missing. Reads are not written down, but of this log. Works beside a running `headrace up` and without one.
    """
    from headrace.catalog.project import STATE
    from headrace.governance.audit import AuditLog, Event, Wanted
    from headrace.governance.principal import local

    if head and not verify:
        raise typer.BadParameter("it is for --verify", param_hint="--head")
    if action is not None and action not in ACTIONS:
        raise typer.BadParameter(f"'{action}' is none of {', '.join(ACTIONS)}", param_hint="--action")
    if outcome is not None and outcome not in OUTCOMES:
        raise typer.BadParameter(f"'{outcome}' is none of {', '.join(OUTCOMES)}", param_hint="--outcome")
    since_us = since(start) if start else None
    log = AuditLog(folder(project) / STATE)
    wanted = Wanted(who, action, relation, outcome, since_us)
    read = Event(local().name, Action.AUDIT, "done", address="local", detail=wanted.detail())
    if verify:
        verdict = log.verify(head).as_dict()
        _note(log, replace(read, detail={"verify": "yes"}))
        _show_verdict(verdict, json)
        return
    entries, unreadable = log.recent(wanted, most if json else 2 * most)  # an end has its beginning before it
    _note(log, read)
    if json:
        display.emit({"entries": entries, "unreadable": unreadable})
        return
    if entries:
        display.records(FIELDS, _settled(entries)[-most:])
    else:
        display.say("no entries")
    if unreadable:
        lines = display.counted(unreadable, "line")
        display.say(f"{lines} cannot be read: `headrace audit --verify` names the first", error=True)


def _note(log: AuditLog, read: Event) -> None:
    """That it was read; where nothing is kept yet, there was nothing to read."""
    if log.folder.parent.is_dir():
        log.note(read)


def _settled(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Without what began that which is done, or has failed."""
    ended = {entry["of"] for entry in entries if entry["of"] is not None}
    return [{**entry, "detail": _detail(entry["detail"])} for entry in entries if entry["number"] not in ended]


def _detail(detail: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in detail.items() if value not in (None, ""))


def _show_verdict(verdict: Mapping[str, Any], json: bool) -> None:
    """Raises ``audit.damaged`` in text; in JSON the verdict says it, with exit status 1."""
    damage = verdict["damage"]
    if json:
        display.emit(verdict)
        if damage is not None:
            raise typer.Exit(1)
        return
    if damage is not None:
        raise HeadraceError(
            "audit.damaged", f"entry {damage['number']:,} of the audit log is not as it was written",
            where=f"{damage['file']}, offset {damage['offset']:,}" if damage["file"] else "",
            why=f"{damage['why']}; before it {_entries(verdict)} as written",
            next="compare with a backup, or with a copy of the log elsewhere",
        )  # fmt: skip
    removed = f"; {verdict['removed']:,} before them were removed, as headrace.yaml says" if verdict["removed"] else ""
    display.say(display.paint(f"sound: {_entries(verdict)} as written{removed}", "green"))
    display.say(f"head {verdict['head']}")


def _entries(verdict: Mapping[str, Any]) -> str:
    count = verdict["entries"]
    return f"{count:,} {'entry is' if count == 1 else 'entries are'}"
