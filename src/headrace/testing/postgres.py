"""A private, real PostgreSQL server for tests, demos and examples: throw-away settings, loopback only.

    with PostgresServer(tmp_path) as server:
        server.psql("CREATE TABLE t (id int PRIMARY KEY)")
        connect(server.dsn)

The binaries are those in the folder ``HEADRACE_POSTGRES_BIN``, else Debian's (``/usr/lib/postgresql/*/bin``), else
those on the PATH, else those of the Python package ``pgserver`` (built without TLS). PostgreSQL refuses to run as root:
started by root, the server runs as the user ``postgres``.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from headrace.testing.ports import free_port

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
PORT_ATTEMPTS = 5

# fsync=off suits throw-away data; synchronous_commit stays on, since without it logical decoding lags by 0.3 s.
_SETTINGS: dict[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_connections": "100",
    "max_prepared_transactions": "10",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_wal_size": "2GB",
    "log_line_prefix": "%m [%p] %u@%d ",
    "timezone": "UTC",
}


class PostgresServer:
    """One cluster in ``folder``; used as a context manager it starts on entry and stops on exit.

    ``folder`` holds the data (``db``) and the log (``postgres.log``) and outlives the object, so that another one can
    start the same cluster again. If the server's user cannot reach it, or it is None, the data lie in a folder of
    their own under the system's temporary one, which goes when the context ends.
    ``port`` 0 takes a free one, kept over restarts of this object. With ``password`` every TCP connection must show
    it (scram-sha-256); without, all are trusted. ``settings`` are lines of postgresql.conf, ``files`` are written
    into the data folder with the server's ownership (certificates).
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        wal_level: str = "logical",
        *,
        port: int = 0,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        binaries: Path | str | None = None,
    ) -> None:
        self.binaries = Path(binaries) if binaries else find_binaries()
        self.port = port
        self.password = password
        self._any_port = port == 0
        self._settings = {**_SETTINGS, "wal_level": wal_level, **(settings or {})}
        self._files = dict(files or {})
        self._user = _server_user()
        self._temporary: Path | None = None
        self.folder = self._reachable(Path(folder) if folder is not None else None)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """The cluster's data folder."""
        return self.folder / "db"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    @property
    def dsn(self) -> str:
        """The superuser's connection URL to the database ``postgres``."""
        return self.dsn_for()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def dsn_for(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        """A connection URL; the superuser's password is filled in."""
        secret = password if password is not None else self.password if user == "postgres" else None
        who = quote(user, safe="") + (f":{quote(secret, safe='')}" if secret else "")
        return f"postgresql://{who}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def start(self) -> Self:
        """Create the cluster if need be, start it and wait until it takes connections. Raises RuntimeError."""
        if not (self.data / "PG_VERSION").exists():
            self._init()
        for name, content in self._files.items():
            self._write(self.data / name, content)
        for attempt in range(PORT_ATTEMPTS):
            if self._any_port and (attempt or not self.port):
                self.port = free_port()
            self._launch()
            try:
                if self._wait_ready():
                    atexit.register(self.stop)
                    return self
            except BaseException:
                self.stop(immediate=True)
                raise
        raise RuntimeError(f"PostgreSQL did not start:\n{self._log_tail()}")

    def stop(self, immediate: bool = False) -> None:
        """Stop the server and end its sessions; ``immediate`` is a crash: no checkpoint, recovery at the next start."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """SIGKILL to the server and all of its processes at once; ``start`` recovers. Linux only."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGSTOP)  # it makes no more
        for child in _children(process.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()

    def psql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run SQL as the superuser (several statements: one transaction); the rows of the last one that has any."""
        with psycopg.connect(self.dsn_for(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            rows: list[tuple[Any, ...]] = []
            while True:
                if cursor.description is not None:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    return rows

    def create_database(self, name: str) -> str:
        """Make an empty database; its connection URL."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn_for(name)

    def run(self, tool: str, *arguments: str, database: str = "postgres") -> str:
        """Run a client tool (``pgbench``, ``pg_dump``) against this server; its output. Raises CalledProcessError."""
        done = subprocess.run(
            self.tool_command(tool, *arguments, database=database),
            env=self.tool_environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def tool_command(self, tool: str, *arguments: str, database: str = "postgres") -> list[str]:
        """The command line of a client tool, for callers that run it in the background."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return [str(self.binaries / tool), *where, *arguments, database]

    def tool_environment(self) -> dict[str, str]:
        return {**os.environ, **({"PGPASSWORD": self.password} if self.password else {})}

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _reachable(self, folder: Path | None) -> Path:
        """``folder``, or a temporary one when the server's user cannot pass through its parents."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            folder = folder.resolve()
            if self._user is None or all(parent.stat().st_mode & 0o001 for parent in folder.parents):
                self._own(folder)
                return folder
        self._temporary = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._own(self._temporary)
        return self._temporary

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        path.chmod(0o600)
        self._own(path)

    def _identity(self) -> dict[str, Any]:
        """Popen's arguments that drop root's rights."""
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _init(self) -> None:
        method = "scram-sha-256" if self.password else "trust"
        command = [str(self.binaries / "initdb"), "-D", str(self.data), "-U", "postgres", "-A", method]
        command += ["-E", "UTF8", "--locale=C", "--no-sync"]
        if self.password:
            self._write(self.folder / "password", self.password.encode())
            command.append(f"--pwfile={self.folder / 'password'}")
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **self._identity())
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")

    def _launch(self) -> None:
        settings = {**self._settings, "port": str(self.port)}
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()]
        self._write(self.data / "postgresql.auto.conf", ("\n".join(lines) + "\n").encode())
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # a Ctrl-C in the terminal is for the product alone
                **self._identity(),
            )

    def _wait_ready(self) -> bool:
        """True once a connection works; false when the process ended (a taken port, say)."""
        give_up = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < give_up:
            if not self.running:
                return False
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.03)
        self.stop(immediate=True)
        return False

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def find_binaries() -> Path:
    """The folder with ``initdb`` and ``postgres``. Raises RuntimeError when there is none."""
    named = os.environ.get("HEADRACE_POSTGRES_BIN")
    if named:
        return Path(named)
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if packaged:
        return packaged[-1].parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    spec = importlib.util.find_spec("pgserver")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    raise RuntimeError(
        "no PostgreSQL server found: `apt-get install postgresql`, or `pip install pgserver` (which needs no root)"
    )


def _server_user() -> pwd.struct_passwd | None:
    """The user that the server runs as, or None when it is the present one."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody'")


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.parent.name))
    return found
