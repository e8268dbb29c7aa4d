"""Goal: a server is followed over TLS, and only when it proves who it is.

Method: a certificate authority made here signs a certificate for the name 'localhost'; a real server that takes no
connection without TLS shows it. The server's refusal of what is not encrypted is the judge.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_server import MysqlSource, server_kind
from headrace.testing.mysqld import Mysqld
from postgres_server import drain, fails

__all__ = ["server_kind"]  # a fixture

pytestmark = pytest.mark.binlog


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    subject = ["-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *subject)


@pytest.fixture(scope="module")
def tls(server_kind: type[Mysqld]) -> Iterator[tuple[Mysqld, Path]]:
    """A server with a user that may use TLS alone; the folder with ``ca.crt``, which signed, and ``other.crt``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs as another user
        authority(folder, "ca")
        authority(folder, "other")
        request = ["-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=db"]
        openssl(folder, "req", *request)
        (folder / "names").write_text("subjectAltName=DNS:localhost\n")
        signed = ["-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
        openssl(folder, "x509", *signed, "-extfile", "names", "-out", "server.crt")
        (folder / "server.key").chmod(0o644)
        settings = {"ssl-cert": str(folder / "server.crt"), "ssl-key": str(folder / "server.key")}
        with server_kind(settings=settings) as server:
            server.sql("CREATE DATABASE d")
            server.sql("CREATE TABLE t (id int PRIMARY KEY)", "d")
            server.sql("CREATE USER guarded REQUIRE SSL")
            server.sql("GRANT ALL ON *.* TO guarded")
            yield server, folder


def source(tls: tuple[Mysqld, Path], /, **options: Any) -> MysqlSource:
    server, folder = tls
    there = {"host": "localhost", "port": server.port, "database": "d", "user": "guarded", "tls_ca": "ca.crt"}
    given = {name: value for name, value in {**there, **options}.items() if value is not None}
    return MysqlSource("bank", given, "sources/bank.yaml", base=folder)


def test_copy_and_log_come_over_tls(tls: tuple[Mysqld, Path]) -> None:
    server, _ = tls
    one = source(tls)
    one.start(frozenset({"t"}), None)
    try:
        drain(one, quiet_s=0.1)
        server.sql("INSERT INTO t VALUES (1)", "d")
        (batch,) = drain(one)
        assert batch.changes["t"]["id"].to_pylist() == [1]
    finally:
        one.close()


def test_a_server_that_cannot_prove_its_name_is_not_spoken_to(tls: tuple[Mysqld, Path]) -> None:
    error = fails("source.connect", source(tls, tls_ca="other.crt").relations)
    assert "cannot be trusted" in error.what and "tls_ca" in error.next
    error = fails("source.connect", source(tls, host="127.0.0.1").relations)  # the certificate is for localhost
    assert "cannot be trusted" in error.what
    fails("source.auth", source(tls, tls="off", tls_ca=None).relations)  # the server wants TLS
    assert source(tls, tls="require", tls_ca=None).relations()
    assert "cannot be read" in fails("config.invalid", source(tls, tls_ca="none.crt").relations).what
