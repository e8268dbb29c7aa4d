"""headrace plan"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace plan             # what `headrace up` or `headrace apply` would do now
headrace plan --json | jq '.views[] | select(.refused)'
"""
_SIGNS = {"create": ("+", "green"), "replace": ("~", "yellow"), "drop": ("-", "red"), "keep": (" ", "dim")}
_DONE = {"create": "to create", "replace": "to replace", "drop": "to drop", "keep": "unchanged"}


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Show what the definitions would change, and change nothing.

    Which tables are replicated, which views are made, replaced or dropped and what depends on them, and for
    each view whether it is kept up to date incrementally and how, or why it is refused. Of a source that does not say
    its tables, why; other views are planned all the same. Exit status 1 when a view is refused or a source not read.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("planning") as progress:
        answer = call(path, "plan", {}, progress)
    if json:
        display.emit(answer)
    else:
        show(answer)
    if answer.get("unread") or any(view.get("refused") for view in answer.get("views", [])):
        raise typer.Exit(1)


def show(answer: Mapping[str, Any], done: bool = False) -> None:
    """A plan as text; ``done`` when it tells what was carried out."""
    views = {view["name"]: view for view in answer.get("views", [])}
    changes = answer.get("changes", [])
    if not changes:
        display.say("Nothing is defined yet. Add sources/NAME.yaml and views/NAME.sql.")
    width = max((len(f"{change['kind']} {change['name']}") for change in changes), default=0)
    for change in changes:
        sign, style = _SIGNS.get(change["action"], ("?", ""))
        view = views.get(change["name"], {}) if change["kind"] == "view" else {}
        tables = answer.get("tables", {}).get(change["name"]) if change["kind"] == "source" else None
        notes = [change.get("reason", ""), _how(view), f"tables {', '.join(tables)}" if tables else ""]
        note = "; ".join(display.plain(part) for part in notes if part)
        line = f"{change['kind']} {display.plain(change['name'])}".ljust(width)
        display.say(f"  {display.paint(f'{sign} {line}', style)}  {note}".rstrip())
        if change.get("affects"):
            display.say(f"      affects {display.plain(', '.join(change['affects']))}")
        if change["kind"] == "source":
            _error("not read", answer.get("unread", {}).get(change["name"]))
        for warning in view.get("warnings", []):
            display.say(f"      {display.paint('warning', 'yellow')}: {display.plain(warning)}")
        _error("refused", view.get("refused"))
    _functions(answer.get("functions", []))
    for warning in answer.get("warnings", []):
        display.say(f"\n{display.paint('warning', 'yellow')}: {display.plain(warning)}")
    refused = {name for name, view in views.items() if view.get("refused")}
    display.say(f"\n{'Done' if done else 'Plan'}: {_sum(changes, refused)}.")


def _functions(functions: Sequence[Mapping[str, Any]]) -> None:
    """Code that runs, or would, with the rights of the product."""
    for function in functions:
        calls = f"called by {', '.join(function['views'])}" if function["views"] else "called by no view"
        note = calls if function["allowed"] else "not allowed to run: headrace.yaml does not say `code: true`"
        line = f"code {function['name']}  {function['file']}; {note}"
        display.say(f"    {display.plain(line)}")


def _how(view: Mapping[str, Any]) -> str:
    if not view or view.get("refused"):
        return ""
    operators = ", ".join(str(operator) for operator in view.get("operators", []))
    kind = "incremental" if view.get("incremental") else "recomputed"
    return f"{kind}: {operators}" if operators else kind


def _error(word: str, error: Mapping[str, str] | None) -> None:
    if error:
        what = f"[{error['code']}] {display.plain(error['what'])}"
        display.say(f"      {display.paint(word, 'bold red')} {what}")
        for part in ("where", "why", "next"):
            if error.get(part):
                display.say(f"        {part + ':':<6} {display.lines(error[part], 15)}")


def _sum(changes: list[Mapping[str, Any]], refused: Collection[str]) -> str:
    taken = [change["action"] for change in changes if change["kind"] != "view" or change["name"] not in refused]
    counts = [(taken.count(action), word) for action, word in _DONE.items()] + [(len(refused), "refused")]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing to do"
