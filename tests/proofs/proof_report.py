"""What the proofs tell of themselves, and how much of each is wanted.

HEADRACE_PROVE: nothing (a sample, with the usual tests), ``quick`` or ``long``. HEADRACE_SEED: where to draw from (1).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

SIZE = {"": 0, "quick": 1, "long": 2}[os.environ.get("HEADRACE_PROVE", "")]  # the index into the sizes a proof names
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
SHOWN_MAX = 10


@dataclass
class Proof:
    """One proof: ``tried`` things of a kind that ``what`` names in the plural, and what was ``wrong``, in words."""

    what: str
    tried: int = 0
    detail: str = ""
    wrong: list[str] = field(default_factory=list)

    def holds(self) -> None:
        assert self.tried, f"no {self.what} were tried"
        shown = "\n".join(self.wrong[:SHOWN_MAX])
        assert not self.wrong, f"{len(self.wrong)} wrong, HEADRACE_SEED={SEED}\n{shown}"

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.tried:,} {self.what}{detail}: {len(self.wrong)} wrong"


PROOFS: list[Proof] = []
