"""Goal: psql and HTTP are encrypted by the files that are named, or by a certificate of their own, and clients that check
it find what they look for.

Method: what `headrace up` serves, over a view published by hand; psql, psycopg and httpx as clients that check.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import stat
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.x509 import load_pem_x509_certificate
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import headrace
from alert_receivers import certified
from headrace.api.descriptors import STARTING
from headrace.api.server import Servers
from headrace.catalog.project import read
from headrace.model.definition import ApiSettings, Project, PsqlSettings, Settings
from headrace.model.errors import HeadraceError
from headrace.testing.ports import free_port
from headrace.web import certificate, server, tls
from headrace.web.server import ServerThread
from published_view import Published, Rows

TLS_REQUEST = struct.pack("!II", 8, 80877103)  # of PostgreSQL's protocol


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    published = Published(tmp_path_factory.mktemp("tls") / "shop")
    published.step([Rows({(7, 70): 1})])
    return published.folder


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[tuple[str, int]]:
    """(the API's URL, psql's port)."""
    port, told = free_port(), list[dict[str, Any]]()
    settings = Settings(name="shop", api=ApiSettings(port=0, **options), psql=PsqlSettings(port=port, **options))
    beside = Servers(Project(folder, settings), told.append)
    try:
        beside.listen()
        beside.begin(None)
        yield told[0]["url"], port
    finally:
        beside.close()


def psql(port: int, host: str, folder: Path, **options: str) -> tuple[str, str]:
    password = (folder / ".headrace/tokens/api").read_text().strip()
    spelled = " ".join(f"{key}={value}" for key, value in options.items())
    done = subprocess.run(
        ["psql", "-X", "-A", "-t", f"host={host} port={port} user=ada dbname=shop {spelled}", "-c", "TABLE sums"],
        env={**os.environ, "PGPASSWORD": password}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr.strip()


def test_a_certificate_of_its_own_is_made_once_and_is_what_clients_check(folder: Path, tmp_path: Path) -> None:
    authority, key = folder / ".headrace/tls/ca.crt", folder / ".headrace/tls/server.key"
    with served(folder, tls=True) as (url, port):
        assert url.startswith("https://127.0.0.1:")
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        made = authority.read_bytes()
        for host in ("localhost", "127.0.0.1"):
            assert psql(port, host, folder, sslmode="verify-full", sslrootcert=str(authority)) == ("7|70", "")
        assert psql(port, "127.0.0.1", folder, sslmode="require") == ("7|70", "")
        certified(tmp_path, "localhost")  # of another authority
        other = psql(port, "localhost", folder, sslmode="verify-full", sslrootcert=str(tmp_path / "ca.crt"))
        assert other[0] == "" and "certificate verify failed" in other[1]
        token = (folder / ".headrace/tokens/api").read_text().strip()
        with psycopg.connect(
            host="localhost", port=port, user="ada", dbname="shop", password=token, sslmode="verify-full",
            sslrootcert=str(authority),
        ) as connection:  # fmt: skip
            assert connection.pgconn.ssl_in_use and connection.execute("TABLE sums").fetchall() == [(7, 70)]
        with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=authority)) as browser:
            logged = browser.post("/api/session", json={"token": token})
            assert logged.status_code == 200 and "; secure" in logged.headers["set-cookie"].lower()
            assert browser.get("/api/views/sums/row?id=7").json()["row"] == {"id": 7, "n": 70}
        step = next(headrace.watch("sums", url=url, token=token, ca=str(authority)))
        assert (step.kind, step.changes) == ("snapshot", [{"weight": 1, "row": {"id": 7, "n": 70}}])
        with pytest.raises(HeadraceError, match="CERTIFICATE_VERIFY_FAILED") as unknown:
            next(headrace.watch("sums", url=url, token=token))
        assert unknown.value.code == "api.unreachable" and "ca.crt" in unknown.value.next
        with pytest.raises(HeadraceError, match="cannot be read"):
            next(headrace.watch("sums", url=url, token=token, ca=str(tmp_path / "none")))
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/api/health")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url.replace('https', 'http')}/api/health")
    with served(folder, tls=True):
        assert authority.read_bytes() == made


def test_a_handshake_that_is_not_ended_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = ServerThread(
            FastAPI(), listener, encrypted=tls.files(tmp_path, tmp_path, PsqlSettings(tls=True), "api")
        )
        try:
            for said in (b"", b"\x16\x03\x01"):  # the first of them, a greeting's
                since = time.monotonic()
                with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:
                    line.sendall(said)
                    with contextlib.suppress(ConnectionResetError):
                        assert line.recv(1) == b""
                    assert 0.2 < time.monotonic() - since < 4
        finally:
            served.close()


def test_handshakes_that_are_not_ended_are_few(tmp_path: Path, folder: Path) -> None:
    """Over HTTP the first of them make room; by psql others are not begun before one of them has ended."""
    files, held = tls.files(tmp_path, tmp_path, PsqlSettings(tls=True), "api"), contextlib.ExitStack()
    with held, socket.create_server(("127.0.0.1", 0)) as listener:
        app = FastAPI()
        app.get("/")(lambda: 7)
        served_by = ServerThread(app, listener, encrypted=files, connections=8)
        try:
            port = served_by.port
            silent = [held.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(20)]
            for line in silent[:12]:
                with contextlib.suppress(ConnectionResetError):
                    assert line.recv(1) == b""  # before the time of a handshake is over
            assert httpx.get(f"https://127.0.0.1:{port}/", verify=False).json() == 7
            silent[-1].settimeout(0.2)
            with pytest.raises(TimeoutError):
                silent[-1].recv(1)
        finally:
            served_by.close()
    with contextlib.ExitStack() as held, served(folder, tls=True) as (_, port):
        assert psql(port, "127.0.0.1", folder, sslmode="require") == ("7|70", "")  # who answers is started
        lines = list[socket.socket]()
        for _ in range(STARTING + 1):
            lines.append(held.enter_context(socket.create_connection(("127.0.0.1", port), 5)))
            lines[-1].sendall(TLS_REQUEST)
            assert lines[-1].recv(1) == b"S"
        assert lines[0].recv(1) == b""  # in the midst of its handshake, it made room
        assert psql(port, "127.0.0.1", folder, sslmode="require") == ("7|70", "")


def test_where_all_are_answered_a_handshake_ends_at_once(tmp_path: Path) -> None:
    files, app = tls.files(tmp_path, tmp_path, PsqlSettings(tls=True), "api"), FastAPI()

    async def endless() -> AsyncIterator[bytes]:
        yield b"7"
        await asyncio.Event().wait()

    app.get("/")(lambda: StreamingResponse(endless()))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served_by = ServerThread(app, listener, encrypted=files, connections=2)
        try:
            with contextlib.ExitStack() as held:
                streams = list[Iterator[bytes]]()  # one that is let go ends its connection
                for _ in range(2):
                    client = held.enter_context(httpx.Client(verify=False))
                    answer = held.enter_context(client.stream("GET", f"https://127.0.0.1:{served_by.port}/"))
                    streams.append(answer.iter_raw())
                    assert next(streams[-1]) == b"7"
                for _ in range(3):
                    line = held.enter_context(socket.create_connection(("127.0.0.1", served_by.port), 5))
                    with contextlib.suppress(ConnectionResetError):
                        assert line.recv(1) == b""  # before the time of a handshake is over
        finally:
            served_by.close()


def test_one_that_is_for_other_names_or_is_over_soon_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PsqlSettings(tls=True)
    found = tls.files(tmp_path, tmp_path, settings, "psql")
    assert found is not None
    first = found.certificate.read_bytes()
    assert tls.files(tmp_path, tmp_path, settings, "psql") == found and found.certificate.read_bytes() == first
    tls.files(tmp_path, tmp_path, PsqlSettings(tls=True, host="10.0.0.7"), "psql")
    second = found.certificate.read_bytes()
    assert second != first and certificate.serves(found.certificate, ["10.0.0.7", "localhost", "::1"])
    monkeypatch.setattr(certificate, "RENEWED", certificate.LIFE)
    tls.files(tmp_path, tmp_path, settings, "psql")
    third = found.certificate.read_bytes()
    assert third != second
    monkeypatch.undo()
    found.certificate.write_bytes(third[:100])  # a power cut left a piece of it
    tls.files(tmp_path, tmp_path, settings, "psql")
    assert certificate.serves(found.certificate, ["localhost"])


def test_two_servers_at_two_hosts_share_one_for_both(tmp_path: Path) -> None:
    api, psql = (
        ApiSettings(port=0, tls=True, host="127.0.0.2"),
        PsqlSettings(port=free_port(), tls=True, host="127.0.0.3"),
    )
    made = []
    for _ in range(2):  # and at the next start
        beside = Servers(Project(tmp_path, Settings(name="shop", api=api, psql=psql)), lambda event: None)
        beside.listen()
        beside.close()
        made.append((tmp_path / ".headrace" / tls.FOLDER / tls.CERTIFICATE).read_bytes())
    assert made[0] == made[1]
    assert certificate.serves(
        tmp_path / ".headrace" / tls.FOLDER / tls.CERTIFICATE, ["127.0.0.2", "127.0.0.3", "localhost"]
    )


@pytest.mark.parametrize("whole", range(3))
def test_wherever_its_making_ends_the_next_start_has_one_that_fits(
    tmp_path: Path, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``whole``: how many files are in their place when the process is killed, as a new certificate is made."""
    settings, real, moved = PsqlSettings(tls=True), Path.replace, list[Path]()
    found = tls.files(tmp_path, tmp_path, settings, "psql")
    assert found is not None
    first = found.certificate.read_bytes()

    def replace(partial: Path, path: Path) -> Path:
        if len(moved) == whole:
            raise KeyboardInterrupt
        moved.append(path)
        return real(partial, path)

    with monkeypatch.context() as patch:
        patch.setattr(certificate, "RENEWED", certificate.LIFE)
        patch.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            tls.files(tmp_path, tmp_path, settings, "psql")
    assert (
        tls.files(tmp_path, tmp_path, settings, "psql") == found
    )  # which loads both, and raises where they do not fit
    assert found.certificate.read_bytes() != first
    made, authority = (
        load_pem_x509_certificate(found.certificate.with_name(name).read_bytes())
        for name in (tls.CERTIFICATE, tls.AUTHORITY)
    )
    made.verify_directly_issued_by(authority)


