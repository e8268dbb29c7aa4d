"""The few libpq calls that replication and bulk COPY need, through psycopg's public ``pq`` layer.

Every wait is a ``select``: libpq's own blocking calls would hold the interpreter lock.
docs/decisions/0003-postgres-transport.md says why it is this layer.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator

import psycopg
from psycopg import pq

COPY_BYTES = 32 << 20  # COPY's rows are handed on in pieces of about this size
TICK_SECONDS = 0.5  # how often a wait looks whether it should go on
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)

GoOn = Callable[[], None]  # raises to end a wait
Count = Callable[[int], None]


def command(connection: psycopg.Connection, text: bytes, go_on: GoOn = lambda: None) -> pq.abc.PGresult:
    """Send one command of the simple protocol; its first result. Raises psycopg.Error with the server's SQLSTATE."""
    pgconn = connection.pgconn
    pgconn.send_query(text)
    while pgconn.is_busy():
        wait_readable(pgconn, TICK_SECONDS)
        go_on()
        pgconn.consume_input()
    result = pgconn.get_result()
    if result is None:
        raise psycopg.OperationalError("the server closed the connection")
    if result.status in _FAILED:
        _finish(pgconn)
        raise psycopg.errors.error_from_result(result)
    if result.status not in (pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH):
        _finish(pgconn)
    return result


def copy_out(
    connection: psycopg.Connection, text: bytes, go_on: GoOn = lambda: None, count: Count = lambda rows: None
) -> Iterator[bytes]:
    """The output of ``COPY ... TO STDOUT`` in pieces of whole rows; ``count`` hears now and then how many came."""
    command(connection, text, go_on)
    pgconn = connection.pgconn
    come = 0
    rows = bytearray()  # not a list of a million views: the garbage collector would walk them again and again
    while True:
        length, row = pgconn.get_copy_data(1)
        if length > 0:
            rows += row
            come += 1
            if len(rows) >= COPY_BYTES:
                count(come)
                yield bytes(rows)
                rows.clear()
                go_on()
        elif length == 0:
            count(come)
            wait_readable(pgconn, TICK_SECONDS)
            go_on()
            pgconn.consume_input()
        else:
            break
    result = pgconn.get_result()
    _finish(pgconn)
    if result is None or result.status in _FAILED:
        raise psycopg.errors.error_from_result(result) if result else psycopg.OperationalError("COPY was cut short")
    if rows:
        yield bytes(rows)


def wait_readable(pgconn: pq.abc.PGconn, seconds: float) -> bool:
    return bool(select.select([pgconn.socket], [], [], seconds)[0])


def _finish(pgconn: pq.abc.PGconn) -> None:
    while pgconn.get_result() is not None:
        pass
