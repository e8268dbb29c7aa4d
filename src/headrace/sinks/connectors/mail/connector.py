"""The mail sink: each letter is one mail, sent again until the server takes or refuses it."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.formats.options import validate
from headrace.formats.secrets import resolve
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, WARNING, Finding
from headrace.sinks.alerts.outbox import Letter, Outbox
from headrace.sinks.alerts.sink import Again, AlertSink, Refused
from headrace.sinks.connectors.mail.compose import composed
from headrace.sinks.connectors.mail.config import MailOptions
from headrace.sinks.connectors.mail.template import OF_LETTER, OF_ROW
from headrace.sinks.target import Target

ENDED, WANTS_LOGIN = 421, 530  # answers: the server closes the connection; only who has logged in may send


class MailSink(AlertSink):
    """Options: see ``MailOptions``. ``base``: the project's folder; ``log``: the id of its log."""

    together = True

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        keys: Mapping[str, tuple[str, ...]],
        where: str = "",
        project: str = "headrace",
        *,
        base: Path | None = None,
        log: str = "",
    ) -> None:
        self._options = validate(MailOptions, options, where)
        super().__init__(name, self._options, keys, where, project, base, log)
        self._session: smtplib.SMTP | None = None

    @property
    def _server(self) -> str:
        return f"{self._options.host}:{self._options.at}"

    def check(self, target: Target) -> None:
        """Raises ``config.invalid`` for a template that names what the view does not have."""
        for option in ("subject", "body"):
            template = getattr(self._options, option)
            for name in template.names if template is not None else ():
                if name not in (*OF_LETTER, *OF_ROW, *target.names):
                    raise HeadraceError(
                        "config.invalid",
                        f"'{option}' names the column '{name}', which view '{target.view}' does not have",
                        where=self._where,
                        next=f"names: {', '.join([*target.names, *OF_LETTER, *OF_ROW])}; or name the sink's `views`",
                    )

    def send(self, letter: Letter, outbox: Outbox) -> None:
        """One mail to all recipients that still lack it. Also raises ``config.secret``."""
        message = composed(letter, outbox.bodies(letter), self._options)
        to = letter.rest or tuple(address.addr_spec for address in self._options.to)
        refused = self._sent(message.as_bytes(), to)
        if not refused:
            return
        said = "; ".join(f"{address}: {code} {_decoded(text)}" for address, (code, text) in refused.items())
        if any(code < 500 for code, _ in refused.values()):
            raise Again(self._error("sink.refused", "does not take it yet", said), rest=tuple(refused))
        raise Refused(said, tuple(refused))

    def examine(self) -> Iterator[Finding]:
        """Connects, with TLS, and logs in; sends nothing."""
        if self._options.password is not None and not self._options.password.startswith(("env:", "file:")):
            yield Finding(WARNING, "the password stands in the sink's file", "password: env:NAME, or file:PATH")
        try:
            self._connect()
        except Again as again:
            raise again.error from again
        finally:
            self._disconnect()
        tls = {"none": "without TLS", "tls": "with TLS", "starttls": "with STARTTLS"}[self._options.security]
        login = "" if self._options.user is None else ", and logs in"
        yield Finding(OK, f"connects to {self._server} {tls}{login}")

    def rest(self) -> None:
        self._disconnect()

    def close(self) -> None:
        self._disconnect()
        super().close()

    # -- one mail

    def _sent(self, mail: bytes, to: tuple[str, ...]) -> dict[str, tuple[int, bytes]]:
        """Recipients that were refused, each with the server's answer. Raises ``Again``, ``Refused``."""
        while True:
            reused = self._session is not None
            try:
                session = self._session or self._connect()
                return dict(session.sendmail(self._options.sender.addr_spec, to, mail))
            except smtplib.SMTPRecipientsRefused as error:
                # Nobody has the mail: with an answer of 421 others were taken before it, or not asked any more.
                return {each: error.recipients.get(each, (ENDED, b"the server ended before the mail")) for each in to}
            except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
                self._disconnect()
                if not (reused and error.smtp_code == ENDED):
                    raise self._not_taken(error) from error
            except (smtplib.SMTPException, OSError) as error:
                self._disconnect(ask=False)
                if not (reused and isinstance(error, smtplib.SMTPServerDisconnected)):
                    raise self._unreached(error) from error

    def _not_taken(self, error: smtplib.SMTPResponseException) -> Exception:
        said = f"{error.smtp_code} {_decoded(error.smtp_error)}"
        if error.smtp_code == WANTS_LOGIN:
            return Again(self._error("sink.auth", "wants a user and a password", said))
        if error.smtp_code < 500:
            return Again(self._error("sink.refused", "does not take it yet", said))
        return Refused(said)

    def _connect(self) -> smtplib.SMTP:
        options = self._options
        try:
            if options.security == "tls":
                self._session = smtplib.SMTP_SSL(
                    options.host, options.at, timeout=options.timeout_s, context=self.tls()
                )
            else:
                self._session = smtplib.SMTP(options.host, options.at, timeout=options.timeout_s)
            if options.security == "starttls":
                self._session.starttls(context=self.tls())
            if options.user is not None and options.password is not None:
                self._session.login(resolve(options.user, self._where), resolve(options.password, self._where))
        except (smtplib.SMTPException, OSError) as error:
            self._disconnect(ask=False)
            raise self._unreached(error) from error
        return self._session

    def _unreached(self, error: Exception) -> Again:
        if isinstance(error, smtplib.SMTPAuthenticationError):
            said = f"{error.smtp_code} {_decoded(error.smtp_error)}"
            return Again(self._error("sink.auth", "refuses the user or the password", said))
        why, next = (f"{type(error).__name__}: {error}" if str(error) else type(error).__name__), ""
        if isinstance(error, TimeoutError):
            why = f"there was no answer within {self._options.timeout_s:g} s"
        elif isinstance(error, ssl.SSLCertVerificationError):
            why, next = (
                f"its certificate is not good: {error.verify_message}",
                "`ca: FILE` names certificates of your own",
            )
        elif isinstance(error, smtplib.SMTPNotSupportedError):
            next = "`tls:` says how the connection is made safe: starttls, tls or none"
        return Again(self._error("sink.connect", "cannot be reached", why, next))

    def _error(self, code: str, what: str, why: str, next: str = "") -> HeadraceError:
        return HeadraceError(code, f"the mail server {self._server} {what}", where=self._where, why=why, next=next)

    def _disconnect(self, *, ask: bool = True) -> None:
        if self._session is not None:
            if ask:
                with suppress(smtplib.SMTPException, OSError):
                    self._session.quit()
            self._session.close()
            self._session = None


def _decoded(text: bytes | str) -> str:
    """What a server answers, as one printable line."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return " ".join("".join(sign if sign.isprintable() else " " for sign in whole).split())[:200]
