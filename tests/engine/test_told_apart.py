"""Goal: a sink that tells of changes is given every published step by itself, however far it is behind, also while a view fails.

Method: a pipeline stepped by hand, the sink's turns taken by hand, a real receiver: what came and went again between two
turns must have been told, and what was told must add up to the view after every step.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from failing_case import stepped
from running_case import Case, Running, running

from alert_receivers import HookReceiver, contents
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.model.definition import SinkDefinition

pytestmark = pytest.mark.spark

TABLES = {"orders": {"columns": {"id": "int not null", "amount": "int"}, "key": "id"}}
LARGE = "SELECT id, amount FROM orders WHERE amount > 100"
SMALL = "SELECT count(*) AS n FROM orders WHERE amount <= 100"
OPTIONS = {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "timeout_s": 2}


def delivering(shop: Running, url: str, **options: Any) -> Deliver:
    sink = make_sink(SinkDefinition("hook", "webhook", options={"url": url, **OPTIONS, **options}), shop.project)
    return Deliver(sink, None, shop.pipeline.catalog, shop.pipeline.maintainer.reader, shop.events.append)


def caught_up(deliver: Deliver) -> None:
    while deliver.turn() == 0.0:
        pass
    assert deliver.error is None, deliver.error


def large(shop: Running) -> Counter[str]:
    rows = ({"id": int(i), "amount": int(amount)} for i, amount in shop.contents("large").elements())
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_what_came_and_went_while_the_sink_was_behind_is_told(spark: Any, tmp_path: Path) -> None:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as shop, HookReceiver() as receiver:
        shop.define({"large": LARGE})
        stepped(shop, {"orders": {"insert": [[1, 500]]}})
        deliver = delivering(shop, receiver.url, initial="send")
        caught_up(deliver)
        after = {shop.pipeline.maintainer.frontier: large(shop)}
        for change in (
            {"insert": [[2, 200]]},
            {"delete": [[2]]},
            {"upsert": [[1, 50]]},
            {"upsert": [[1, 700], [3, 101]]},
        ):
            stepped(shop, {"orders": change})
            after[shop.pipeline.maintainer.frontier] = large(shop)
        shop.define({"large": LARGE, "small": SMALL})  # a new view does not make one of the steps before it
        caught_up(deliver)
        told = [message for message in receiver.told() if message["view"] == "large"]
        assert [message["commit"] for message in told] == sorted(after)
        for commit, expected in after.items():
            assert contents(m for m in told if m["commit"] <= commit)["large"] == expected, commit
        assert {"id": 2, "amount": 200} in told[1]["entered"] and {"id": 2, "amount": 200} in told[2]["left"]
        # A view that fails from its beginning, one that goes and one that is edited: nor do they.
        shop.define({"large": LARGE, "small": SMALL, "broken": "SELECT id, 1 / (amount - 700) AS x FROM orders"})
        for change in ({"insert": [[4, 400]]}, {"delete": [[4]]}):
            stepped(shop, {"orders": change})
        shop.define({"large": LARGE})
        for change in ({"insert": [[5, 500]]}, {"delete": [[5]]}):
            stepped(shop, {"orders": change})
        before = len(receiver.requests)
        caught_up(deliver)
        told = [(message["view"], message["entered"], message["left"]) for message in receiver.told()[before:]]
        came, went = (lambda number: [{"id": number, "amount": 100 * number}]), list[Any]()
        assert told == [("large", came(n), went) if n > 0 else ("large", went, came(-n)) for n in (4, -4, 5, -5)]
        stepped(shop, {"orders": {"insert": [[6, 600]]}})
        stepped(shop, {"orders": {"delete": [[6]]}})
        shop.define({"large": LARGE.replace("100", "600")})
        stepped(shop, {"orders": {"insert": [[8, 800]]}})
        before = len(receiver.requests)
        caught_up(deliver)
        assert [m.get("initial", False) for m in receiver.told()[before:]] == [True]
        assert {row["id"] for row in receiver.told()[-1]["entered"]} == {1, 8}
        receiver.answers.append(410)
        stepped(shop, {"orders": {"upsert": [[1, 900]]}})
        assert deliver.turn() is None  # it ends: to go on would not help
        assert deliver.error is not None and deliver.error.code == "sink.gone"
        deliver.sink.close()
