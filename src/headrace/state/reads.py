"""How many rows of kept state were read in this process, by who read them: one addition for each read, always on."""

from __future__ import annotations

from collections import Counter

READS: Counter[str] = Counter()  # reader -> rows; a search by halves counts as nothing, the rows it finds count
