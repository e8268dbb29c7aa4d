"""The repository speaks of the product alone: nothing of the place or the occasion in which it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rules.tree import Tree

# These two have to spell out what they look for.
EXEMPT = {"LICENSE", "tests/architecture/rules/wording.py", "tests/architecture/test_rules.py"}

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a folder outside the repository", re.compile(r"(?<![\w-])(?:\.\./)?shared/(?=\w|`|$)")),
    ("an absolute path of one machine", re.compile(r"(?<![\w.}])/(?:home|root|Users|work)/")),
    (
        "the address of a package registry",
        re.compile(
            r"pypi\.org|pythonhosted\.org|repo1?\.maven\.|registry\.npmjs|proxy\.golang|crates\.io"
            r"|deb\.debian\.org|--(?:extra-)?index-url|--find-links|PIP_(?:EXTRA_)?INDEX_URL|PIP_FIND_LINKS",
            re.IGNORECASE,
        ),
    ),
    ("the occasion it was written on", re.compile(r"\bsessions? \d+\b|\bissues? #?\d+\b|\bblueprint\b", re.IGNORECASE)),
)


def wording(tree: Tree) -> Iterator[str]:
    """No file names folders, machines, registries or occasions of its making."""
    for path in tree.paths:
        if path in EXEMPT:
            continue
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            for what, pattern in PATTERNS:
                found = pattern.search(line)
                if found:
                    yield f"{path}:{number}: '{found[0]}' is {what}"
