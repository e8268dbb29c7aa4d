"""The Makefile explains itself and runs only what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rules.tree import Tree


def makefile(tree: Tree) -> Iterator[str]:
    """Every target has its line of help and is phony; every program and folder it names exists."""
    text = tree.text("Makefile")
    phony = set(" ".join(re.findall(r"^\.PHONY:(.*)$", text, flags=re.MULTILINE)).split())
    for target, help_line in tree.make_targets.items():
        if not help_line:
            yield f"Makefile: {target} has no line of help ('## ...')"
        if target not in phony:
            yield f"Makefile: {target} is not in .PHONY"
    for name in sorted(phony - tree.make_targets.keys()):
        yield f"Makefile: .PHONY names {name}, which is no target"
    recipes = "\n".join(line for line in text.splitlines() if line.startswith("\t"))
    programs = re.findall(r"(?<=\s)((?:tools|docs|tests|benchmarks|examples)/[\w./-]+)", recipes)
    programs += [module.replace(".", "/") + ".py" for module in re.findall(r" -m ([a-z]\w*\.[\w.]+)", recipes)]
    for program in programs:
        if not tree.exists(program) and not tree.exists(program.removesuffix(".py") + "/__main__.py"):
            yield f"Makefile: runs {program}, which does not exist"
