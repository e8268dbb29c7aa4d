"""The questions over HTTP that may take long: few at once, each with an end, so that all others find a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from headrace.model import bounds
from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.serve.places import Full, Places
from headrace.serve.questions import Questions

AT_ONCE, OF_ONE = 12, 6  # of all, and by one token, as many as a browser asks at once: more are told to come back
SECONDS = 10.0  # that one may take, unless it says how many
_running = Places(AT_ONCE, OF_ONE)
Found = TypeVar("Found")


def seconds(questions: Questions) -> float:
    """That one may take which does not say how many."""
    return min(SECONDS, questions.seconds)


@contextmanager
def of_few(whose: str | None) -> Iterator[None]:
    """The block is one of those that run, and are answered, at once. ``whose``: the token of who asks, if any.

    Raises ``wait.busy`` beyond ``AT_ONCE`` and ``OF_ONE``.
    """
    try:
        with _running.one(whose):
            yield
    except Full as full:
        many = f"{OF_ONE} queries by this token run already" if full.of_one else f"{AT_ONCE} queries run already"
        raise HeadraceError("wait.busy", many, next="try again, or make it a view") from None


def in_thread(work: Callable[[], Found], deadline: Deadline, whose: str | None) -> Found:
    """What ``work`` gives or raises, as one of the few, in a thread of its own: it may be of a kind that nothing ends.

    Raises ``query.timeout`` at the deadline; the work comes to its end all the same, and has its place until then.
    """

    def one_of_few() -> Found:
        with of_few(whose):
            return work()

    return _in_time(one_of_few, deadline)


def brought(questions: Questions, relation: str, deadline: Deadline) -> None:
    """Have a relation in memory, which nothing ends and takes long the first time. Raises as ``in_thread`` and
    ``Questions.bring``; who asks again finds it further, or there."""
    if not questions.mirror.holds(relation):
        _in_time(partial(questions.bring, relation, deadline), deadline)


def _in_time(work: Callable[[], Found], deadline: Deadline) -> Found:
    answer = Future[Found]()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(found)

    threading.Thread(target=run, name="headrace-question", daemon=True).start()
    if not wait([answer], deadline.left).done:
        raise bounds.timeout(deadline.seconds)
    return answer.result()
