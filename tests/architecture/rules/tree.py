"""The files of a checkout as the rules see them: read once, parsed once."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

# Folders that hold nothing of the product: tools and runs make them. Every hidden folder but .ci goes too.
_PASSED_OVER = {"__pycache__", "build", "dist", "var", "spark-warehouse", "metastore_db", "node_modules"}
_ALLOWANCES = "tests/architecture/allowances.toml"


@dataclass(frozen=True)
class Tree:
    """A checkout. Paths are relative to its root and written with ``/``."""

    root: Path

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Every file that belongs to the product, sorted. Of a worktree `.git` is a file, too."""
        found = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if self._belongs(name)]
            found += [(Path(folder) / name).relative_to(self.root).as_posix() for name in files if name != ".git"]
        return tuple(sorted(found))

    @staticmethod
    def _belongs(name: str) -> bool:
        return name == ".ci" or not (name.startswith(".") or name in _PASSED_OVER or name.endswith(".egg-info"))

    def python(self, *under: str) -> list[str]:
        """Python files below these folders (``src/``), or all."""
        return [path for path in self.paths if path.endswith(".py") and path.startswith(under or ("",))]

    def markdown(self) -> list[str]:
        return [path for path in self.paths if path.endswith(".md")]

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {}

    def text(self, path: str) -> str:
        """The file's text; empty when there is no such file or it is not text."""
        if path not in self._texts:
            try:
                self._texts[path] = (self.root / path).read_text(encoding="utf-8")
            except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
                self._texts[path] = ""
        return self._texts[path]

    @cached_property
    def _syntax(self) -> dict[str, ast.Module]:
        return {}

    def syntax(self, path: str) -> ast.Module:
        if path not in self._syntax:
            self._syntax[path] = ast.parse(self.text(path), filename=path)
        return self._syntax[path]

    @cached_property
    def modules(self) -> dict[str, str]:
        """Dotted name -> path, for everything under src/."""
        named = {}
        for path in self.python("src/"):
            name = path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            named[name] = path
        return named

    @cached_property
    def scripts(self) -> dict[str, str]:
        """The commands that pyproject.toml installs: name -> ``module:function``."""
        project: dict[str, str] = tomllib.loads(self.text("pyproject.toml")).get("project", {}).get("scripts", {})
        return project

    def allowances(self, kind: str) -> dict[str, dict[str, Any]]:
        """One table of allowances.toml."""
        table: dict[str, dict[str, Any]] = tomllib.loads(self.text(_ALLOWANCES)).get(kind, {})
        return table

    @cached_property
    def make_targets(self) -> dict[str, str]:
        """The targets of the Makefile that are commands, each with its line of help."""
        found = re.findall(r"^([a-z][a-z0-9-]*):(?!=)(.*)$", self.text("Makefile"), flags=re.MULTILINE)
        return {name: rest.partition("## ")[2].strip() for name, rest in found}


def within(amounts: dict[str, int], allowed: dict[str, dict[str, Any]], unit: str) -> list[str]:
    """Compare the excess found with the excess allowed; both ways, so that the list of allowances shrinks."""
    breaches = []
    for place in sorted(amounts.keys() | allowed.keys()):
        amount, allowance = amounts.get(place, 0), allowed.get(place, {})
        limit = allowance.get(unit, 0)
        if allowance and not allowance.get("reason"):
            breaches.append(f"{place}: its allowance gives no reason")
        if amount > limit:
            breaches.append(f"{place}: {amount} {unit}" + (f", allowed are {limit}" if limit else ""))
        elif amount < limit:
            breaches.append(f"{place}: the allowance of {limit} {unit} is more than the {amount} there are: lower it")
    return breaches
