"""A file of kept state, mapped into memory."""

from __future__ import annotations

import pyarrow as pa

from headrace.model.errors import HeadraceError


def mapped(path: str) -> pa.MemoryMappedFile:
    """Raises ``HeadraceError`` (state.missing): a file that is gone is a fault, never empty state."""
    try:
        return pa.memory_map(path)
    except FileNotFoundError as error:
        raise HeadraceError(
            "state.missing", "a run of kept state is missing", where=path, why="it was removed",
            next="`headrace rebuild --all` makes it anew from the log",
        ) from error  # fmt: skip
