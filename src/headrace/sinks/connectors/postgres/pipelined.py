"""Statements that are sent without waiting for their answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg


@contextmanager
def pipelined(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """psycopg's pipeline: what fails inside is raised, not what its end fails with then.

    psycopg itself ends the pipeline of a connection that is lost with a warning, for which a program that does not log
    has the user's terminal.
    """
    failed: Exception | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except Exception as error:
                failed = error
    except psycopg.Error:
        if failed is None:
            raise
    if failed is not None:
        raise failed
