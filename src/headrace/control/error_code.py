"""The code of an error, explained: for `headrace help CODE`, and for the page that an error on the page links to."""

from __future__ import annotations

import re

from headrace.catalog.document import did_you_mean
from headrace.model.errors import CODES, HeadraceError
from headrace.model.remedies import REMEDIES

_LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")  # of Markdown, to a page beside that of the errors


def explained(code: str) -> dict[str, str]:
    """``{"code", "meaning", "cause", "repair"}``, commands between backquotes. Raises ``config.unknown_key``."""
    if code not in CODES:
        raise HeadraceError(
            "config.unknown_key", f"there is no error code '{code}'",
            why="the codes are those of this version of Headrace",
            next=did_you_mean(code, CODES) or "docs/reference/errors.md lists all of them",
        )  # fmt: skip
    cause, repair = (_LINK.sub(r"docs/reference/\1", text) for text in REMEDIES[code])
    return {"code": code, "meaning": CODES[code], "cause": cause, "repair": repair}
