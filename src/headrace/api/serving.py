"""The process that answers for a running project: the API and the page, PostgreSQL's protocol, one mirror for both.

``python -m headrace.api.serving``, run by ``server``: the first line of its standard input says what to serve and on
which open sockets. It ends when that input ends, so also with a process that was killed; and by itself,
to be begun anew, when what answers HTTP has ended. On its standard output it gives signs of life: who runs it ends it
when it hangs; and tells why it cannot begin.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import select
import signal
import socket
import sqlite3
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from headrace.api.app import make_app
from headrace.api.bells import Bells
from headrace.api.descriptors import Seldom, bounds, raise_limit
from headrace.api.project import Served
from headrace.api.server import END_S, SIGN
from headrace.api.who import Gate
from headrace.catalog.project import STATE
from headrace.catalog.searches import StoredQueries
from headrace.control.socket import request
from headrace.governance.access import Access
from headrace.model.definition import ApiSettings, PsqlSettings
from headrace.serve.asking import Asking
from headrace.serve.live import Live
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from headrace.serve.search.forward import Forward
from headrace.web.listening import hosts
from headrace.web.server import ServerThread
from headrace.web.tls import Files, context

SWITCH_S = 0.0005  # an answer passes between threads, and would wait ten times as long for another's at each
LOOK_S = 1.0  # so often it is looked whether all of it is at work


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or a supervisor, for who runs the project
        signal.signal(number, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_S)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("asyncio").addFilter(Seldom())
    told = orjson.loads(sys.stdin.buffer.readline())
    listeners = {name: socket.socket(fileno=number) for name, number in told["listeners"].items()}
    with ExitStack() as ends:
        try:
            server = _serve(ends, told, listeners)
        except (OSError, sqlite3.Error) as error:  # of a full disk, say: who runs it tells why, and begins another
            os.write(sys.stdout.fileno(), _why(error, Path(told["path"])).encode())
            sys.exit(1)
        ends.callback(_end_in_time)
        gc.collect()
        gc.freeze()  # to go over all modules again and again is a pause of tens of milliseconds
        while not select.select([sys.stdin], [], [], LOOK_S)[0]:
            if server is None:
                _alive()
            elif server.ended:
                sys.exit("what answers HTTP has ended by itself")


def _why(error: Exception, folder: Path) -> str:
    from headrace.engine.disk import refusal

    known = refusal(error, folder / STATE)
    return f"{known.what}: {known.where}: {known.why}" if known else f"{type(error).__name__}: {error}"


def _alive() -> None:
    """A sign of life. Where HTTP is answered its loop gives it, so that none comes once that hangs."""
    with contextlib.suppress(OSError):  # nobody takes them: it ends soon
        os.write(sys.stdout.fileno(), SIGN)


def _end_in_time() -> None:
    """What hangs as it ends is to keep no port: nobody may be there to end it."""
    last = threading.Timer(END_S, os._exit, [1])
    last.daemon = True
    last.start()


def _serve(ends: ExitStack, told: dict[str, Any], listeners: dict[str, socket.socket]) -> ServerThread | None:
    """What answers HTTP, if anything does."""
    server, folder, api = None, Path(told["path"]), ApiSettings(**told["api"])
    psql = PsqlSettings(**told["psql"]) if told["psql"] is not None else None
    most = bounds(raise_limit(), psql.connections if psql is not None else 0)
    access = Access(folder / STATE)
    ends.callback(access.close)
    asking = Asking(folder)
    questions = Questions(Mirror(folder), api.memory, told["query_seconds"], asking)
    questions.begin()
    ends.callback(questions.close)
    encrypted = {name: files and Files(*map(Path, files)) for name, files in told["encrypted"].items()}
    if "api" in listeners:
        bells = Bells()
        live = Live(folder, questions.mirror, bells.ring, most.readers)
        ends.callback(live.close)
        forward = Forward(folder)
        forward.start()
        ends.callback(forward.close)
        gate = Gate(access, hosts(api.host) if api.auth == "none" else None)
        stored = StoredQueries(folder)
        app = make_app(Served(folder, partial(request, folder), questions, live, bells, gate, stored))
        server = ServerThread(app, listeners["api"], "headrace-api", encrypted["api"], _alive, most.connections)
        ends.callback(server.close)
        ends.callback(live.end)
        ends.callback(asking.close)  # who waits for an answer is told at once
    if psql is not None:
        # Its library is there only where it is asked for.
        from headrace.api.postgres.defining import Defining
        from headrace.api.postgres.password import passwords
        from headrace.api.postgres.server import PostgresServer

        authenticate = None if psql.auth == "none" else passwords(access)
        files = encrypted["psql"]
        sessions = PostgresServer(questions, told["name"], folder, psql, authenticate, files and context(files, "psql"))
        sessions.start(listeners["psql"], Defining(partial(request, folder), access, folder))
        ends.callback(sessions.stop)
    return server


if __name__ == "__main__":
    main()
