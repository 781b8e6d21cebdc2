"""Mail, to a real server on this machine: over TLS, with a certificate that is checked, and in trouble."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from anyio.abc import SocketStream

from orchestrator.client.notify.delivery import Outgoing
from orchestrator.client.notify.mail import MailRoute, mail_of, send_mail
from orchestrator.core.pipelines.message_text import Letter
from orchestrator.settings.monitoring.notify_targets import MailSecurity
from tests.client.raw_server import closed_port, serving

pytestmark = pytest.mark.anyio

PEM = Path(__file__).with_name("localhost.pem")
LETTER = Letter(name="n", news="failed", title="night\r\nBcc: everybody@example.org has failed", why="no memory: é")
MESSAGE = Outgoing(number="msg_17", of="run 1", body=b"{}", letter=LETTER)
PASSWORD = "hunter2-hunter2"


class Box:
    """What a server got, and how it answers."""

    def __init__(self, answer: str = "250 OK") -> None:
        self.got: list[bytes] = []
        self.users: list[str] = []
        self.answer = answer

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802
        self.got.append(envelope.content)
        return self.answer

    async def handle_RCPT(  # noqa: N802
        self, _server: object, _session: object, envelope: Any, address: str, _options: object
    ) -> str:
        if address.startswith("nobody"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    def let_in(self, _server: object, _session: object, _envelope: object, _mechanism: str, data: Any) -> AuthResult:
        self.users.append(data.login.decode())
        return AuthResult(success=data.password.decode() == PASSWORD, handled=False)


def context() -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(PEM)
    return found


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


@contextmanager
def server(box: Box, security: MailSecurity = MailSecurity.OFF) -> Iterator[int]:
    given: dict[str, Any] = {"hostname": "127.0.0.1", "port": int(closed_port().rpartition(":")[2])}
    if security is MailSecurity.TLS:
        given["ssl_context"] = context()
    if security is MailSecurity.STARTTLS:
        given |= {"tls_context": context(), "require_starttls": True}
    controller = Controller(box, authenticator=box.let_in, auth_require_tls=False, **given)
    controller.start()
    try:
        yield given["port"]
    finally:
        controller.stop()


def route(
    port: int, security: MailSecurity = MailSecurity.OFF, *, password: str | None = None, to: str = "a@example.org"
) -> MailRoute:
    user = None if password is None else "me"
    return MailRoute(
        host="localhost", port=port, security=security, user=user, password=password, sender="o@example.org", to=[to]
    )


@pytest.mark.parametrize("security", MailSecurity)
async def test_a_mail_arrives_once_with_the_id_of_its_message(security: MailSecurity) -> None:
    box = Box()
    with server(box, security) as port:
        came = await send_mail(route(port, security, password=PASSWORD), MESSAGE, 0, trusted=trusting)
    assert (came.problem, box.users) == (None, ["me"])
    [mail] = map(message_from_bytes, box.got)
    assert mail["Message-ID"] == "<msg_17@example.org>"
    assert (mail["From"], mail["To"], mail["Bcc"]) == ("o@example.org", "a@example.org", None)
    payload = mail.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert "no memory: é" in payload.decode()


@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
async def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(security: MailSecurity) -> None:
    box = Box()
    with server(box, security) as port:
        came = await send_mail(route(port, security, password=PASSWORD), MESSAGE, 0)
    assert came.problem is not None
    assert came.problem.startswith("the certificate of localhost is not trusted")
    assert (box.got, box.users) == ([], [])


async def test_a_server_that_speaks_no_tls_is_not_told_the_password() -> None:
    box = Box()
    with server(box) as port:
        came = await send_mail(route(port, MailSecurity.STARTTLS, password=PASSWORD), MESSAGE, 0, trusted=trusting)
    assert came.problem == "localhost does not speak starttls, or lets nobody sign in"
    assert (box.got, box.users) == ([], [])


async def test_whatever_a_server_refuses_is_said_without_what_it_says() -> None:
    with server(Box(f"451 {PASSWORD}")) as port:
        assert (await send_mail(route(port), MESSAGE, 0)).problem == "localhost answered 451"
        wrong = await send_mail(route(port, password="wrong"), MESSAGE, 0)
        assert wrong.problem == "localhost does not let me in: it answered 535"
        nobody = await send_mail(route(port, to="nobody@example.org"), MESSAGE, 0)
        assert nobody.problem == "localhost takes no mail for these addresses: it answered 550"
    away = await send_mail(route(int(closed_port().rpartition(":")[2])), MESSAGE, 0)
    assert away.problem == "no mail could be given to localhost: ConnectionRefusedError"


async def test_a_server_that_closes_at_once_or_says_nonsense_is_a_problem_and_no_more() -> None:
    async def closes(_stream: SocketStream) -> None:
        """At once."""

    async def babbles(stream: SocketStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")

    for handler in (closes, babbles):
        async with serving(handler) as address:
            came = await send_mail(route(int(address.rpartition(":")[2])), MESSAGE, 0)
        assert came.problem is not None


def test_no_header_has_a_line_break_and_a_route_shows_no_secret() -> None:
    mail = mail_of(route(1), MESSAGE, 0)
    assert mail["Bcc"] is None
    assert "\n" not in mail["Subject"]
    assert PASSWORD not in repr(route(1, password=PASSWORD))
    given = Outgoing(number="m", of="o", body=b"{}", letter=LETTER, template="only {news}")
    assert mail_of(route(1), given, 0).get_content() == "only failed\n"
