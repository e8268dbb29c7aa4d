"""Goal: whoever drops changes from the quarantine has dropped just those, durably; the others keep their ids and rows.

Method: a project's log, catalogue and files made by hand, no Spark; a plain dict of what should be there beside it.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.catalog.quarantine import Change, SetAside
from headrace.catalog.store import Catalog
from headrace.control.verbs import call
from headrace.engine import quarantined
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve import quarantine
from headrace.serve.quarantined import entry
from headrace.state.run import write_run

COMMAND = Path(sys.executable).with_name("headrace")
ORDERS = Relation("orders", (Column("id", "int", nullable=False), Column("note", "string")), ("id",))
VISITS = Relation("visits", (Column("page", "string"),))
REASON = "its key (id) is there already"


class Kept:
    """A project with files in its quarantine; ``model``: id -> what `list` should say of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model: dict[str, dict[str, Any]] = {}
        (folder / "headrace.yaml").write_text("name: shop\n")
        (folder / ".headrace/quarantine").mkdir(parents=True)
        self.catalog = Catalog(folder / ".headrace/catalog.db")
        for relation in (ORDERS, VISITS):
            self.catalog.put_relation("shop", relation)
        origins = tuple(TransactionOrigin("shop", f'{{"n":{n}}}', 1_772_352_000_000_000 + n) for n in range(1, 41))
        with LogWriter(folder / ".headrace/log") as log:
            log.append(TransactionBatch(origins, {}))

    def path(self, table: str, step: int) -> Path:
        return self.folder / f".headrace/quarantine/{table}~{step}.arrow"

    def keep(self, table: str, step: int, changes: list[tuple[int, int, str]], *, earlier: bool = False) -> None:
        """A step's file: (commit, place, text) of each change; ``earlier``: as a version wrote it without places."""
        rows = {
            "_commit": pa.array([c for c, _, _ in changes], pa.int64()),
            "_place": pa.array([p for _, p, _ in changes], pa.int64()),
            "_operation": pa.array(["insert"] * len(changes)),
            "_reason": pa.array([REASON] * len(changes)),
            "_unchanged": pa.nulls(len(changes), pa.binary()),
        }
        if table == "orders":
            rows["id"] = pa.array([c * 100 + p for c, p, _ in changes], pa.int32())
        rows["note" if table == "orders" else "page"] = pa.array([t for _, _, t in changes])
        written = pa.table(rows)
        write_run(self.path(table, step), written.drop_columns(["_place"]) if earlier else written)
        self.catalog.put_set_aside([SetAside(table, step, str(self.path(table, step)), len(changes))])
        for commit, place, text in changes:
            id = f"{table}:{commit}:{place}"
            row = {"id": commit * 100 + place, "note": text} if table == "orders" else {"page": text}
            of = {"table": table, "commit": commit, "operation": "insert", "reason": REASON}
            self.model[id] = {"id": id, **of, "row": row}

    def check(self) -> None:
        listed, total = quarantine.entries(self.folder, None, None)
        assert {e["id"]: e for e in listed} == self.model
        assert len(listed) == total == len(self.model)
        tables = {"orders", "visits"}
        counts = {t: sum(e["table"] == t for e in self.model.values()) for t in tables}
        assert quarantine.counts(self.catalog) == {t: n for t, n in counts.items() if n}
        named = {Path(e.path) for e in self.catalog.set_aside()}
        assert named == set((self.folder / ".headrace/quarantine").glob("*.arrow"))

    def drop(self, **arguments: Any) -> int:
        return int(call(self.folder, "quarantine_drop", arguments, lambda event: None)["dropped"])


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.catalog.close()


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "quarantine", *arguments]
    return subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("seed", range(5))
def test_random_drops_leave_what_a_dict_has_left(kept: Kept, seed: int) -> None:
    chance = random.Random(seed)
    for step in range(1, 9):
        for table in ("orders", "visits"):
            places = sorted({(chance.randint(step * 4 - 3, step * 4), chance.randint(1, 9)) for _ in range(6)})
            kept.keep(table, step, [(c, p, f"{table} {c} {p}") for c, p in places])
    kept.check()
    while kept.model:
        some = chance.sample(sorted(kept.model), min(len(kept.model), chance.randint(1, 20)))
        if chance.random() < 0.2:
            table, upto = some[0].split(":")[0], chance.randint(1, 40)
            some = [id for id, e in kept.model.items() if e["table"] == table and e["commit"] <= upto]
            assert kept.drop(table=table, upto=upto) == len(some)
        else:
            assert kept.drop(ids=some) == len(some)
        for id in some:
            del kept.model[id]
        kept.check()
    assert kept.drop() == 0


