"""Rows that differ, as text: a line a view, the first rows, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.cli import display


def table(answer: Mapping[str, Any]) -> None:
    """The views of an answer of `verify` or `repair`, and the first rows that differ."""
    names = ("view", "rows", "differences", "quarantined", "seconds")
    items = [
        {**view, "quarantined": view.get("quarantined") or None, "seconds": f"{view['seconds']:.1f}"}
        for view in answer["views"]
    ]
    if items:
        display.records(names, items)
    for view in answer["views"]:
        if view.get("diverged"):
            _line("diverged", "bold red", f"{view['view']}: {view['diverged']}")
        for row in view.get("first", []):
            text = ", ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in row["row"].items())
            wrong = f"{view['view']}: expected {row['expected']} of this row, found {row['found']}"
            _line("differs", "bold red", f"{wrong}: {text}")
        for addition in view.get("additions", []):
            _line("note", "cyan", f"{view['view']}: {addition} is not of the view; it is left alone")
    for view in answer.get("left_out", []):
        _line("left out", "yellow", f"{view['view']}: {view['why']}")


def found(answer: Mapping[str, Any]) -> str:
    """``2 differences in 1,200 rows of 3 views``, and where: at a commit, in a sink."""
    rows = sum(view["rows"] for view in answer["views"])
    differences = f"{display.counted(answer['differences'], 'difference')} in {display.counted(rows, 'row')}"
    broken = sum(bool(view.get("diverged")) for view in answer["views"])
    if broken:
        differences += f", {display.counted(broken, 'diverged table')},"
    where = f" of the sink {display.plain(answer['sink'])}" if "sink" in answer else ""
    commit = f" at commit {answer['commit']:,}" if answer["commit"] is not None else ""
    return f"{differences} of {display.counted(len(answer['views']), 'view')}{where}{commit}"


def same(answer: Mapping[str, Any]) -> bool:
    """Whether nothing differs, nor a table of a sink has another form."""
    return bool(answer.get("same", not answer["differences"]))


def _line(label: str, style: str, text: str) -> None:
    display.say(f"  {display.paint(label, style)} {display.plain(text)}")
