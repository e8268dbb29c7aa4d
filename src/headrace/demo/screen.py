"""What the demo shows while it runs: a live page on a terminal, else a few plain lines now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from headrace.demo.followed import Followed, Row

FRESH_S = 1.0  # how long a changed row stays lit
PLAIN_S = 5.0  # between two reports in plain lines
TALL = 38  # lines of a terminal on which everything fits


@dataclass(frozen=True, slots=True)
class Figures:
    """How far it is. ``sink``: the commit that the DuckDB file has reached."""

    seconds: float
    commit: int
    frontier: int
    transactions: int
    rows: int
    rate: float
    row_rate: float
    latency: Mapping[str, float | None]
    sink: int | None
    sink_error: str = ""

    def lines(self) -> tuple[str, str]:
        speed = f"{self.rate:,.0f} transactions/s · {self.row_rate:,.0f} rows/s"
        p50, p99 = (_milliseconds(self.latency[name]) for name in ("p50", "p99"))
        sink = "waits" if self.sink is None else f"at commit {self.sink:,}"
        return (
            f"{self.seconds:.0f} s · commit {self.commit:,} · views at {self.frontier:,} · {speed}",
            f"push to view p50 {p50} p99 {p99} · analytics.duckdb {sink}"
            + (f" ({self.sink_error})" if self.sink_error else ""),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """How a view is shown: which columns, in which order, how many rows on a tall and on a small terminal."""

    title: str
    columns: tuple[str, ...]
    order: tuple[str, ...]
    tall: int
    small: int
    newest_first: bool = False


PAGES: dict[str, Page] = {
    "revenue_by_region": Page("revenue by region", ("region", "lines", "units", "revenue"), ("region",), 5, 5),
    "click_through_rate": Page(
        "click-through rate", ("minute", "campaign", "impressions", "clicks", "percent"), ("minute", "campaign"), 8, 3,
        newest_first=True,
    ),
    "customers_without_order": Page(
        "customers without an order", ("id", "name", "region"), ("id",), 6, 2, newest_first=True
    ),
    "top_products": Page(
        "top products", ("category", "place", "product", "units", "revenue"), ("category", "place"), 20, 15
    ),
}  # fmt: skip


class Screen(Protocol):
    """Where the demo tells what happens."""

    def say(self, text: str) -> None: ...

    def show(self, figures: Figures, views: Sequence[Followed]) -> None: ...

    def close(self) -> None: ...


def open_screen(json: bool) -> Screen:
    """A live page when stdout is a terminal; else lines, which with ``json`` leave stdout to the summary."""
    return Live() if sys.stdout.isatty() and not json else Plain(sys.stderr if json else sys.stdout)


@dataclass
class Plain:
    """Lines: the figures and the head of each view, every few seconds."""

    stream: TextIO
    _at: float = field(default=0.0)

    def say(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()

    def show(self, figures: Figures, views: Sequence[Followed]) -> None:
        if time.monotonic() - self._at < PLAIN_S:
            return
        self._at = time.monotonic()
        self.say(" · ".join(figures.lines()))
        for view in views:
            rows, _ = view.rows()
            page = PAGES[view.view]
            head = "; ".join(" ".join(cells) for cells in _cells(view, page, rows, 3))
            self.say(f"  {page.title} ({len(rows):,} rows, {view.changes:,} changes): {head}")

    def close(self) -> None:
        """Nothing is held."""


class Live:
    """A page that is drawn anew four times a second; rows that have just changed are lit."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live: RichLive | None = None

    def say(self, text: str) -> None:
        self._console.print(text)

    def show(self, figures: Figures, views: Sequence[Followed]) -> None:
        from rich.console import Group
        from rich.live import Live as RichLive
        from rich.table import Table
        from rich.text import Text

        tall = self._console.height >= TALL
        drawn = {view.view: self._table(view, tall) for view in views}
        left = Group(*(part for name in PAGES if name != "top_products" for part in drawn[name]))
        page = Table.grid(padding=(0, 3))
        page.add_row(left, Group(*drawn["top_products"]))
        first, second = figures.lines()
        help_line = Text("Ctrl-C ends it with the proof: every view against Spark batch", style="dim")
        group = Group(Text(first, style="bold"), Text(second), Text(), page, help_line)
        if self._live is None:
            self._live = RichLive(group, console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(group, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self, view: Followed, tall: bool) -> tuple[Text, Table]:
        """A title, which a narrow table must not break, and the rows."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        rows, fresh = view.rows(FRESH_S)
        page = PAGES[view.view]
        title = f"{page.title} · {len(rows):,} rows · {view.changes:,} changes"
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        shown = _sorted(view, page, rows)[: page.tall if tall else page.small]
        for number, name in enumerate(page.columns):
            numeric = bool(shown) and isinstance(_value(view, shown[0], page.columns[number]), int | Decimal)
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
        for row in shown:
            table.add_row(*_row(view, page, row), style="bold green" if row in fresh else "")
        return Text(title, style="bold cyan"), table


def _sorted(view: Followed, page: Page, rows: list[Row]) -> list[Row]:
    if view.schema is None:
        return []
    places = [view.schema.names.index(name) for name in page.order]
    return sorted(rows, key=lambda row: [row[place] for place in places], reverse=page.newest_first)


def _cells(view: Followed, page: Page, rows: list[Row], limit: int) -> list[list[str]]:
    return [_row(view, page, row) for row in _sorted(view, page, rows)[:limit]]


def _row(view: Followed, page: Page, row: Row) -> list[str]:
    return [_text(name, _value(view, row, name)) for name in page.columns]


def _value(view: Followed, row: Row, name: str) -> Any:
    assert view.schema is not None
    return row[view.schema.names.index(name)]


def _text(name: str, value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return f"{value:%H:%M}"
    if isinstance(value, int) and name != "id":
        return f"{value:,}"
    return str(value)


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"
