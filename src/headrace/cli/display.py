"""What a person or a program reads: tables, JSON, progress, errors. Results go to stdout, all else to stderr."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.model.errors import HeadraceError
from headrace.model.pace import Pace

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.spinner import Spinner

PIPE_WIDTH = 100_000  # a table that goes to a file or a pipe is never cut
NARROW, WIDE = 75, 120  # columns of a terminal that leave a bar little room; that have room for numbers beside it
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_NUMBERS = re.compile(r"(tinyint|smallint|int|bigint|float|double|decimal)\b")


@dataclass(slots=True)
class Output:
    """How this command was asked to answer, and about which project; set once, by its options."""

    json: bool = False
    project: Path | None = None


OUTPUT = Output()


def plain(text: object, kept: str = "") -> str:
    """Text on one line that cannot steer the terminal: control and direction characters are written out.

    But those in ``kept``: line ends and tabs of a text that has them.
    """
    return _CONTROL.sub(lambda m: m[0] if m[0] in kept else _NAMED.get(m[0], f"\\u{ord(m[0]):04x}"), str(text))


def cell(value: Any) -> str:
    """A JSON value as a table shows it; NULL is told apart from the text 'NULL' by its colour only."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return plain(json.dumps(value, ensure_ascii=False))
    return plain(value)


def one_line(text: str) -> str:
    """The lines of a text as one."""
    return plain("; ".join(line.strip() for line in text.splitlines() if line.strip()))


def say(text: str = "", *, error: bool = False) -> None:
    """A line of text; to stderr when it is not the answer itself."""
    stream = sys.stderr if error else sys.stdout
    stream.write(text + "\n")
    stream.flush()


def emit(value: Mapping[str, Any], *, line: bool = False) -> None:
    """A JSON object on stdout: indented on a terminal, else (and with ``line``) on one line."""
    indent = 2 if sys.stdout.isatty() and not line else None
    say(json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":")))


def error(failure: HeadraceError) -> None:
    """An error on stderr: code and what, where, why, next, its page; as one JSON line with ``--json``."""
    if OUTPUT.json:
        say(json.dumps({"error": failure.as_dict()}), error=True)
        return
    from rich.text import Text

    text = Text()
    text.append("error", "bold red").append(f" [{failure.code}] ", "red").append(lines(failure.what, 2), "bold")
    for label, part in failure.parts():
        if part:
            text.append(f"\n  {label + ':':<6} ", "cyan").append(lines(part, 9))
    text.append("\n  help:  ", "cyan").append(f"headrace help {failure.code}", "dim")
    console(error=True).print(text, soft_wrap=True)


def behind(stale: Mapping[str, str]) -> None:
    """A line for each view that was read and has failed, with why."""
    for name, reason in stale.items():
        say(f"{paint(f'view {plain(name)} has failed', 'bold red')}: {one_line(reason)}")


def counted(number: int, what: str) -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def cut(text: str, width: int | None = None) -> str:
    """Text cut to ``width`` (default: that of the terminal) when it goes to a terminal; whole in a file or a pipe."""
    if not sys.stdout.isatty():
        return text
    width = width or shutil.get_terminal_size().columns
    return text if len(text) <= width else text[: width - 1] + "…"


def size(count: int) -> str:
    """``812 bytes``, ``3.4 MiB``."""
    if count < 1024:
        return f"{count} bytes"
    power = min(4, (count.bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.1f} {' KMGT'[power]}iB"


def pace(shown: Mapping[str, Any]) -> str:
    """``34,000/s, about 25 s left`` of what ``Pace.shown`` gives, as far as it is known; else ``for 3 s``, if that is.

    ``for_s``: since when it goes on.
    """
    fast, left = shown.get("per_s"), shown.get("left_s")
    parts = []
    if fast:
        number = size(int(fast)) if shown.get("unit") == "bytes" else f"{fast:,.0f}" if fast >= 10 else f"{fast:,.1f}"
        parts.append(f"{number}/s")
    if left:
        parts.append(f"about {duration(left)} left")
    elif (since := shown.get("for_s") or 0) >= 1:
        parts.append(f"for {duration(since)}")
    return ", ".join(parts)


def progress(event: Mapping[str, Any]) -> str:
    """What goes on, in a line: ``building view revenue, over rows: 200 of 1,200, 34/s, about 29 s left``.

    Of what can tell nothing before a part of it has ended, but for how long it goes on, there is no ``0 of``.
    """
    number = size if event.get("unit") == "bytes" else "{:,}".format
    total = event.get("total")
    parts = [event["done"]] if event.get("done") or ("done" in event and "for_s" not in event) else []
    of = " of ".join(map(number, parts + ([total] if total and "done" in event else [])))
    text = ": ".join(part for part in (plain(event.get("text", "")), of) if part)
    return ", ".join(part for part in (text, pace(event)) if part)


def copying(one: Mapping[str, Any]) -> str:
    """The copy of a table, of what ``Copying.shown`` gives."""
    rows = "" if one.get("unit") == "bytes" else ", rows"
    return progress({**one, "text": f"copying {one['table']}{rows}"})


def duration(seconds: float) -> str:
    """``25 s``, ``4 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def error_text(failure: Mapping[str, str] | str) -> str:
    """An error that came as a dict, or as text, in one line."""
    if isinstance(failure, str):
        return one_line(failure)
    rest = "; ".join(plain(failure[key]) for key in ("where", "why", "next") if failure.get(key))
    return f"[{failure.get('code', '?')}] {plain(failure.get('what', ''))}" + (f" ({rest})" if rest else "")


def lines(text: str, indent: int) -> str:
    """The lines of a text, made plain, below each other."""
    return ("\n" + " " * indent).join(plain(line) for line in text.splitlines())


def console(*, error: bool = False) -> Console:
    """A console on stdout or stderr; as wide as needed when it is no terminal."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def table(columns: Sequence[Mapping[str, str]], rows: Sequence[Sequence[Any]]) -> None:
    """Rows of JSON values as a table on stdout; ``columns`` as ``{"name", "type"}``, numbers to the right."""
    from rich.box import Box
    from rich.table import Table
    from rich.text import Text

    # A head and a rule: no frame, so that lines can be cut and searched.
    rule = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
    shown = Table(box=rule, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        right = _NUMBERS.match(column.get("type", "string")) is not None
        shown.add_column(Text(plain(column["name"])), justify="right" if right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell(value), "dim" if value is None else "") for value in row))
    console().print(shown)


