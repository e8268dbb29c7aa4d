"""Goal: a view whose file was removed while nothing ran is run by no step again, and costs the others nothing.

Method: a step is recorded and not run, the project is opened for fewer views, and the circuits of each job are noted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from failing_case import COUNT, TABLES, begin, rows, state
from running_case import Case, Running, running

from headrace.engine.maintain import Maintainer
from headrace.engine.step import Stepper

pytestmark = pytest.mark.spark
VIEWS = {
    "counts": COUNT,
    "pages": "SELECT page, sum(n) AS n FROM clicks GROUP BY page",
    "most": "SELECT max(n) AS n FROM pages",
}


class Ended(Exception):
    pass


def ends_within_a_step(shop: Running) -> None:
    def ends(*_: Any) -> None:
        raise Ended

    shop.push({"clicks": {"insert": [["c", 5]]}, "orders": {"insert": [[9, 1, 1]]}})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Ended):
        patch.setattr(Maintainer, "take", ends)
        shop.step()
    shop.kill()


@pytest.mark.parametrize(("left", "run"), [(["counts"], {"counts"}), (["counts", "most"], {"counts", "pages", "most"})])
def test_a_view_that_is_gone_is_not_run_again(
    left: list[str], run: set[str], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = set[str]()
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "p") as shop:
        begin(shop, VIEWS)
        ends_within_a_step(shop)
        at_once = Stepper.at_once

        def noted(stepper: Stepper, *given: Any) -> Any:
            ran.update(circuit.name.partition("@")[0] for circuit in stepper.program.circuits)
            return at_once(stepper, *given)

        monkeypatch.setattr(Stepper, "at_once", noted)
        shop.pipeline = shop.opened(wanted=left)
        assert run == ran & VIEWS.keys()
        assert shop.pipeline.recovered == (len(run) == len(VIEWS))
        assert shop.contents("counts") == rows((1, 3), (2, 1))
        if len(run) < len(VIEWS):
            shop.define({name: VIEWS[name] for name in left})
            assert shop.pipeline.recovered and state(shop) == {"counts": "live"}
        shop.verify()