def test_files_that_are_named_are_used_and_without_any_nothing_is_encrypted(folder: Path, tmp_path: Path) -> None:
    certified(tmp_path, "localhost")
    named = {"certificate": str(tmp_path / "server.crt"), "key": str(tmp_path / "server.key")}
    authority = tmp_path / "ca.crt"
    with served(folder, **named) as (url, port):
        assert psql(port, "localhost", folder, sslmode="verify-full", sslrootcert=str(authority)) == ("7|70", "")
        wrong = psql(port, "127.0.0.1", folder, sslmode="verify-full", sslrootcert=str(authority))
        assert wrong[0] == "" and 'does not match host name "127.0.0.1"' in wrong[1]
        health = httpx.get(
            f"{url.replace('127.0.0.1', 'localhost')}/api/health", verify=ssl.create_default_context(cafile=authority)
        )
        assert health.json()["status"] == "ok"
    with served(folder) as (url, port):
        assert url.startswith("http://")
        assert "server does not support SSL" in psql(port, "localhost", folder, sslmode="require")[1]
    with (
        pytest.raises(HeadraceError, match="the certificate cannot be used"),
        served(folder, certificate="no.crt", key=named["key"]),
    ):
        pass


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    certified(tmp_path, "localhost")
    locked = ["openssl", "rsa", "-aes256", "-passout", "pass:secret", "-in", "server.key", "-out", "locked.key"]
    subprocess.run(locked, cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(HeadraceError, match="the certificate cannot be used") as caught:
        tls.check(tmp_path, PsqlSettings(certificate="server.crt", key="locked.key"), "psql")
    assert "without a password" in caught.value.next


def test_what_is_written_of_tls_is_checked(tmp_path: Path) -> None:
    for section in ("api", "psql"):
        for written, said in (
            ("{tls: yes please}", "true or false"), ("{certificate: a.pem}", "both 'certificate' and 'key'"),
            ("{tls: true, certificate: a.pem, key: b.pem}", "another one is named"),
        ):  # fmt: skip
            (tmp_path / "headrace.yaml").write_text(f"{section}: {written}\n")
            with pytest.raises(HeadraceError, match=said):
                read(tmp_path)
        (tmp_path / "headrace.yaml").write_text(f"{section}: {{tls: true}}\n")
        found = getattr(read(tmp_path).settings, section)
        assert (found.tls, found.certificate) == (True, "")
