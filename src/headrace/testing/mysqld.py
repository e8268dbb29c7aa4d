"""What the private servers of tests share that speak MySQL's protocol: settings, a port, a start and a stop."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from headrace.testing.ports import free_port

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
PORT_ATTEMPTS = 5

# Of a row-based binary log; a server that may lose its last second, since nobody needs it.
SETTINGS: dict[str, str] = {
    "bind-address": "127.0.0.1",
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "64M",
    "innodb-flush-log-at-trx-commit": "0",
    "sync-binlog": "0",
    "performance-schema": "OFF",
    "max-connections": "60",
}


class Mysqld(ABC):
    """One data folder with a row-based binary log; used as a context manager it starts on entry and stops on exit.

    The data lie in ``folder``, or in a temporary one, which goes when the context ends. ``settings`` are options of
    the server without the dashes. The superuser is ``root``, without password. ``port`` is kept over restarts.
    """

    product: ClassVar[str]
    defaults: ClassVar[Mapping[str, str]]

    def __init__(self, folder: Path | str | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        """Raises RuntimeError when the server's programs are not there."""
        self.port = 0
        self.settings = {**SETTINGS, **self.defaults, **(settings or {})}
        self._temporary: Path | None = None
        self.folder = self._chosen(Path(folder) if folder is not None else None)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "db"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

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
            self._make()
        for attempt in range(PORT_ATTEMPTS):
            if attempt or not self.port:
                self.port = free_port()
            self._launch()
            try:
                if self._wait_ready():
                    atexit.register(self.stop)
                    return self
            except BaseException:
                self.stop(immediate=True)
                raise
        raise RuntimeError(f"{self.product} did not start:\n{self._log_tail()}")

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

    def _chosen(self, folder: Path | None) -> Path:
        """``folder``, or a temporary one."""
        if folder is None:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix=f"headrace-{self.product.lower()}-"))
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve()

    @abstractmethod
    def _make(self) -> None:
        """Make the data folder. Raises RuntimeError."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What starts the server, up to the options that all have."""

    def _surroundings(self) -> dict[str, Any]:
        """Popen's further arguments."""
        return {"cwd": self.folder}

    def _init(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._surroundings())
        if done.returncode:
            raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")

    def _launch(self) -> None:
        command = [
            *self._command(),
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