def records(names: Sequence[str], items: Sequence[Mapping[str, Any]]) -> None:
    """Objects as a table of those of the columns ``names`` that any of them has."""
    present = [name for name in names if any(item.get(name) not in (None, "") for item in items)]
    kinds = ["bigint" if all(_number(item.get(name)) for item in items) else "string" for name in present]
    columns = [{"name": name.replace("_", " "), "type": kind} for name, kind in zip(present, kinds, strict=True)]
    table(columns, [["" if item.get(name) is None else item[name] for name in present] for item in items])


def _number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def paint(text: str, style: str) -> str:
    """Text in a style when stdout is a terminal that shows colour, else as it is."""
    from rich.text import Text

    with (out := console()).capture() as capture:
        out.print(Text(text, style), end="", soft_wrap=True)
    return capture.get()


@contextmanager
def spinning(text: str) -> Iterator[Spinner]:
    """A line on stderr, a terminal, that moves and whose text may be changed; what is said meanwhile goes above it."""
    from rich.live import Live
    from rich.spinner import Spinner

    line = Spinner("dots", text=text, style="status.spinner")
    # What goes to stdout passes by the line only where that is the terminal too.
    same = sys.stdout.isatty()
    with Live(line, console=console(error=True), refresh_per_second=12.5, transient=True, redirect_stdout=same):
        yield line


@contextmanager
def working(text: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Progress of something that may take long: a bar on stderr, from its second second, when that is a terminal.

    Gives the function that takes ``{"text", "done", "total"}``; how fast it goes and how long it takes is found here,
    where the event does not tell.
    """
    if not sys.stderr.isatty():
        yield lambda event: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column
    from rich.text import Text

    since = heard = time.monotonic()
    going, known = Pace(None), dict[str, Any]()

    class Fast(ProgressColumn):
        """The seconds left of the last event, fewer by those since; or those that it goes on, and those since."""

        def render(self, task: Task) -> Text:
            left, passed = known.get("left_s"), time.monotonic() - heard
            now = None if left is None else max(left - passed, 0)
            return Text(pace({**known, "left_s": now, "for_s": known["for_s"] + passed if "for_s" in known else None}))

    err = console(error=True)
    named = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    drawn = BarColumn(bar_width=min(max(err.width - NARROW, 5), 30))
    counted = (MofNCompleteColumn(), TimeElapsedColumn()) if err.width >= WIDE else ()
    columns = (SpinnerColumn(), named, drawn, *counted, Fast(Column(no_wrap=True)))
    bar = Progress(*columns, console=err, transient=True, redirect_stdout=sys.stdout.isatty())
    job = bar.add_task(plain(text), total=None)

    def on_progress(event: dict[str, Any]) -> None:
        nonlocal going, known, heard
        done, total = event.get("done", 0), event.get("total")
        if done < going.done or total != going.total:
            going = Pace(total)  # something else has begun
        going.done = done
        known, heard = dict(event) if "left_s" in event else going.shown(), time.monotonic()
        bar.update(job, description=plain(event.get("text", text)), completed=done)
        bar.tasks[job].total = total if done or "for_s" not in event else None  # as long as it can only tell that
        if time.monotonic() - since > 1.0 or "Spark" in str(event.get("text")):
            bar.start()

    try:
        yield on_progress
    finally:
        bar.stop()
