"""Goal: a verb that is at work while the pipeline ends by a fault tells that fault, not what it met itself by it.

Method: the dispatcher over pipelines that have ended, by a full disk, by a fault of ours, or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from headrace.control.running import PipelineVerbs
from headrace.control.verbs import Dispatcher
from headrace.model.errors import HeadraceError

FULL = HeadraceError("state.full", "no space is left on the disk")


class Ended:
    def __init__(self, error: BaseException | None, met: Exception) -> None:
        self.error, self.met = error, met

    def frontier(self) -> dict[str, Any]:
        raise self.met


@pytest.mark.parametrize(
    ("error", "met", "raised"),
    [
        (FULL, ConnectionError("Spark is gone"), "state.full"),
        (FULL, HeadraceError("view.unknown", "no"), "view.unknown"),
        (None, OSError(28, "No space left on device"), "state.full"),
        (ValueError("no"), ConnectionError("Spark is gone"), "Spark is gone"),
        (None, ConnectionError("Spark is gone"), "Spark is gone"),
    ],
)
def test_a_verb_tells_what_the_pipeline_has_ended_by(
    error: BaseException | None, met: Exception, raised: str, tmp_path: Path
) -> None:
    dispatcher = Dispatcher(tmp_path, lambda: None)
    dispatcher.attach(cast(PipelineVerbs, Ended(error, met)))
    with pytest.raises((HeadraceError, ConnectionError), match=raised):
        dispatcher.handle("frontier", {}, lambda event: None)
