"""What a command changes, written down in the audit log as done by the user of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from headrace.catalog.project import STATE
from headrace.governance.audit import AuditLog
from headrace.governance.principal import local
from headrace.governance.roles import Action


def audited(path: Path, action: Action, relation: str | None = None, **detail: Any) -> AbstractContextManager[None]:
    """``detail``: what it is about; what is empty or false is left out.

    Nothing where nothing is kept yet: there is nothing to change. Who owns the files could do without us: an audit log
    that cannot be written keeps nobody from freeing a full disk.
    """
    if not (path / STATE).is_dir():
        return nullcontext()
    told = {name: _text(value) for name, value in detail.items() if value not in (None, [], (), False)}
    return AuditLog(path / STATE).doing(local(), action, relation, address="local", detail=told, must=False)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(each["name"] if isinstance(each, Mapping) else each) for each in value)
    return str(value)
