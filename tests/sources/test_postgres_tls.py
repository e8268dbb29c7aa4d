"""Goal: PostgreSQL is followed and written to over TLS, and only when it proves who it is.

Method: a certificate authority made here signs a certificate for the name 'localhost'; a real server that takes no
connection without TLS shows it. Rows go from a source's first copy and stream into a sink. PostgreSQL's own list of
encrypted sessions is the judge.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.delivery import Delivery
from headrace.model.schema import Column, ViewSchema
from headrace.sinks.connectors.postgres.connector import PostgresSink
from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.testing.postgres import PostgresServer
from postgres_server import changes, drain, fails

pytestmark = pytest.mark.postgres

ONLY_TLS = b"hostssl all,replication all 127.0.0.1/32 trust\nhostssl all,replication all ::1/128 trust\n"
ACCOUNTS = ViewSchema("accounts", 1, (Column("id", "int"), Column("owner", "string")), ("id",))
ENCRYPTED = """
SELECT count(*), bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'headrace%'
"""


@dataclass(frozen=True)
class Tls:
    """A server, and the folder with ``ca.crt`` (which signed its certificate) and ``other.crt`` (which did not)."""

    server: PostgresServer
    folder: Path

    def options(self, **options: Any) -> dict[str, Any]:
        there = {"host": "localhost", "port": self.server.port, "database": "postgres", "user": "postgres"}
        return {**there, "sslmode": "verify-full", "sslrootcert": "ca.crt", **options}

    def source(self, **options: Any) -> PostgresSource:
        return PostgresSource("bank", self.options(**options), "sources/bank.yaml", base=self.folder)

    def sink(self, **options: Any) -> PostgresSink:
        return PostgresSink("out", self.options(schema="out", **options), {}, "sinks/out.yaml", base=self.folder)


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    subject = ["-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *subject)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    folder = tmp_path_factory.mktemp("tls")
    authority(folder, "ca")
    authority(folder, "other")
    request = ["-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=db"]
    openssl(folder, "req", *request)
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    signing = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl(folder, "x509", "-req", "-in", "server.csr", "-out", "server.crt", *signing)
    files = {name: (folder / name).read_bytes() for name in ("server.crt", "server.key")}
    with PostgresServer(settings={"ssl": "on"}, files={**files, "pg_hba.conf": ONLY_TLS}) as server:
        yield Tls(server, folder)


def test_rows_go_from_a_proven_server_to_a_proven_server(tls: Tls) -> None:
    tls.server.psql("CREATE SCHEMA out; CREATE TABLE accounts (id int PRIMARY KEY, owner text)")
    tls.server.psql("INSERT INTO accounts VALUES (1, 'ada')")
    source, sink = tls.source(), tls.sink()
    try:
        source.start(frozenset({"accounts"}), None)
        first = drain(source)
        tls.server.psql("INSERT INTO accounts VALUES (2, 'bo')")
        rows = changes([*first, *drain(source)], "accounts")
        sink.open()
        held = pa.table({"id": pa.array([r["id"] for r in rows], pa.int32()), "owner": [r["owner"] for r in rows]})
        held = held.append_column("_w", pa.array([1] * len(rows)))
        sink.write(Delivery(1, {"accounts": ACCOUNTS}, replacements={"accounts": held}))
        assert tls.server.psql("SELECT id, owner FROM out.accounts ORDER BY id") == [(1, "ada"), (2, "bo")]
        [(sessions, encrypted)] = tls.server.psql(ENCRYPTED)
        assert sessions >= 3 and encrypted  # the stream, what the source asks beside it, and the sink
    finally:
        source.drop()
        sink.drop()
        sink.close()


def test_a_server_with_another_name_is_refused(tls: Tls) -> None:
    for code, where, call in (
        ("source.connect", "sources/bank.yaml", tls.source(host="127.0.0.1").relations),
        ("sink.connect", "sinks/out.yaml", tls.sink(host="127.0.0.1").open),
    ):
        error = fails(code, call)
        assert (error.what, error.where) == ("PostgreSQL cannot be trusted: its certificate is for another host", where)
        assert 'does not match host name "127.0.0.1"' in error.why
        assert "a name that is in the certificate" in error.next


@pytest.mark.parametrize("root", ["other.crt", "system"])
def test_a_server_that_another_authority_vouches_for_is_refused(tls: Tls, root: str) -> None:
    for code, call in (
        ("source.connect", tls.source(sslrootcert=root).relations),
        ("sink.connect", tls.sink(sslrootcert=root).open),
    ):
        error = fails(code, call)
        assert error.what == "PostgreSQL cannot be trusted: its certificate is not accepted"
        assert "certificate verify failed" in error.why and "as sslrootcert" in error.next


def test_a_root_certificate_that_is_not_there_is_named(tls: Tls) -> None:
    for code, call in (
        ("source.connect", tls.source(sslrootcert="nowhere.crt").relations),
        ("sink.connect", tls.sink(sslrootcert="nowhere.crt").open),
    ):
        error = fails(code, call)
        assert str(tls.folder / "nowhere.crt") in error.why and "as sslrootcert" in error.next
