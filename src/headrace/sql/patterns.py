"""Regular expressions that mean the same to Java, which Spark asks, and to RE2, which Arrow asks."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Both look for the leftmost match and prefer the first branch and the longest repetition. Left out is all that either
# has of its own: repeated groups, classes by name, flags, what a line is, letters beyond ASCII.
_PLAIN = r"[A-Za-z0-9_=/:&%#@!~,;<>'\" -]"
_CLASS = r"\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_=/:%#@!~,;<>'\" .?*+$|()]|&(?!&))+\]"
_TOKEN = re.compile(
    rf"(?:(?P<one>{_PLAIN}|\\[.?*+$|()/]|{_CLASS})[*+?]?(?![*+?{{]))|(?P<open>\((?!\?))|(?P<rest>[|^]|\)(?![*+?{{]))"
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """``pattern``: with a name for each of its ``groups``, and for all of it."""

    pattern: str
    groups: int

    @staticmethod
    def name(number: int) -> str:
        return f"g{number}"


def in_re2(pattern: str) -> Pattern | None:
    """The same for RE2, or None where they might differ."""
    made, groups, depth, at = [], 0, 0, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        text = token[0]
        if token["open"]:
            groups, depth = groups + 1, depth + 1
            text = f"(?P<{Pattern.name(groups)}>"
        elif text == ")":
            depth -= 1
            if depth < 0:
                return None
        made.append(text)
        at = token.end()
    return None if depth or not pattern else Pattern(f"(?P<{Pattern.name(0)}>{''.join(made)})", groups)
