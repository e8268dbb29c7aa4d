"""A function in Python that views may call, as its author declares it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Function:
    """What ``function`` makes of a Python function: it is called as before, and views can be told of it.

    ``returns``: the type of its result as Spark SQL names it; None: what its annotation says.
    """

    def __init__(self, body: Callable[..., Any], returns: str | None) -> None:
        functools.update_wrapper(self, body)
        self.body, self.returns = body, returns

    def __call__(self, *values: Any) -> Any:
        return self.body(*values)


def function(body: Callable[..., Any] | None = None, *, returns: str | None = None) -> Any:
    """Declare a Python function for use in views. The same arguments must always give the same value.

    A view that a row enters and later leaves computes the value both times: time, randomness, files and the network
    have no place in it. ``returns``: a type of Spark SQL, such as ``"decimal(10,2)"``; without it the annotation of
    the result tells: int, float, str, bool, bytes, date or datetime.
    """
    if body is None:
        return functools.partial(function, returns=returns)
    return Function(body, returns)
