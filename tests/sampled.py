"""Cases that prove the same once more, at a price: the usual run takes some of them, `make prove` all.

Which ones follows from HEADRACE_SEED (1), so a red test is red for everyone; HEADRACE_PROVE=long takes all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Drawn = TypeVar("Drawn")
ALL = os.environ.get("HEADRACE_PROVE") == "long"
SEED = int(os.environ.get("HEADRACE_SEED", "1"))


def sampled(cases: Iterable[Drawn], one_in: int) -> list[Drawn]:
    """Every ``one_in``-th of the cases, beginning with one by the seed; at least one where there are so many."""
    return list(cases)[0 if ALL else SEED % one_in :: 1 if ALL else one_in]
