"""Text with ``{column}`` in it. Names are looked up whole, so that nothing of a value can be reached but its text."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

OF_LETTER = ("view", "commit", "count")
OF_ROW = ("event",)  # entered, left or changed; beside the view's columns


@dataclass(frozen=True, slots=True)
class Template:
    """``parts``: (text, name after it or None)."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Raises ``ValueError`` for a brace without its other, and for more in braces than a name."""
        parts = []
        try:
            for literal, name, form, conversion in string.Formatter().parse(text):
                if form or conversion or name == "":
                    raise ValueError(
                        f"{{{name}{'!' if conversion else ''}{conversion or ''}{':' if form else ''}{form}}}"
                    )
                parts.append((literal, name))
        except ValueError as error:
            raise ValueError(
                f"{text!r:.80} is not a template: only {{column}} goes, and {{{{ for a brace ({error})"
            ) from None
        return cls(tuple(parts))

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.parts if name is not None]

    @property
    def of_rows(self) -> bool:
        """Whether it differs from row to row."""
        return any(name not in OF_LETTER for name in self.names)

    def filled(self, values: Mapping[str, str]) -> str:
        """Nothing stands for a name without a value: rows that wait may be older than the template."""
        return "".join(text + ("" if name is None else values.get(name, "")) for text, name in self.parts)
