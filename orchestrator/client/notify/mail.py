"""Sends a mail to a server, whose certificate is checked, in a thread: what hangs there holds nobody else up."""

import smtplib
import ssl
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final, Protocol

import anyio.to_thread
import msgspec

from orchestrator.client.notify.delivery import TAKEN, Delivery, Outgoing, failed
from orchestrator.core.pipelines.message_text import filled, plain_text
from orchestrator.core.text.wording import shortened
from orchestrator.settings.monitoring.notify_targets import MailSecurity
from orchestrator.units import SECOND_US

STEP_S_MAX: Final = 20.0
ALL_S_MAX: Final = 60.0
SUBJECT_CHARS_MAX: Final = 200


class MailRoute(msgspec.Struct, frozen=True, kw_only=True):
    """How mails are sent."""

    host: str
    port: int
    security: MailSecurity
    user: str | None
    password: str | None
    sender: str
    to: Sequence[str]

    def __repr__(self) -> str:
        return f"MailRoute({self.host}:{self.port})"


class SendMail(Protocol):
    """Sends a mail: `send_mail`."""

    async def __call__(self, route: MailRoute, message: Outgoing, at: int, /) -> Delivery:
        """What came of it."""
        ...


async def send_mail(
    route: MailRoute, message: Outgoing, at: int, *, trusted: Callable[[], ssl.SSLContext] = ssl.create_default_context
) -> Delivery:
    """Sends it once, as of the time `at`; `trusted` makes what certificates are checked with."""
    letter = mail_of(route, message, at)
    with anyio.move_on_after(ALL_S_MAX):
        return await anyio.to_thread.run_sync(_sent, route, letter, trusted, abandon_on_cancel=True)
    return failed(f"{route.host} did not take the mail within {ALL_S_MAX:g} s")


def mail_of(route: MailRoute, message: Outgoing, at: int) -> EmailMessage:
    """The mail. No header of it has a line break, whatever a run is called; its id is that of the message."""
    letter = message.letter
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = shortened(" ".join(letter.title.split()), SUBJECT_CHARS_MAX)
    mail["From"], mail["To"] = route.sender, ", ".join(route.to)
    mail["Date"] = formatdate(at / SECOND_US)
    mail["Message-ID"] = f"<{message.number}@{route.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(plain_text(letter) if message.template is None else filled(message.template, letter))
    return mail


def _sent(route: MailRoute, mail: EmailMessage, trusted: Callable[[], ssl.SSLContext]) -> Delivery:
    try:
        with _connected(route, trusted) as server:
            if route.user is not None and route.password is not None:
                server.login(route.user, route.password)
            refused = server.send_message(mail)
    except (OSError, smtplib.SMTPException) as error:
        return failed(_why(route, error))
    if refused:
        return failed(f"{route.host} takes no mail for {len(refused)} of {len(route.to)} addresses")
    return TAKEN


def _why(route: MailRoute, error: Exception) -> str:
    """What a server says is left out: it may repeat what it was given."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the certificate of {route.host} is not trusted: {error.verify_message}"
        case smtplib.SMTPAuthenticationError():
            return f"{route.host} does not let {route.user} in: it answered {error.smtp_code}"
        case smtplib.SMTPRecipientsRefused():
            codes = ", ".join(sorted({str(code) for code, _ in error.recipients.values()}))
            return f"{route.host} takes no mail for these addresses: it answered {codes}"
        case smtplib.SMTPResponseException():
            return f"{route.host} answered {error.smtp_code}"
        case smtplib.SMTPNotSupportedError():
            return f"{route.host} does not speak {route.security}, or lets nobody sign in"
        case _:
            return f"no mail could be given to {route.host}: {type(error).__name__}"


def _connected(route: MailRoute, trusted: Callable[[], ssl.SSLContext]) -> smtplib.SMTP:
    if route.security is MailSecurity.TLS:
        return smtplib.SMTP_SSL(route.host, route.port, timeout=STEP_S_MAX, context=trusted())
    server = smtplib.SMTP(route.host, route.port, timeout=STEP_S_MAX)
    if route.security is MailSecurity.STARTTLS:
        try:
            server.starttls(context=trusted())
        except BaseException:
            server.close()
            raise
    return server
