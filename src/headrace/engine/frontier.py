"""Read your writes: waiting until views and sinks have reached what a token stands for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from headrace.engine import token as tokens
from headrace.engine.awaited import Awaited, awaited, failed
from headrace.engine.token import Token
from headrace.log.find import first_commit
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.serve import frontier as published
from headrace.serve import snapshot
from headrace.serve.places import Full, Places

if TYPE_CHECKING:
    from headrace.engine.deliver import Deliver
    from headrace.engine.ingest import Ingest
    from headrace.engine.pipeline import Pipeline

WAITERS = 16  # waits at once, over HTTP, the control socket and from Python together
WAITERS_OF_ONE = WAITERS // 2  # of one token: others find a place
LOOK_S = (0.002, 0.05)  # between two looks: at first, and after a while
TELL_S = 0.5  # between two words about how far it is; whoever has left shows then

Progress = Callable[[dict[str, Any]], None]


class WaitTimeout(HeadraceError, TimeoutError):
    """``wait.timeout``: what was waited for has not been reached in time."""


def frontier(pipeline: Pipeline) -> dict[str, Any]:
    """See ``serve.frontier.frontier``; each sink has its ``error`` beside its state."""
    end, at = pipeline.log.end, pipeline.maintainer.frontier
    sinks = []
    for name, deliver in list(pipeline.delivers.items()):
        error = deliver.error
        sinks.append({
            "name": name, "state": deliver.state, "error": error.as_dict() if error else None,
            "commit": deliver.reached,
        })  # fmt: skip
    return published.frontier(end, at, published.views(pipeline.catalog, at), sinks, pipeline.clock.behind_s)


class Waits:
    """The waits on one pipeline; at most ``WAITERS`` at once, ``WAITERS_OF_ONE`` of one. Called from any thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._reader = LogReader(pipeline.folder / "log")
        self._places = Places(WAITERS, WAITERS_OF_ONE)

    def wait_for(
        self, token: int | str, timeout_s: float, view: str | None, sink: str | None, on_progress: Progress | None,
        whose: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """See ``Pipeline.wait_for``."""
        pipeline = self._pipeline
        read = tokens.read(token, list(pipeline.ingests), pipeline.log.end)
        views = pipeline.catalog.views()
        if view is not None and view not in views and view in pipeline.refused:
            raise pipeline.refused[view]
        wanted = awaited(read, view, sink, views, list(pipeline.delivers))
        deadline = time.monotonic() + max(0.0, timeout_s)
        with ExitStack() as held:
            if read.commit is None:
                held.enter_context(self._source(read).watched())
            commit, reached = self._look(wanted, read.commit)
            if reached is None:
                held.enter_context(self._slot(whose))
            pause, told = LOOK_S[0], 0.0
            while reached is None:
                self._goes_on(wanted, commit)
                now = time.monotonic()
                if now >= deadline:
                    raise self._late(wanted, commit, timeout_s)
                if on_progress is not None and now >= told:
                    told = now + TELL_S
                    on_progress({"text": self._how_far(wanted, commit)})
                time.sleep(min(pause, deadline - now))
                pause = min(pause * 1.5, LOOK_S[1])
                commit, reached = self._look(wanted, commit)
        return {"token": read.text, "commit": commit, "reached": reached, "of": str(wanted)}

    # -- how far it is --------------------------------------------------------------------------------------

    def _look(self, wanted: Awaited, commit: int | None) -> tuple[int | None, int | None]:
        """(the commit that the token stands for, the one that was reached); None: not known yet, not as far yet."""
        commit = self._commit(wanted.token) if commit is None else commit
        if commit is None:
            return None, None
        reached = self._reached(wanted, commit)
        return commit, reached if reached >= commit else None

    def _reached(self, wanted: Awaited, commit: int) -> int:
        """The commit that what is waited for has reached; raises ``view.failed`` if it will not reach ``commit``."""
        pipeline = self._pipeline
        if wanted.sink is not None:
            return self._sink(wanted.sink).reached
        frontier = pipeline.maintainer.frontier  # before the look at the view: it may fail in between
        if wanted.view is None:
            return min([frontier, *(deliver.reached for deliver in list(pipeline.delivers.values()))])
        if wanted.view in pipeline.maintainer.views:
            return frontier
        record = snapshot.known(pipeline.catalog, wanted.view)
        reached = snapshot.reached(pipeline.catalog, record, frontier)
        if record.state == "failed" and reached < commit:
            raise failed(wanted.view, reached, record.reason)
        return reached

    def _sink(self, name: str) -> Deliver:
        found = self._pipeline.delivers.get(name)
        if found is None:
            raise HeadraceError("sink.unknown", f"the sink '{name}' is gone", next="headrace frontier")
        return found

    def _sinks(self, wanted: Awaited, commit: int) -> list[Deliver]:
        """The sinks waited for that have not reached ``commit``."""
        if wanted.view is not None:
            return []
        known = list(self._pipeline.delivers.items())
        return [d for name, d in known if wanted.sink in (None, name) and d.reached < commit]

    def _commit(self, token: Token) -> int | None:
        """The first commit at which the log holds what happened at the source by the token's point; None: not yet."""
        pipeline, ingest = self._pipeline, self._source(token)
        holds = ingest.source.holding(token.point, ingest.wanted)
        if ingest.begun is not None:
            return None  # what the log has of it is of a time before the source was begun anew
        position = pipeline.log.positions.get(token.source)
        if position is not None and holds(position):
            return first_commit(self._reader, token.source, holds)
        seen = ingest.seen
        return seen[1] if seen is not None and holds(seen[0]) else None

    def _source(self, token: Token) -> Ingest:
        ingest = self._pipeline.ingests.get(token.source)
        if ingest is None:
            raise HeadraceError("wait.token", f"the source '{token.source}' of the token is gone")
        return ingest

    # -- what ends a wait -----------------------------------------------------------------------------------

    @contextmanager
    def _slot(self, whose: str | None) -> Iterator[None]:
        try:
            with self._places.one(whose):
                yield
        except Full as full:
            if full.of_one:
                raise HeadraceError(
                    "wait.busy", f"{WAITERS_OF_ONE} wait by this token already",
                    next="try again, or give others a token of their own",
                ) from None  # fmt: skip
            raise HeadraceError(
                "wait.busy", f"{WAITERS} wait already", next="try again, or ask `headrace frontier`"
            ) from None

    def _goes_on(self, wanted: Awaited, commit: int | None) -> None:
        """Raises what will keep it from ever being reached."""
        pipeline = self._pipeline
        if isinstance(pipeline.error, HeadraceError):
            raise pipeline.error
        if pipeline.error is not None:
            raise HeadraceError("internal", f"the engine has failed: {pipeline.error}") from pipeline.error
        if pipeline.stopping:
            raise HeadraceError("project.not_running", "the product is stopping", next="wait again when it runs")
        if commit is None:
            ended = [(f"source {wanted.token.source}", self._source(wanted.token).ended)]
        else:
            ended = [(f"sink {deliver.sink.name}", deliver.ended) for deliver in self._sinks(wanted, commit)]
        for name, error in ended:
            if error is not None:
                what = f"{name} has stopped: {error.what}"
                raise HeadraceError(error.code, what, where=error.where, why=error.why, next=error.next)

    def _how_far(self, wanted: Awaited, commit: int | None) -> str:
        if commit is None:
            return f"{wanted.token.text} is not in the log yet; {self._source_is(wanted.token)}"
        return f"waiting for commit {commit}; " + "; ".join(self._behind(wanted, commit))

    def _late(self, wanted: Awaited, commit: int | None, timeout_s: float) -> WaitTimeout:
        if commit is None:
            what = f"the log has not got as far as {wanted.token.text} within {timeout_s:g} s"
            return WaitTimeout("wait.timeout", what, why=self._source_is(wanted.token), next="headrace status")
        what = f"{wanted} has not reached commit {commit} within {timeout_s:g} s"
        return WaitTimeout(
            "wait.timeout", what, why="; ".join(self._behind(wanted, commit)), next="`headrace frontier`, or wait again"
        )

    def _source_is(self, token: Token) -> str:
        ingest = self._source(token)
        seen = ingest.seen[0] if ingest.seen else self._pipeline.log.positions.get(token.source, "its beginning")
        state = "failed: " + ingest.error.what if ingest.error else "running" if ingest.ready.is_set() else "starting"
        return f"source {token.source} is at {seen} ({state})"

    def _behind(self, wanted: Awaited, commit: int) -> list[str]:
        """Every view and sink waited for that has not reached ``commit``, with where it is and what is wrong."""
        found, frontier = [], self._pipeline.maintainer.frontier
        if wanted.sink is None and frontier < commit:
            found.append(f"{f'view {wanted.view} is' if wanted.view else 'the views are'} at commit {frontier}")
        for deliver in self._sinks(wanted, commit):
            error = deliver.error
            why = ", paused" if deliver.paused else f", failed: [{error.code}] {error.what}" if error else ""
            found.append(f"sink {deliver.sink.name} is at commit {deliver.reached}{why}")
        return found
