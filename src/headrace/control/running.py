"""What a verb is given: the pipeline at work, its project folder, and a way to say how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.model.definition import Project

if TYPE_CHECKING:
    from headrace.engine.heard import Heard
    from headrace.engine.query import Found
    from headrace.engine.recompute import Recomputed

# {"text": what is being done, "done": n, "total": m}, and where it is known as in ``Pace.shown``.
Progress = Callable[[dict[str, Any]], None]


class QuarantineVerbs(Protocol):
    """``headrace.engine.quarantined.Quarantined``."""

    def drop(
        self, *ids: str, table: str | None = None, upto: int | None = None, refused_upto: int | None = None
    ) -> int: ...

    def replay(
        self, *ids: str, table: str | None = None, upto: int | None = None, refused_upto: int | None = None,
        as_: str | None = None,
    ) -> dict[str, Any]: ...  # fmt: skip

    def fix(
        self, id: str, *, row: str | None = None, cells: Mapping[str, str] | None = None,
        as_: str | None = None,
    ) -> dict[str, Any]: ...  # fmt: skip


class RetentionVerbs(Protocol):
    """``headrace.engine.retention.RetentionThread``."""

    def by_hand(self, before: int | None, *, dry_run: bool, closing: bool = False) -> dict[str, Any]: ...


class ProfileVerbs(Protocol):
    """``headrace.engine.profile.Profiles``."""

    def profile(self, view: str, steps: int, seconds: float, on_progress: Progress) -> dict[str, Any]: ...


class PipelineVerbs(Protocol):
    """The part of ``headrace.engine.pipeline.Pipeline`` that the verbs call, from any thread."""

    project: Project

    @property
    def error(self) -> BaseException | None:
        """What it has failed with, and ends by."""

    @property
    def tell(self) -> Heard: ...

    @property
    def quarantine(self) -> QuarantineVerbs: ...

    @property
    def retention(self) -> RetentionVerbs: ...

    @property
    def profiles(self) -> ProfileVerbs: ...

    def plan(self, project: Project) -> dict[str, Any]: ...

    def apply(self, project: Project) -> dict[str, Any]: ...

    def explain(self, view: str, sql: str | None = None) -> dict[str, Any]: ...

    def lineage(self) -> dict[str, Any]: ...

    def query(self, text: str, seconds: float | None, still_wanted: Callable[[], bool], limit: int | None) -> Found: ...

    def recompute(self, view: str, commit: int, on_progress: Progress) -> Recomputed: ...

    def verify(self, views: list[str] | None, on_progress: Progress | None = None) -> dict[str, Any]: ...

    def verify_sink(self, sink: str, views: list[str], on_progress: Progress) -> dict[str, Any]: ...

    def repair(self, sink: str, views: list[str], on_progress: Progress) -> dict[str, Any]: ...

    def backup(self, folder: Path, on_progress: Progress) -> dict[str, Any]: ...

    def drop(self, view: str) -> dict[str, Any]: ...

    def pause(self, sink: str, paused: bool) -> dict[str, Any]: ...

    def status(self) -> dict[str, Any]: ...

    def usage(self) -> dict[str, Any]: ...

    def frontier(self) -> dict[str, Any]: ...

    def wait_for(
        self, token: int | str, timeout_s: float, view: str | None, sink: str | None, on_progress: Progress | None,
        whose: str | None,
    ) -> dict[str, Any]: ...  # fmt: skip


@dataclass(frozen=True, slots=True)
class Running:
    """A pipeline and its project folder; ``stop`` asks the process that runs it to end (None: it runs for one verb)."""

    pipeline: PipelineVerbs
    path: Path
    stop: Callable[[], None] | None = None


Alone = Callable[[Path, Mapping[str, Any], Progress], dict[str, Any]]
Verb = Callable[[Running, Mapping[str, Any], Progress], dict[str, Any]]
