"""A letter as a mail: subject, text, a table of its rows. Nothing in a row can become a header or markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from itertools import islice
from typing import Any

import orjson

from headrace.sinks.alerts.happened import FIELDS
from headrace.sinks.alerts.outbox import Letter
from headrace.sinks.connectors.mail.config import MailOptions
from headrace.sinks.connectors.mail.template import Template

ROWS_MAX = 50  # of a mail; of the rest it says how many they are
CELL_MAX = 120  # characters of a value in a table
VALUE_MAX = 2_000  # and in a template
SUBJECT_MAX = 200
_POLICY = SMTP.clone(cte_type="7bit")  # every server takes it
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class _Row:
    event: str  # entered, left, changed
    row: dict[str, Any]
    before: dict[str, Any] | None


def composed(letter: Letter, bodies: Iterable[bytes], options: MailOptions) -> EmailMessage:
    """The same mail each time, whenever it is sent."""
    rows = list(islice(_rows(bodies), ROWS_MAX))
    more = sum(letter.counts) - len(rows)
    message = EmailMessage(policy=_POLICY)
    message["From"] = options.sender
    message["To"] = options.to
    message["Subject"] = _subject(letter, rows, more, options.subject)
    message["Date"] = format_datetime(datetime.fromtimestamp(letter.taken_us // 1_000_000, UTC))
    message["Message-ID"] = f"<{letter.id}@{options.sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"  # so that nobody's holiday reply answers
    if options.body is not None:
        message.set_content(_filled(letter, rows, more, options.body))
        return message
    head = f"{letter.view} at commit {letter.commit}: {_counted(letter)}"
    message.set_content("\n\n".join([head, *_tables(rows), *_rest(more)]) + "\n")
    message.add_alternative(_page(head, rows, more), subtype="html")
    message.set_boundary(f"={letter.id}")
    return message


def _rows(bodies: Iterable[bytes]) -> Iterator[_Row]:
    for body in bodies:
        told = orjson.loads(body)
        for field in FIELDS.values():
            for row in told.get(field, ()):
                changed = field == FIELDS["change"]
                yield _Row(field, row["after"] if changed else row, row["before"] if changed else None)


def _subject(letter: Letter, rows: list[_Row], more: int, template: Template | None) -> str:
    if template is None:
        return _line(f"{letter.view}: {_counted(letter)}", SUBJECT_MAX)
    text = template.filled(_values(letter, rows[0], VALUE_MAX))
    others = len(rows) - 1 + more
    tail = f" (and {others:,} more)" if template.of_rows and others else ""
    return _line(text, SUBJECT_MAX - len(tail)) + tail


def _filled(letter: Letter, rows: list[_Row], more: int, template: Template) -> str:
    if not template.of_rows:
        return _lines(template.filled(_values(letter, rows[0], VALUE_MAX))).rstrip("\n") + "\n"
    parts = [_lines(template.filled(_values(letter, row, VALUE_MAX))).rstrip("\n") for row in rows]
    between = "\n\n" if any("\n" in part for part in parts) else "\n"
    return between.join([*parts, *_rest(more)]) + "\n"


def _values(letter: Letter, row: _Row, most: int) -> dict[str, str]:
    values = {name: _cut(_text(value), most) for name, value in row.row.items()}
    counted = {"view": letter.view, "commit": str(letter.commit), "count": str(sum(letter.counts))}
    return values | counted | {"event": row.event}


def _counted(letter: Letter) -> str:
    (most, word), *others = [(n, word) for word, n in zip(FIELDS.values(), letter.counts, strict=True) if n]
    return ", ".join([f"{most:,} row{'' if most == 1 else 's'} {word}", *(f"{n:,} {word}" for n, word in others)])


def _rest(more: int) -> list[str]:
    return [f"and {more:,} more"] if more else []


def _tables(rows: list[_Row]) -> Iterator[str]:
    for event, names, cells in _grids(rows):
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
        lines = [[*names], ["-" * width for width in widths], *cells]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        yield "\n".join([f"{event}:", *shown])


def _page(head: str, rows: list[_Row], more: int) -> str:
    parts = [f"<p>{html.escape(_line(head, CELL_MAX))}</p>"]
    for event, names, cells in _grids(rows):
        titles = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in line) + "</tr>\n" for line in cells)
        table = '<table border="1" cellpadding="4" style="border-collapse: collapse">'
        parts.append(f"<p>{event}:</p>\n{table}\n<tr>{titles}</tr>\n{lines}</table>")
    return "\n".join([*parts, *(f"<p>{rest}</p>" for rest in _rest(more))]) + "\n"


def _grids(rows: list[_Row]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """(event, column names, cells) of each kind of event that there is."""
    for event in FIELDS.values():
        some = [row for row in rows if row.event == event]
        if some:
            names = list(dict.fromkeys(name for row in some for name in row.row))  # more, where the view was edited
            yield (
                event,
                [_line(name, CELL_MAX) for name in names],
                [[_cell(row, name) for name in names] for row in some],
            )


def _cell(row: _Row, name: str) -> str:
    if name not in row.row:
        return ""
    after = _line(_text(row.row[name]), CELL_MAX)
    if row.before is None or row.before[name] == row.row[name]:
        return after
    return f"{_line(_text(row.before[name]), CELL_MAX)} -> {after}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _line(text: str, most: int) -> str:
    return _cut(_CONTROL.sub("", " ".join(text.split())), most)


def _lines(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
