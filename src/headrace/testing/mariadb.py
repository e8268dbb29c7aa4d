"""A private, real MariaDB server for tests and benchmarks: throw-away settings, loopback only.

    with MariadbServer(tmp_path) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY)", "shop")

The binaries are those in the folder ``HEADRACE_MARIADB_BIN``, else those on the PATH or in ``/usr/sbin``. MariaDB
refuses to run as root: started by root, the server runs as the user ``mysql`` or ``nobody``.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
PORT_ATTEMPTS = 5

_SETTINGS: dict[str, str] = {
    "bind-address": "127.0.0.1",
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "innodb-flush-log-at-trx-commit": "0",
    "sync-binlog": "0",
    "performance-schema": "OFF",
    "max-connections": "60",
}


class MariadbServer:
    """One data folder with a row-based binary log; used as a context manager it starts on entry and stops on exit.

    The data lie in ``folder``, or in a temporary one, which goes when the context ends. ``settings`` are options of
    mariadbd without the dashes. The superuser is ``root``, without password. ``port`` is kept over restarts.
    """

    def __init__(self, folder: Path | str | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self.binaries = find_binaries()
        self.port = 0
        self.settings = {**_SETTINGS, **(settings or {})}
        self._user = _server_user()
        self._temporary: Path | None = None
        self.folder = self._reachable(Path(folder) if folder is not None else None)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "db"

    @property
    def log(self) -> Path:
        return self.folder / "mariadb.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def options(self, database: str, **more: Any) -> dict[str, Any]:
        """What a source's file says to reach a database here."""
        return {"host": "127.0.0.1", "port": self.port, "user": "root", "database": database, **more}

    def connect(self, database: str | None = None, **more: Any) -> Any:
        """An ordinary client's connection, in autocommit."""
        import pymysql

        settings = {"host": "127.0.0.1", "port": self.port, "user": "root", "database": database, "autocommit": True}
        return pymysql.connect(**{**settings, "charset": "utf8mb4", **more})

    def sql(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser; its rows."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def start(self) -> Self:
        """Make the data folder if need be, start the server, wait until it takes connections. Raises RuntimeError."""
        if not (self.data / "mysql").exists():
            self._init()
        for attempt in range(PORT_ATTEMPTS):
            if attempt or not self.port:
                self.port = _free_port()
            self._launch()
            if self._wait_ready():
                atexit.register(self.stop)
                return self
        raise RuntimeError(f"MariaDB did not start:\n{self._log_tail()}")

    def stop(self, immediate: bool = False) -> None:
        """Stop the server and end its sessions; ``immediate``: a crash."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        if immediate:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

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
            passable = all(parent.stat().st_mode & 0o001 for parent in folder.parents)
            if (self._user is None or passable) and not any(c.isspace() for c in str(folder)):
                self._own(folder)
                return folder
        self._temporary = Path(tempfile.mkdtemp(prefix="headrace-mariadb-"))
        self._own(self._temporary)
        return self._temporary

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _surroundings(self) -> dict[str, Any]:
        """Popen's arguments that drop root's rights, and give temporary tables a folder of their own.

        A server that starts removes those that it finds, though they be another server's.
        """
        apart: dict[str, Any] = {"cwd": self.folder, "env": {**os.environ, "TMPDIR": str(self.folder)}}
        if self._user is None:
            return apart
        return apart | {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _init(self) -> None:
        command = [str(self.binaries["mariadb-install-db"]), "--no-defaults", f"--datadir={self.data}"]
        command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        command += ["--innodb-log-file-size=32M"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._surroundings())
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db failed: {done.stderr.strip() or done.stdout.strip()}")

    def _launch(self) -> None:
        command: Sequence[str] = [
            str(self.binaries["mariadbd"]),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--socket={self.folder / 's'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--port={self.port}",
            "--skip-name-resolve",
            *(f"--{name}={value}" for name, value in self.settings.items()),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C in the terminal is for the product alone
                **self._surroundings(),
            )

    def _wait_ready(self) -> bool:
        """True once a connection works; false when the process ended (a taken port, say)."""
        import pymysql

        give_up = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < give_up:
            if not self.running:
                return False
            try:
                self.connect(connect_timeout=5).close()
                return True
            except pymysql.err.OperationalError:
                time.sleep(0.03)
        self.stop(immediate=True)
        return False

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def find_binaries() -> dict[str, Path]:
    """Where ``mariadbd`` and ``mariadb-install-db`` are. Raises RuntimeError when they are nowhere."""
    folders = os.environ.get("HEADRACE_MARIADB_BIN") or os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    found = {name: shutil.which(name, path=folders) for name in ("mariadbd", "mariadb-install-db")}
    if not all(found.values()):
        raise RuntimeError("no MariaDB server found: `apt-get install --no-install-recommends mariadb-server-core`")
    return {name: Path(path) for name, path in found.items() if path}


def _server_user() -> pwd.struct_passwd | None:
    """The user that the server runs as, or None when it is the present one."""
    if os.geteuid() != 0:
        return None
    for name in ("mysql", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("MariaDB refuses to run as root, and there is no user 'mysql' or 'nobody'")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
