"""Goal: a backup holds the tokens and the audit log as they were at one moment, while both are written to.

Method: a project of a catalogue alone is copied without Spark while threads make tokens and append; then restored.
"""

from __future__ import annotations

import stat
import threading
from pathlib import Path

from headrace.catalog.store import Catalog
from headrace.engine import backup
from headrace.governance.audit import AuditLog, Event, Wanted
from headrace.governance.roles import Role
from headrace.governance.tokens import Tokens
from headrace.serve.snapshot import catalog_path
from project_folder import ProjectFolder
from random_log import RandomLog


def test_a_backup_has_tokens_and_the_audit_log_as_they_were(project: ProjectFolder, tmp_path: Path) -> None:
    kept = project.path / ".headrace"
    tokens, log = Tokens(kept), AuditLog(kept, file_bytes=3_000)
    _, token = tokens.create("dashboard", Role.VIEWER, ["sales_*"])
    ends = threading.Event()
    appended = [log.append(Event("owner", "apply", "done")) for _ in range(30)]

    def write() -> None:
        while not ends.is_set():
            appended.append(log.append(Event("owner", "apply", "done")))
            tokens.create(f"t{appended[-1]}", Role.VIEWER)

    thread = threading.Thread(target=write)
    thread.start()
    RandomLog(7).grow(kept / "log", 3)
    catalog = Catalog(catalog_path(project.path))
    try:
        for n in range(3):
            before = len(appended)
            target = backup.begin(tmp_path / f"backup_{n}")
            backup.copy(project.path, backup.cut(catalog, project.path, target), target, lambda event: None)
            backup.restore(target, tmp_path / f"restored_{n}", lambda event: None)
            there = tmp_path / f"restored_{n}/.headrace"
            verdict = AuditLog(there).verify()
            assert verdict.damage is None
            assert verdict.entries >= before
            restored = Tokens(there)
            found = restored.find(token)
            assert found is not None
            assert (found.name, found.grants) == ("dashboard", ("sales_*",))
            restored.close()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (there, *there.glob("access.db*"))}
            assert modes == {".headrace": 0o700, **dict.fromkeys(set(modes) - {".headrace"}, 0o600)}
            AuditLog(there).append(Event("owner", "stop", "done"))
            assert AuditLog(there).verify().damage is None
            assert AuditLog(there).recent(Wanted(), 1)[0][0]["action"] == "stop"
    finally:
        ends.set()
        thread.join()
        catalog.close()
        tokens.close()
