"""Rooms explain themselves, every module is reached, every name in a registry stands for something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rules.tree import Tree

README_LINES = 30
PACKAGE = "headrace"
# Rooms for tests, examples and users: what only those import is alive.
PUBLIC_ROOMS = (f"{PACKAGE}.testing",)

_DOTTED = re.compile(rf"{PACKAGE}(?:\.\w+)+(?::\w+)?")


def room_readmes(tree: Tree) -> Iterator[str]:
    """Each room and each connector has a README.md of at most 30 lines: what it owns, what it must not know."""
    rooms = {path.rpartition("/")[0] for path in tree.paths if re.fullmatch(rf"src/{PACKAGE}/\w+/__init__\.py", path)}
    connectors = {
        path.rpartition("/")[0] for path in tree.paths if re.fullmatch(r".*/connectors/\w+/connector\.py", path)
    }
    for folder in sorted(rooms | connectors):
        text = tree.text(f"{folder}/README.md").strip()
        if not text:
            yield f"{folder}: has no README.md"
        elif len(text.splitlines()) > README_LINES:
            yield f"{folder}/README.md: {len(text.splitlines())} lines, at most {README_LINES} are read"


def dead_modules(tree: Tree) -> Iterator[str]:
    """Every module is reached from an installed command, the package itself, or the public test kit."""
    reached: set[str] = set()
    waiting = [PACKAGE] + [target.partition(":")[0] for target in tree.scripts.values()]
    for path in tree.python("tests/", "examples/", "benchmarks/", "docs/"):
        waiting += [name for name in _mentioned(tree, path, "") if name.startswith(PUBLIC_ROOMS)]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in tree.modules:
            continue
        reached.add(name)
        path = tree.modules[name]
        parent = name.rpartition(".")[0]
        waiting += [parent] if parent else []
        waiting += _mentioned(tree, path, name if path.endswith("__init__.py") else parent)
    for name, path in sorted(tree.modules.items()):
        if name not in reached and not path.endswith(("__init__.py", "__main__.py")):
            yield f"{path}: nothing reaches this module; use it, register it or remove it"


def _mentioned(tree: Tree, path: str, package: str) -> list[str]:
    """The modules a file imports, at its top or later, or names in a string as registries do ("a.b." names a folder)."""
    found = []
    for node in ast.walk(tree.syntax(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            module = node.value.partition(":")[0]
            found += [module, module.rpartition(".")[0]]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value[:-1]):
            found += [name for name in tree.modules if name.rpartition(".")[0] + "." == node.value]
    return found


def registries(tree: Tree) -> Iterator[str]:
    """What a registry names exists, and what could be registered is: connectors and installed commands."""
    for name, target in tree.scripts.items():
        yield from _unresolved(tree, f"pyproject.toml: command '{name}'", *target.split(":"))
    for path in tree.python("src/"):
        if not path.endswith("/registry.py"):
            continue
        registered = _registry(tree.syntax(path))
        for name, dotted in registered.items():
            module, _, attribute = dotted.rpartition(".")
            yield from _unresolved(tree, f"{path}: '{name}'", module, attribute)
        folder = path.removeprefix("src/").removesuffix("/registry.py").replace("/", ".") + ".connectors."
        named = {dotted.rpartition(".")[0] for dotted in registered.values()}
        for module in sorted(tree.modules):
            if module.startswith(folder) and module.endswith(".connector") and module not in named:
                yield f"{path}: does not register {module}"


def _registry(module: ast.Module) -> dict[str, str]:
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "REGISTRY" for target in targets):
            table: dict[str, str] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            return table
    return {}


def _unresolved(tree: Tree, where: str, module: str, attribute: str) -> Iterator[str]:
    if module not in tree.modules:
        yield f"{where} names the module {module}, which does not exist"
        return
    defined = set()
    for node in tree.syntax(tree.modules[module]).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            defined |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    if attribute not in defined:
        yield f"{where} names {attribute}, which {module} does not define"
