"""A private, real MariaDB server for tests and benchmarks: throw-away settings, loopback only.

    with MariadbServer(tmp_path) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY)", "shop")

The binaries are those in the folder ``HEADRACE_MARIADB_BIN``, else those on the PATH or in ``/usr/sbin``. MariaDB
refuses to run as root: started by root, the server runs as the user ``mysql`` or ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.testing.mysqld import Mysqld


class MariadbServer(Mysqld):
    """See ``Mysqld``."""

    product = "MariaDB"
    defaults = {"innodb-log-file-size": "32M"}

    def __init__(self, folder: Path | str | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self.binaries = find_binaries()
        self._user = _server_user()
        super().__init__(folder, settings=settings)

    def _chosen(self, folder: Path | None) -> Path:
        """``folder``, or a temporary one when the server's user cannot pass through its parents."""
        if folder is not None:
            folder = folder.resolve()
            folder.mkdir(parents=True, exist_ok=True)
            passable = all(parent.stat().st_mode & 0o001 for parent in folder.parents)
            if (self._user is not None and not passable) or any(c.isspace() for c in str(folder)):
                folder = None
        chosen = super()._chosen(folder)
        if self._user is not None:
            os.chown(chosen, self._user.pw_uid, self._user.pw_gid)
        return chosen

    def _surroundings(self) -> dict[str, Any]:
        """Popen's arguments that drop root's rights, and give temporary tables a folder of their own.

        A server that starts removes those that it finds, though they be another server's.
        """
        apart = super()._surroundings() | {"env": {**os.environ, "TMPDIR": str(self.folder)}}
        if self._user is None:
            return apart
        return apart | {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _make(self) -> None:
        command = [str(self.binaries["mariadb-install-db"]), "--no-defaults", f"--datadir={self.data}"]
        command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        self._init([*command, "--innodb-log-file-size=32M"])

    def _command(self) -> list[str]:
        return [str(self.binaries["mariadbd"]), "--no-defaults"]


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