def test_what_was_dropped_does_not_come_back_when_its_table_is_made_again_from_the_log(kept: Kept) -> None:
    changes = [(3, 1, "a"), (3, 4, "b"), (8, 2, "c")]
    kept.keep("orders", 4, changes)
    assert kept.drop(ids=["orders:3:4"]) == 1
    kept.catalog.forget_set_aside("orders")
    kept.path("orders", 4).unlink()
    kept.keep("orders", 9, changes)
    kept.catalog.put_set_aside([SetAside("orders", 9, str(kept.path("orders", 9)), 2)])
    del kept.model["orders:3:4"]
    kept.check()
    assert kept.catalog.left(Change("orders", 3, 4)) is not None
    assert kept.catalog.left(Change("orders", 3, 1)) is None


def test_a_file_that_a_backup_copies_stays_until_the_next_time(kept: Kept) -> None:
    kept.keep("orders", 1, [(3, 1, "a")])
    kept.keep("orders", 2, [(5, 1, "b")])
    quarantined.drop(kept.catalog, quarantine.Chosen(ids=("orders:3:1",)))
    folder = kept.folder / ".headrace/quarantine"
    quarantined.sweep(folder, kept.catalog, [str(kept.path("orders", 1))])
    assert sorted(folder.iterdir()) == [kept.path("orders", 1), kept.path("orders", 2)]
    quarantined.sweep(folder, kept.catalog)
    assert list(folder.iterdir()) == [kept.path("orders", 2)]


def test_a_file_of_an_earlier_version_counts_the_changes_of_each_commit(kept: Kept) -> None:
    kept.keep("visits", 2, [(3, 1, "a"), (3, 2, "b"), (5, 1, "c"), (6, 1, "d"), (6, 2, "e")], earlier=True)
    kept.check()
    kept.drop(ids=["visits:3:1", "visits:6:2"])
    del kept.model["visits:3:1"], kept.model["visits:6:2"]
    kept.check()


def test_show_tells_all_of_a_change_and_the_commands_to_go_on_with(kept: Kept) -> None:
    kept.keep("orders", 1, [(3, 1, "it's"), (7, 2, "\x1b[2J")])
    told = kept.model["orders:3:1"]
    expected = {
        **told, "key": ["id"], "source": "shop", "position": '{"n":3}', "committed_at": "2026-03-01T08:00:00.000003Z",
    }  # fmt: skip
    assert entry(kept.folder, "orders:3:1") == expected
    assert json.loads(headrace(kept.folder, "show", "orders:3:1", "--json").stdout) == expected
    lines = headrace(kept.folder, "show", "orders:7:2").stdout.splitlines()
    assert lines[:7] == [
        "orders:7:2",
        '  commit: 7  2026-03-01T08:00:00.000007Z  shop  {"n":7}',
        "  change: insert",
        f"  reason: {REASON}",
        "  row:",
        "    id = 702",
        "    note = \\u001b[2J",
    ]
    assert lines[7] == "next:"
    assert lines[8].startswith("  headrace sql 'SELECT * FROM `orders` WHERE `id` = 702'")
    assert lines[9].startswith("  headrace quarantine replay orders:7:2 --as replace")
    assert lines[-1] == "  headrace quarantine drop orders:7:2"


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("orders", "an id is TABLE:COMMIT:N of a change, SOURCE:N of a row that a source could not read"),
        ("shop:1", "nothing with that id was ever set aside"),
        ("orders:3:9", "nothing with that id was ever set aside"),
        ("orders:3:1", "it was dropped"),
        ("orders:99999999999999999999:1", "nothing with that id was ever set aside"),
    ],
)
def test_an_id_that_is_not_there_is_refused_and_nothing_is_dropped(kept: Kept, id: str, why: str) -> None:
    kept.keep("orders", 1, [(3, 1, "a"), (3, 2, "b")])
    kept.drop(ids=["orders:3:1"])
    del kept.model["orders:3:1"]
    with pytest.raises(HeadraceError) as raised:
        kept.drop(ids=["orders:3:2", id])
    assert (raised.value.code, raised.value.why) == ("quarantine.unknown", why)
    kept.check()


def test_the_command_shows_what_goes_and_asks(kept: Kept) -> None:
    kept.keep("orders", 1, [(3, 1, "a"), (3, 2, "b")])
    kept.keep("visits", 1, [(4, 1, "c")])
    asked = headrace(kept.folder, "drop", "--table", "orders")
    assert asked.returncode == 2 and "say --yes" in asked.stderr
    assert f'orders:3:2  insert {{id: 302, note: "b"}}: {REASON}' in asked.stderr and "visits" not in asked.stderr
    kept.check()
    assert headrace(kept.folder, "drop").returncode == 2
    assert headrace(kept.folder, "drop", "--all", "--table", "orders", "--yes").returncode == 2
    done = headrace(kept.folder, "drop", "--table", "orders", "--yes")
    assert (done.returncode, done.stdout) == (0, "dropped 2 changes\n")
    kept.model = {id: e for id, e in kept.model.items() if e["table"] == "visits"}
    kept.check()
    assert headrace(kept.folder, "drop", "--all", "--yes", "--json").stdout == '{"dropped":1}\n'
    assert headrace(kept.folder, "list").stdout == "nothing is set aside\n"
