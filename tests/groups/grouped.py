"""A project with a random log and without a product, and consumer groups over it with a clock of the test's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from headrace.catalog.groups import FILE, needed
from headrace.catalog.store import Catalog
from headrace.serve.groups import Groups
from random_log import RELATIONS, SOURCE, RandomLog


class World:
    """A project folder; ``now`` is the time of its groups in microseconds, ``made`` what its log holds."""

    def __init__(self, folder: Path, seed: int, transactions: int) -> None:
        self.folder, self.now = folder, 1_000_000_000
        (folder / "headrace.yaml").write_text("")
        (folder / ".headrace").mkdir()
        catalog = Catalog(folder / ".headrace/catalog.db")
        for name, relation in RELATIONS.items():
            catalog.put_relation(SOURCE[name], relation)
        catalog.close()
        self.made = RandomLog(seed)
        if transactions:
            self.grow(transactions)

    @classmethod
    def copied(cls, folder: Path, of: World) -> World:
        """The same project in another folder, a copy."""
        shutil.copytree(of.folder, folder)
        made = object.__new__(cls)
        made.folder, made.now, made.made = folder, of.now, of.made
        return made

    def grow(self, transactions: int) -> None:
        self.made.grow(self.folder / ".headrace/log", transactions)

    def groups(self) -> Groups:
        """As a process opens them."""
        return Groups(self.folder, lambda: self.now)

    def needed(self) -> dict[str, int] | None:
        """What the engine hears of the groups."""
        return needed(self.folder / ".headrace" / FILE, tables=True)

    def feed(self, table: str) -> list[int]:
        """The commits that change a table."""
        return [n for n, (_, changes) in enumerate(self.made.made, start=1) if any(c.table == table for c in changes)]

    def holds(self, table: str, commit: int) -> list[dict[str, object]]:
        """What a delivery of that commit has to hold."""
        return [change.spelled() for change in self.made.made[commit - 1][1] if change.table == table]
