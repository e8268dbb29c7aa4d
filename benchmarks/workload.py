"""What a workload is, and a figure of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNAVAILABLE = 69  # sysexits.h: a program ends with it where what it measures with is not on the machine


@dataclass(frozen=True)
class Figure:
    """A value in the lines that a program prints.

    ``key``: its name in a line, with points into what is nested; ``where``: what else such a line says, of which the
    last one counts. ``most`` and ``least``: the goal, in ``unit``; it is judged at the workload's own size alone. Of
    several rounds the median counts, and where the goal is at most 0, the most.
    """

    label: str
    key: str
    unit: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    most: float | None = None
    least: float | None = None


@dataclass(frozen=True)
class Workload:
    """``command``: module and arguments, the size that is asked for; ``small``: arguments of a quick look, if any;
    ``rounds``: how often it runs, where the program itself does not repeat what it measures.

    ``pivot``: the keys of lines that make the rows, the columns and the cells (medians) of a table. ``note``: what a
    reader of its figures has to know.

    Without ``figures`` every value that is printed stands on the page.
    """

    name: str
    title: str
    command: tuple[str, ...]
    small: tuple[str, ...] | None = None
    figures: tuple[Figure, ...] = ()
    pivot: tuple[str, str, str] | None = None
    note: str = ""
    rounds: int = 1
