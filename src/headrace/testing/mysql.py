"""A private, real MySQL server for tests: throw-away settings, loopback only.

    with MysqlServer(tmp_path) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY)", "shop")

The program is the one in the folder ``HEADRACE_MYSQL_BIN``, else the one that ``tools/prepare.py mysql`` put beside
this Python, else the one on the PATH or in ``/usr/sbin``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.testing.mysqld import Mysqld

FOLDER = Path(sys.prefix) / "mysql"  # where it is put


class MysqlServer(Mysqld):
    """See ``Mysqld``. Transactions have GTIDs."""

    product = "MySQL"
    defaults = {
        "gtid-mode": "ON",
        "enforce-gtid-consistency": "ON",
        "mysqlx": "OFF",
        "secure-file-priv": "NULL",  # Debian's build would look for a folder of its own
        "cte-max-recursion-depth": "1000000",
    }

    def __init__(self, folder: Path | str | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self.program = find_program()
        super().__init__(folder, settings=settings)

    def _make(self) -> None:
        # The superuser that it makes is one at 'localhost', which 127.0.0.1 is not where no names are looked up.
        script = self.folder / "init.sql"
        script.write_text("CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n")
        command = [*self._command(), "--initialize-insecure", f"--datadir={self.data}", f"--init-file={script}"]
        self._init([*command, "--disable-log-bin"])

    def _command(self) -> list[str]:
        as_root = ["--user=root"] if os.geteuid() == 0 else []  # it wants to be told that this is meant
        basedir = self.program.parent.parent
        return [str(self.program), "--no-defaults", f"--basedir={basedir}", f"--tmpdir={self.folder}", *as_root]


def find_program() -> Path:
    """Where ``mysqld`` is. Raises RuntimeError when it is nowhere, or one that does not run here."""
    usual = os.pathsep.join([str(FOLDER / "bin"), os.environ.get("PATH", ""), "/usr/sbin"])
    found = shutil.which("mysqld", path=os.environ.get("HEADRACE_MYSQL_BIN") or usual)
    if not found:
        raise RuntimeError("no MySQL server found: `make test-mysql` brings one")
    answer = subprocess.run([found, "--no-defaults", "--version"], capture_output=True, text=True, check=False)
    if answer.returncode or "MariaDB" in answer.stdout:  # Debian has MariaDB's under that name as well
        raise RuntimeError(f"no MySQL server found: {found} is {answer.stdout.strip() or answer.stderr.strip()}")
    return Path(found).resolve()
