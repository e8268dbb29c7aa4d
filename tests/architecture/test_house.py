"""Goal: the rules of the house hold in this checkout. Method: each rule lists its breaches; there must be none.

The rules themselves are proved in test_rules.py, on small trees with a planted breach each.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rules import RULES, Rule
from rules.tree import Tree

TREE = Tree(Path(__file__).resolve().parents[2])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule: Rule) -> None:
    breaches = list(rule(TREE))
    if breaches:
        pytest.fail("\n  ".join([f"{rule.__doc__}", *breaches]), pytrace=False)
