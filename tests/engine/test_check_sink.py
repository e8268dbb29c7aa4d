"""Goal: a sink is compared with the views at the commit that it has reached itself, beside its running thread or
without one, and repaired by that thread alone.

Method: views published here as the engine does it, delivered by the product's own thread to a DuckDB file, which an
ordinary client damages and reads. The commands are the installed ones, in their own processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.catalog.project import read
from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.engine import check_sink
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.log.read import LogReader
from headrace.model.delivery import NOWHERE, Delivery
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.state.run import write_run
from waiting import until

COMMAND = Path(sys.executable).with_name("headrace")
COLUMNS = (Column("region", "string"), Column("n", "bigint"))
Rows = dict[tuple[str, int], int]  # (region, n) -> weight


class Shop:
    """A project with the views ``orders`` and ``regions``, and a DuckDB sink for them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        (folder / "views").mkdir()
        (folder / "sinks").mkdir()
        (folder / "headrace.yaml").write_text("name: shop\n")
        (folder / "sinks/local.yaml").write_text("type: duckdb\npath: views.duckdb\n")
        (folder / "sinks/some.yaml").write_text("type: duckdb\npath: some.duckdb\nviews: [orders]\n")
        for name in ("orders", "regions"):
            (folder / f"views/{name}.sql").write_text("SELECT 1")
        (folder / ".headrace").mkdir()
        self.catalog = Catalog(folder / ".headrace/catalog.db")
        self.project = read(folder)
        self.log = LogReader(folder / ".headrace/log")
        self.log.origins = lambda after, upto: iter([(upto, NOWHERE)])  # type: ignore[method-assign]
        self.told: list[dict[str, Any]] = []

    def define(self, name: str, version: int = 1, state: str = "live") -> None:
        schema = ViewSchema(name, version, COLUMNS, ("region",) if name == "regions" else ())
        self.catalog.put_view(ViewRecord(schema, "SELECT 1", "f", state, "", 0))

    def publish(self, **changes: Rows) -> int:
        """A step of ten commits, each row's change at the commit that its ``n`` ends in; the last of them."""
        self.number += 1
        outputs = []
        for feed, rows in changes.items():
            name, _, version = feed.partition("_")
            path = self.folder / ".headrace" / f"{self.number}-{feed}.arrow"
            regions, numbers = zip(*rows, strict=True)
            columns = [pa.array(regions, pa.string()), *(pa.array(v, pa.int64()) for v in (numbers, rows.values()))]
            instants = pa.array([n % 10 + 1 for n in numbers], pa.int64())
            write_run(path, pa.Table.from_arrays([*columns, instants], names=["c0", "c1", "_w", "_i"]))
            outputs.append(Output(self.number, f"{name}@{version or 1}", str(path), len(rows), ""))
        upto = 10 * self.number
        self.catalog.record_step(self.number, upto - 10, upto, StepShape(), 0)
        self.catalog.publish(self.number, outputs, 1)
        return upto

    def deliver(self, name: str = "local") -> Deliver:
        """The sink's thread, begun."""
        definition = check_sink.known(self.project, name)
        made = Deliver(make_sink(definition, self.project), definition.views, self.catalog, self.log, self.told.append)
        made.start()
        return made

    def reach(self, deliver: Deliver, commit: int) -> None:
        deliver.wake()
        until(lambda: (deliver.frontier or 0) >= commit and self.catalog.sinks()[deliver.sink.name][0] >= commit)

    def damage(self, statement: str, file: str = "views.duckdb") -> None:
        with duckdb.connect(str(self.folder / file)) as client:
            client.execute(statement)

    def rows(self, view: str, file: str = "views.duckdb") -> Counter[Any]:
        with duckdb.connect(str(self.folder / file)) as client:
            return Counter(client.execute(f"SELECT region, n FROM {view}").fetchall())

    def verify(self, sink: str = "local", *views: str) -> dict[str, Any]:
        return check_sink.verify(self.project, self.catalog, sink, views, lambda event: None)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([COMMAND, *arguments], check=False, capture_output=True, text=True, cwd=self.folder)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    made.define("orders")
    made.define("regions")
    yield made
    made.catalog.close()


def different(answer: dict[str, Any]) -> dict[str, int]:
    return {view["view"]: view["differences"] for view in answer["views"]}


FIRST: dict[str, Rows] = {"orders": {("north", 1): 2, ("south", 5): 1}, "regions": {("north", 2): 1, ("south", 5): 1}}


