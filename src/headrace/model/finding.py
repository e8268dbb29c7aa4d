"""What an examination of a project, a source, a sink or the machine finds."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.errors import HeadraceError

OK, WARNING, MISSING = "ok", "warning", "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """``state``: ok, warning (it works, but should be known) or missing (it does not work so).

    ``next`` is the exact statement or command that helps, empty when nothing is to be done. ``where``, ``why`` and
    ``code`` as in a ``HeadraceError``, empty where nothing is to be said.
    """

    state: str
    what: str
    next: str = ""
    where: str = ""
    why: str = ""
    code: str = ""

    @classmethod
    def of(cls, error: HeadraceError) -> Finding:
        """What an error tells, as something that is missing."""
        return cls(MISSING, error.what, error.next, error.where, error.why, error.code)
