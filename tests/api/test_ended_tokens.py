"""Goal: who has a token that has expired or was revoked is told so, by every way in, and what it had open ends.

Method: tokens of a moment over real HTTP and PostgreSQL's protocol; a request, an open stream, a connection.
"""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import psycopg
import pytest
from served_project import site

from headrace.api.postgres.password import passwords
from headrace.governance.access import Access
from headrace.governance.roles import Role
from psql_project import Views, connect, serving
from published_view import Published, Rows

BRIEF_S = 4.0


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    told = answer.json()
    return answer.status_code, told["code"], told["what"]


def test_over_http_a_request_is_told_how_its_token_ended_and_a_stream_ends(tmp_path: Path) -> None:
    published = Published(tmp_path / "shop")
    published.step([Rows({(1, 1): 1})])
    with site(published.folder) as served:
        _, gone = served.tokens.create("gone", Role.VIEWER)
        with served.client(gone) as client:  # what a first request takes is no part of the moment
            assert client.get("/api/views/sums/row?id=1").json()["row"] == {"id": 1, "n": 1}
        made, brief = served.tokens.create("brief", Role.VIEWER, lifetime_s=BRIEF_S)
        with served.client(brief) as client, client.stream("GET", "/api/views/sums/changes") as stream:
            assert client.get("/api/views/sums/row?id=1").json()["row"] == {"id": 1, "n": 1}
            began = time.monotonic()
            for _ in stream.iter_lines():  # to its end
                assert time.monotonic() - began < BRIEF_S + 5
            while time.time() * 1e6 < (made.expires_us or 0):
                time.sleep(0.05)
            for path in ("/api/views", "/api/views/sums/row?id=1", "/api/views/sums/changes"):
                status, code, what = refusal(client.get(path))
                assert (status, code) == (401, "access.token"), path
                assert what.startswith("the token 'brief' has expired at 20"), what
        served.tokens.revoke("gone")
        with served.client(gone) as client:
            assert refusal(client.get("/api/views")) == (401, "access.token", "the token 'gone' was revoked")
        with served.client("headrace_nobodys") as client:
            assert refusal(client.get("/api/views")) == (401, "access.token", "the token is not known")
        with served.client("") as client:
            assert refusal(client.get("/api/views")) == (401, "access.token", "the request has no token")


def test_by_psql_the_password_that_has_ended_is_told_as_such(tmp_path: Path) -> None:
    views = Views(tmp_path / "shop")
    views.view("sums", {"id": "bigint"})
    access = Access(views.state)
    try:
        _, first = access.tokens.create("first", Role.VIEWER)
        with serving(views, passwords(access)) as served:
            with connect(served, password=first) as before:  # what a first statement takes is no part of the moment
                before.execute("SELECT count(*) FROM sums")
            _, brief = access.tokens.create("brief", Role.VIEWER, lifetime_s=BRIEF_S)
            with connect(served, password=brief, autocommit=True) as open_one:
                assert open_one.execute("SELECT count(*) FROM sums").fetchall() == [(0,)]
                time.sleep(BRIEF_S)
                with pytest.raises(psycopg.Error):
                    open_one.execute("SELECT count(*) FROM sums")
                with pytest.raises(psycopg.OperationalError, match="the token 'brief' has expired at 20"):
                    connect(served, password=brief)
    finally:
        access.close()
