"""Transactions of the log as they are printed: blocks of text, or an object a line. Never a whole one in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.cli import display

if TYPE_CHECKING:
    from headrace.serve.history import Transaction

STYLES = {"insert": "green", "upsert": "green", "delete": "red", "truncate": "red", "update": ""}


def tell(transactions: Iterable[Transaction], json: bool) -> None:
    """Print each as it comes: with ``json`` ``{"commit", "source", "position", "committed_at", "changes"}`` a line."""
    for transaction in transactions:
        if json:
            _object(transaction)
        else:
            _block(transaction)


def _object(transaction: Transaction) -> None:
    import orjson

    from headrace.serve.history import spelled

    head = orjson.dumps({"commit": transaction.commit, **_head(transaction)}).decode()
    write = sys.stdout.write
    write(f'{head[:-1]},"changes":[')
    between = ""
    for table, part in transaction.changes:
        write(between + orjson.dumps(spelled(table, part))[1:-1].decode())
        between = ","
    write("]}\n")
    sys.stdout.flush()


def _block(transaction: Transaction) -> None:
    from headrace.serve.history import spelled

    head = _head(transaction)
    title = f"commit {transaction.commit:,}  {head['committed_at']}  {head['source']}  {head['position']}"
    sys.stdout.write(display.paint(display.cut(display.plain(title)), "bold") + "\n")
    for table, part in transaction.changes:
        sys.stdout.writelines(_line(change) for change in spelled(table, part))
    sys.stdout.flush()


def _head(transaction: Transaction) -> dict[str, Any]:
    from headrace.serve.history import time_text

    origin = transaction.origin
    return {"source": origin.source, "position": origin.position, "committed_at": time_text(origin.committed_us)}


def _line(change: Mapping[str, Any]) -> str:
    values = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in change["row"].items())
    text = display.cut(f"  {change['op']:<8} {display.plain(change['table'])}  {values}".rstrip())
    # A colour costs as much as all the rest: only where it is seen.
    return (display.paint(text, STYLES[change["op"]]) if sys.stdout.isatty() else text) + "\n"
