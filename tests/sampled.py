"""Cases that prove the same once more, at a price: the usual run takes some of them, `make prove` all.

Which ones follows from HEADRACE_SHARE, by itself the number of the day (UTC): the same all day and for everyone, others
tomorrow. Each run says it at its beginning. HEADRACE_PROVE=long takes all.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable
from typing import TypeVar
from zlib import crc32

Drawn = TypeVar("Drawn")
ALL = os.environ.get("HEADRACE_PROVE") == "long"
SHARE = int(os.environ.setdefault("HEADRACE_SHARE", str(datetime.datetime.now(datetime.UTC).date().toordinal())))


def sampled(cases: Iterable[Drawn], one_in: int, family: str = "") -> list[Drawn]:
    """Every ``one_in``-th of the cases, beginning with one by the share; at least one where there are so many.

    ``family``: families with names begin on different days, so that no day has the first case of them all.
    """
    first = (SHARE + crc32(family.encode())) % one_in
    return list(cases)[0 if ALL else first :: 1 if ALL else one_in]
