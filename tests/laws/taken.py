"""Which queries of an operator a run takes.

The usual run takes every sixth, others each day (tests/sampled.py), and those that are known to notice a planted fault;
`make test-all` every third and those; `make laws` and `make prove` all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sampled import ALL, sampled
from usual.selection import noticing_queries, usual

WHOLE = ALL or "HEADRACE_LAWS_HISTORIES" in os.environ
ONE_IN = 6 if usual() else 3


def taken(queries: Mapping[str, str]) -> dict[str, str]:
    """Those of the queries, by their names."""
    always = noticing_queries()
    others = [name for name in queries if name not in always]
    drawn = others if WHOLE or not others else sampled(others, min(ONE_IN, len(others)))  # one at least
    return {name: sql for name, sql in queries.items() if name in always or name in drawn}