def test_a_sink_that_lags_is_compared_at_its_own_commit(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    deliver.close()
    shop.publish(orders={("north", 1): -1, ("east", 9): 1}, regions={("north", 2): -1})
    shop.publish(orders={("east", 9): -1})
    answer = shop.verify()
    assert (answer["commit"], answer["same"], different(answer)) == (10, True, {"orders": 0, "regions": 0})
    shop.damage("DELETE FROM orders WHERE region = 'south'")
    assert different(shop.verify()) == {"orders": 1, "regions": 0}
    assert different(shop.verify("local", "REGIONS")) == {"regions": 0}


def test_a_sink_that_stands_inside_a_step_is_compared_there(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    deliver.close()
    shop.publish(orders={("east", 2): 1, ("east", 7): 1}, regions={("north", 2): -1})
    shop.publish(orders={("east", 2): -1})
    store = make_sink(check_sink.known(shop.project, "local"), shop.project)
    store.open()
    schema = shop.catalog.views()["orders"].schema
    change = pa.table({"region": ["east"], "n": [2], "_w": [1]})
    store.write(Delivery(14, {"orders": schema, "regions": shop.catalog.views()["regions"].schema}, {"orders": change}))
    answer = shop.verify()
    assert (answer["commit"], different(answer)) == (14, {"orders": 0, "regions": 1})  # regions has lost a row at 13
    check_sink.repair(shop.project, shop.catalog, "local", (), lambda event: None)
    assert shop.rows("regions") == Counter([("south", 5)])
    assert shop.verify()["same"]


def test_the_sinks_own_thread_repairs_between_two_deliveries(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    shop.damage("UPDATE regions SET n = 77 WHERE region = 'north'")
    shop.damage("DELETE FROM orders WHERE region = 'north'")
    assert different(shop.verify()) == {"orders": 2, "regions": 2}
    stop, last = threading.Event(), [0]

    def publish() -> None:
        while not stop.is_set():
            last[0] = shop.publish(orders={("west", shop.number): 1})
            deliver.wake()
            time.sleep(0.01)

    writer = threading.Thread(target=publish)
    writer.start()
    answers = [
        check_sink.repair(shop.project, shop.catalog, "local", (), lambda event: None, deliver) for _ in range(5)
    ]
    stop.set()
    writer.join()
    shop.reach(deliver, last[0])
    assert [answer["differences"] for answer in answers] == [4, 0, 0, 0, 0]
    assert answers[-1]["commit"] > 10
    assert shop.verify()["same"]
    assert shop.rows("regions") == Counter([("north", 2), ("south", 5)])
    assert shop.rows("orders")[("north", 1)] == 2
    assert sum(shop.rows("orders").values()) == 3 + shop.number - 1
    deliver.close()
    kinds = [event["event"] for event in shop.told]
    assert kinds.count("sink.repaired") == 5 and "sink.failed" not in kinds


def test_a_sink_that_stopped_over_damage_goes_on_after_a_repair(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    shop.damage("DELETE FROM orders")
    commit = shop.publish(orders={("south", 5): -1})
    deliver.wake()
    until(lambda: deliver.error is not None)
    assert deliver.error is not None and deliver.error.code == "sink.diverged"
    assert "headrace repair" in deliver.error.next
    answer = check_sink.repair(shop.project, shop.catalog, "local", (), lambda event: None, deliver)
    assert (answer["commit"], answer["differences"]) == (10, 3)
    shop.reach(deliver, commit)
    assert shop.rows("orders") == Counter([("north", 1), ("north", 1)])
    deliver.close()


def test_who_asks_a_sink_that_cannot_answer_hears_why(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))

    def broken(sink: object) -> int:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        deliver.between(broken)
    assert deliver.between(lambda sink: sink.name) == "local"
    definition = check_sink.known(shop.project, "local")
    make_sink(definition, shop.project).open()  # another instance takes over
    shop.publish(orders={("north", 1): 1})
    deliver.wake()
    until(lambda: not deliver.is_alive())
    with pytest.raises(HeadraceError) as caught:
        deliver.between(lambda sink: sink.name)
    assert caught.value.code == "sink.fenced"


def test_a_sink_that_is_down_refuses_a_repair_and_goes_on_later(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "views.duckdb").write_text("this is no database" * 1000)
    deliver = shop.deliver()
    commit = shop.publish(**FIRST)
    with pytest.raises(HeadraceError) as caught:
        check_sink.repair(shop.project, shop.catalog, "local", (), lambda event: None, deliver)
    assert caught.value.code == "sink.connect"
    (tmp_path / "views.duckdb").unlink()
    shop.reach(deliver, commit)
    deliver.close()
    assert shop.verify()["same"]


def test_what_the_sink_has_not_had_yet_is_left_out_and_told(shop: Shop) -> None:
    answer = shop.verify()
    assert (answer["commit"], answer["views"], answer["same"]) == (None, [], True)
    waiting = [{"view": name, "why": "it has not been delivered yet"} for name in ("orders", "regions")]
    assert answer["left_out"] == waiting
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    deliver.close()
    shop.define("orders", version=2)
    shop.catalog.drop_view("regions", 0)
    shop.define("fresh")
    shop.publish(orders_2={("north", 1): 1})
    assert shop.verify()["left_out"] == [
        {"view": "fresh", "why": "it has not been delivered yet"},
        {"view": "orders", "why": "the store holds version 1; version 2 comes with the next delivery"},
        {"view": "regions", "why": "it is not delivered any more; its table goes with the next delivery"},
    ]


def test_a_store_of_another_time_is_told(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    deliver.close()
    for commit, said in ((5, "but commit 10 was delivered to it"), (500, "but the views at commit 10")):
        shop.damage(f'UPDATE headrace_progress SET "commit" = {commit}')
        with pytest.raises(HeadraceError) as caught:
            shop.verify()
        assert caught.value.code == "sink.diverged"
        assert said in caught.value.what


def test_names_that_do_not_exist_have_a_nearest_one(shop: Shop) -> None:
    for sink, views, code, hint in (
        ("locl", (), "sink.unknown", "did you mean 'local'?"),
        ("local", ("order",), "view.unknown", "did you mean 'orders'?"),
        ("some", ("regions",), "view.unknown", "views of the sink: orders"),
    ):
        with pytest.raises(HeadraceError) as caught:
            shop.verify(sink, *views)
        assert (caught.value.code, caught.value.next) == (code, hint)


# ---- the commands, while nothing runs


def test_without_a_running_up_no_spark_is_started(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(**FIRST))
    deliver.close()
    shop.damage("UPDATE regions SET n = 77 WHERE region = 'north'")
    shop.damage("DROP TABLE orders")
    done = shop.run("verify", "--sink", "local")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[2:4]] == [["orders", "3", "3"], ["regions", "2", "2"]]
    assert lines[4:] == [
        "  diverged orders: 'orders' is not there",
        "  differs regions: expected 1 of this row, found 0: region=north, n=2",
        "  differs regions: expected 0 of this row, found 1: region=north, n=77",
        "",
        "5 differences in 5 rows, 1 diverged table, of 2 views of the sink local at commit 10",
    ]
    dry = shop.run("repair", "--sink", "local", "--dry-run")
    assert dry.returncode == 0
    assert dry.stdout.endswith("at commit 10; nothing is written\n")
    assert json.loads(shop.run("verify", "--sink", "local", "--json").stdout)["differences"] == 5
    call = (
        "import sys; from pathlib import Path; from headrace.control.verbs import call;"
        "call(Path('.'), 'repair', {'sink': 'local'}, lambda event: None); print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, cwd=shop.folder, check=True)
    assert done.stdout == "False\n"
    assert shop.run("verify", "--sink", "local").returncode == 0
    assert shop.rows("orders") == Counter([("north", 1), ("north", 1), ("south", 5)])
    assert shop.rows("regions") == Counter([("north", 2), ("south", 5)])
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(orders={("south", 5): -1}))
    deliver.close()
    assert shop.verify()["same"]


def test_many_rows_are_written_only_when_somebody_has_said_yes(shop: Shop) -> None:
    deliver = shop.deliver()
    shop.reach(deliver, shop.publish(orders={("north", n): 1 for n in range(1500)}))
    deliver.close()
    shop.damage("DELETE FROM orders WHERE n >= 500")
    done = shop.run("repair", "--sink", "local")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1,000 differences in 1,500 rows of 2 views of the sink local at commit 10: repaired\n")
    shop.damage("DELETE FROM orders WHERE n >= 499")
    done = shop.run("repair", "--sink", "local")
    assert done.returncode == 2
    assert "say --yes" in done.stderr
    assert sum(shop.rows("orders").values()) == 499
    done = shop.run("repair", "--sink", "local", "--yes", "--json")
    answer = json.loads(done.stdout)
    assert (answer["repaired"], answer["differences"]) == (True, 1001)
    assert sum(shop.rows("orders").values()) == 1500


def test_a_project_that_has_not_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    (tmp_path / "sinks").mkdir()
    (tmp_path / "sinks/local.yaml").write_text("type: duckdb\npath: views.duckdb\n")
    done = subprocess.run(
        [COMMAND, "verify", "--sink", "local"], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "[project.not_running]" in done.stderr
    assert not (tmp_path / "views.duckdb").exists()
