"""PostgreSQL's protocol beside a running project: its address, and tokens as passwords."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.catalog.project import FILE, STATE
from headrace.governance.access import Access
from headrace.governance.principal import Principal, allowed
from headrace.governance.roles import Action
from headrace.model.definition import Project, PsqlSettings
from headrace.model.errors import HeadraceError
from headrace.web.listening import listen

if TYPE_CHECKING:
    from headrace.api.postgres.defining import Call
    from headrace.api.postgres.reading import Asker
    from headrace.api.postgres.server import PostgresServer
    from headrace.serve.questions import Questions


class PsqlServer:
    """What `headrace up` runs where headrace.yaml has ``psql:``. ``tell`` hears ``psql.started`` with the ``url``."""

    def __init__(self, project: Project, settings: PsqlSettings, tell: Callable[[dict[str, Any]], None]) -> None:
        self._project, self._settings, self._tell = project, settings, tell
        self._listener: socket.socket | None = None
        self._access: Access | None = None
        self._questions: Questions | None = None
        self._server: PostgresServer | None = None

    def listen(self) -> None:
        """Before anything else starts. Raises ``config.library``, ``config.invalid``, ``psql.port``."""
        try:
            from headrace.api.postgres.server import PostgresServer
        except ImportError as error:
            raise HeadraceError(
                "config.library", "PostgreSQL's protocol needs a library that is not installed", where=f"{FILE}: psql",
                why=str(error), next="pip install 'headrace[psql]'",
            ) from error  # fmt: skip
        from headrace.serve.mirror import Mirror
        from headrace.serve.questions import Questions

        project, settings = self._project, self._settings
        self._questions = Questions(Mirror(project.path), settings.memory)
        authenticate = None if settings.auth == "none" else self._known
        name = project.settings.name
        self._server = PostgresServer(self._questions, name, project.path, settings, authenticate)
        other = f"stop it, or set another port: psql: {{port: {settings.port % 65_535 + 1}}}"
        self._listener = listen(settings.host, settings.port, f"{FILE}: psql.port", code="psql.port", next=other)

    def begin(self, call: Call) -> None:
        """Answer; definitions are changed by the verbs that ``call`` carries out."""
        from headrace.api.postgres.defining import Defining

        assert self._server is not None and self._listener is not None
        is_open = self._settings.auth == "none"
        self._access = Access(self._project.path / STATE)
        if not is_open:
            self._access.tokens.owners()
        self._server.start(self._listener, Defining(call, self._access, self._project.path))
        url = self._server.url
        text = f"for psql: {url}" + ("" if is_open else "  a token is the password")
        self._tell({"event": "psql.started", "url": url, "text": text})

    def close(self) -> None:
        """May be called at any point, also twice."""
        if self._server is not None:
            self._server.stop()
        if self._listener is not None:
            self._listener.close()
        if self._questions is not None:
            self._questions.close()
        if self._access is not None:
            self._access.close()
        self._server = self._listener = self._questions = self._access = None

    def _known(self, user: str, password: str, address: str) -> Asker:
        """Raises ``access.token``."""
        from headrace.api.postgres.reading import Asker

        access = self._access
        assert access is not None
        access.known(password, address=address)

        def principal() -> Principal:
            return access.known(password, address=address)

        def reaches() -> Callable[[str], bool]:
            known = principal()
            return lambda relation: allowed(known, Action.SQL, relation)

        return Asker(user, reaches, principal, address)
