"""TLS of a server that a project runs: by the files that are configured, or by a certificate of its own making."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable, Set
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from headrace.model.definition import ApiSettings, PsqlSettings
from headrace.model.errors import HeadraceError
from headrace.web.listening import LOCAL

FOLDER = "tls"  # in .headrace
AUTHORITY, CERTIFICATE, KEY = "ca.crt", "server.crt", "server.key"


class Files(NamedTuple):
    """PEM files of a certificate, with those that it is signed by, and of its key."""

    certificate: Path
    key: Path


def files(
    project: Path, state: Path, settings: ApiSettings | PsqlSettings, where: str, hosts: Iterable[str] = ()
) -> Files | None:
    """What connections are encrypted with; None: nothing. A certificate of its own is made where it is missing.

    ``project``: where names of files start from; ``where`` is told with an error; ``hosts``: of others that take the
    same certificate of its own. Raises ``config.invalid``, and ``config.library`` where the library is missing that
    makes one.
    """
    if settings.tls:
        found = _own(state / FOLDER, {settings.host, *hosts}, where)
    elif settings.certificate:
        found = Files(project / settings.certificate, project / settings.key)
    else:
        return None
    context(found, where)
    return found


def check(project: Path, settings: ApiSettings | PsqlSettings, where: str) -> None:
    """Raises what ``files`` would, and makes nothing."""
    if settings.tls:
        _certificates(where)
    elif settings.certificate:
        context(Files(project / settings.certificate, project / settings.key), where)


def context(found: Files, where: str) -> ssl.SSLContext:
    """Raises ``config.invalid``."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(*found, password=lambda: "")  # else it is asked for at the terminal
    except (OSError, ssl.SSLError) as error:
        raise HeadraceError(
            "config.invalid", "the certificate cannot be used", where=f"{where}: {found.certificate}, {found.key}",
            why=str(error), next="PEM files of a certificate and of its key without a password",
        ) from error  # fmt: skip
    return made


def _own(folder: Path, hosts: Set[str], where: str) -> Files:
    """For the names that this machine's programs call it by, its own, and ``hosts``; made anew before it is over."""
    certificate = _certificates(where)
    found = Files(folder / CERTIFICATE, folder / KEY)
    names = sorted({*LOCAL, *hosts, socket.gethostname()} - {"0.0.0.0", "::"})  # which nobody calls it by
    if found.key.exists() and certificate.serves(found.certificate, names):
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, made, key = certificate.made(names)
    # Wherever it ends in the middle, the next start finds no certificate, and makes all three anew.
    found.certificate.unlink(missing_ok=True)
    for path, content in ((found.key, key), (folder / AUTHORITY, authority), (found.certificate, made)):
        partial = path.with_name(f".{path.name}")
        partial.touch(mode=0o600)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    return found


def _certificates(where: str) -> ModuleType:
    """What makes them. Raises ``config.library``."""
    try:
        from headrace.web import certificate
    except ImportError as error:
        raise HeadraceError(
            "config.library", "a certificate of its own needs a library that is not installed", where=where,
            why=str(error), next="pip install 'headrace[tls]', or name the files of a certificate and its key",
        ) from error  # fmt: skip
    return certificate
