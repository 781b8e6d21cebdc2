"""Connecting: how the server proves who it is, what it must be like, and what is said where nobody is reached."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream, SocketStream
from anyio.streams.tls import TLSStream

from orchestrator.errors import LedgerUnavailableError, OrchestratorError, StorageError, UsageError
from orchestrator.ledger.postgres.connection import LineBounds, connecting
from orchestrator.ledger.postgres.process_mark import connection_name
from orchestrator.ledger.postgres.server_access import arguments
from orchestrator.ledger.processes.owners_line import OwnersLine
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.client.notify.test_mail import PEM
from tests.client.raw_server import Handler, closed_port, serving
from tests.postgres.databases import Databases
from tests.postgres.proxy import proxied

pytestmark = pytest.mark.anyio

SSL_REQUEST = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")


@pytest.fixture
def durable_url(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database that can be trusted."""
    with durable_databases.one() as url:
        yield url


def over_tls(socket: Path) -> Handler:
    """Serves what is behind `socket`, over TLS by the certificate of the tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    async def pump(source: ByteReceiveStream, to: ByteSendStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                await to.send(await source.receive())

    async def to_server(here: ByteReceiveStream, there: ByteStream) -> None:
        await pump(here, there)
        with suppress(OSError):
            await there.send_eof()  # it ends then: who is cancelled while something comes leaves an error in the loop

    async def handler(stream: SocketStream) -> None:
        assert await stream.receive(len(SSL_REQUEST)) == SSL_REQUEST
        await stream.send(b"S")
        try:
            here = await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
        except ssl.SSLError:  # the certificate was refused
            return
        async with here, await anyio.connect_unix(socket) as there, anyio.create_task_group() as tasks:
            tasks.start_soon(to_server, here, there)
            await pump(there, here)
            await here.aclose()

    return handler


async def refused_tls(stream: SocketStream) -> None:
    """Answers as a server without TLS does."""
    await stream.receive(len(SSL_REQUEST))
    await stream.send(b"N")


def refusing(code: str, message: str) -> Handler:
    """Answers with an error of the server's."""

    async def handler(stream: SocketStream) -> None:
        await stream.receive()
        await refusing_now(stream, code, message)

    return handler


async def refusing_now(stream: SocketStream, code: str, message: str) -> None:
    """Answers what was asked last with such an error."""
    body = b"SFATAL\0VFATAL\0C" + code.encode() + b"\0M" + message.encode() + b"\0\0"
    await stream.send(b"E" + (len(body) + 4).to_bytes(4, "big") + body)


async def asked(url: str) -> Any:
    """What a connection to `url` says of itself."""
    driver = await connecting(parse_ledger_url(url))({}, LineBounds())
    try:
        return await driver.fetchrow("SELECT current_schema(), current_setting('application_name')")
    finally:
        driver.terminate()


async def said_to(url: str) -> str:
    with pytest.raises(OrchestratorError) as refused:
        await asked(url)
    assert str(refused.value).startswith(f"{parse_ledger_url(url)}: ")
    return str(refused.value).removeprefix(f"{parse_ledger_url(url)}: ")


async def test_a_connection_is_of_the_schema_that_is_named_and_says_whose_it_is(durable_url: str) -> None:
    assert tuple(await asked(durable_url)) == ("public", connection_name())
    assert "there is no schema nowhere here" in await said_to(f"{durable_url}&schema=nowhere")


async def test_a_server_that_loses_what_was_committed_is_refused(url: str) -> None:
    assert (await said_to(url)).startswith("this server has fsync=off")


async def test_a_server_proves_who_it_is_by_a_certificate_that_we_trust_and_its_name(durable_url: str) -> None:
    url = parse_ledger_url(durable_url)
    async with serving(over_tls(Path(url.hosts[0].name) / ".s.PGSQL.5432")) as address:
        at = f"{address.rpartition(':')[2]}/{url.database}"
        trusted = f"sslmode=verify-full&sslrootcert={PEM}"
        assert tuple(await asked(f"postgresql://orchestrator@localhost:{at}?{trusted}")) == (
            "public",
            connection_name(),
        )
        for host, options in (("localhost", "sslmode=verify-full"), ("localhost", "sslmode=verify-ca")):
            told = await said_to(f"postgresql://orchestrator@{host}:{at}?{options}")
            assert told.startswith("cannot reach the ledger (its certificate is refused: self-signed certificate")
        for mode in ("require", "prefer"):
            assert await asked(f"postgresql://orchestrator@localhost:{at}?sslmode={mode}")
        by_other_name = f"postgresql://orchestrator@127.1:{at}?sslrootcert={PEM}"
        told = await said_to(f"{by_other_name}&sslmode=verify-full")
        assert told.startswith("cannot reach the ledger (its certificate is refused: Hostname mismatch")
        assert await asked(f"{by_other_name}&sslmode=verify-ca")


async def test_who_cannot_be_reached_is_told_with_what_to_do() -> None:
    assert "look whether the server runs" in await said_to(f"postgresql://me@{closed_port()}/d")
    assert "name of the host" in await said_to("postgresql://me@nowhere.invalid/d?sslmode=disable")
    async with serving(refused_tls) as there:
        assert "add ?sslmode=disable" in await said_to(f"postgresql://me@{there}/d?sslmode=require")
    for code, message, advice in (
        ("28P01", "password authentication failed", "check the role, its password"),
        ("08P01", "unsupported startup parameter: jit", "name the server itself"),
        ("53300", "too many clients", "give it some, then resume"),
        ("99999", "no such thing", "look into the server's log"),
    ):
        async with serving(refusing(code, message)) as there:
            told = await said_to(f"postgresql://me@{there}/d?sslmode=disable")
            assert told.startswith(f"cannot reach the ledger ({message}); ")
            assert advice in told


async def test_of_several_hosts_the_one_that_can_be_written_is_taken(durable_url: str) -> None:
    url = parse_ledger_url(f"postgresql://me@{closed_port()},b:6000/d")
    writing, reading = arguments(url, {}), arguments(url, {"default_transaction_read_only": "on"})
    assert (writing["target_session_attrs"], reading["target_session_attrs"]) == ("read-write", "primary")
    assert arguments(parse_ledger_url(durable_url), {})["target_session_attrs"] == "any"
    assert tuple(await asked(behind_first(closed_port(), durable_url))) == ("public", connection_name())
    async with serving(refusing("57P03", "the database system is starting up")) as starting:
        assert tuple(await asked(behind_first(starting, durable_url))) == ("public", connection_name())


def behind_first(first: str, url: str) -> str:
    """The URL of the database at `url`, which has another host before its own."""
    its = parse_ledger_url(url)
    return f"postgresql://{its.user}@{first},{its.hosts[0]}/{its.database}?sslmode=disable"


async def test_a_host_that_answers_nothing_leaves_time_to_beat_at_the_next_one_which_is_first_from_then_on(
    durable_url: str,
) -> None:
    taken = 0

    async def silent(_: SocketStream) -> None:
        nonlocal taken
        taken += 1
        await anyio.sleep_forever()

    async with serving(silent) as there:
        line = OwnersLine(connecting(parse_ledger_url(behind_first(there, durable_url))), ProcessName("one", " #one"))
        for _ in range(2):
            async with line.asking() as given:
                assert not (await given.leases.sighting()).processes
            line.end()
    assert taken == 1


async def test_where_a_name_leads_elsewhere_for_a_while_is_waited_for_once_the_server_was_reached(
    durable_url: str, url: str
) -> None:
    """Whoever was declared dead joins again by other connections."""
    right, wrong = (urlsplit(each)._replace(path="/postgres").geturl() for each in (durable_url, url))
    async with proxied(wrong) as proxy:
        assert (await said_to(proxy.url)).startswith("this server has fsync=off")
        proxy.leads_to = right
        await asked(proxy.url)
        proxy.leads_to = wrong
        with pytest.raises(LedgerUnavailableError, match="this server has fsync=off"):
            await asked(proxy.url)


async def test_of_several_hosts_each_says_why_it_is_not_used() -> None:
    async with (
        serving(refusing("53300", "too many clients")) as full,
        serving(refusing("28P01", "password authentication failed")) as strict,
    ):
        gone = closed_port()
        told = await said_to(f"postgresql://me@{gone},{full}/d?sslmode=disable")
        assert told.startswith(f"cannot reach the ledger ({gone}: Connect call failed")
        assert told.endswith(
            f"; {full}: too many clients); look whether the server runs and can be reached, then resume"
        )
        refused = await said_to(f"postgresql://me@{full},{strict},{gone}/d?sslmode=disable")
        assert refused.startswith(
            f"cannot reach the ledger ({full}: too many clients; {strict}: password authentication failed); check the role"
        )
        assert "resume" not in refused


def test_a_certificate_that_is_none_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "none.pem"
    with pytest.raises(UsageError, match=r"cannot use the certificates in .*none\.pem"):
        arguments(parse_ledger_url(f"postgresql://me@h/d?sslrootcert={file}"), {})


async def test_no_password_of_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    async with serving(refusing("28P01", "password authentication failed")) as there:
        with pytest.raises(StorageError) as refused:
            await asked(f"postgresql://me@{there}/d?sslmode=disable")
    shown: BaseException | None = refused.value
    while shown is not None:
        assert "hunter2" not in str(shown)
        shown = shown.__cause__


async def test_a_password_in_a_file_is_given_to_the_server_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = bytearray()

    async def asks(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big"))
        given.extend(await stream.receive())
        await refusing_now(stream, "28P01", "password authentication failed")

    async with serving(asks) as there:
        file = tmp_path / "passes"
        file.write_text(f"{there}:d:somebody:other\n{there}:d:me:hunter2\n", encoding="utf-8")
        file.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(file))
        monkeypatch.delenv("PGPASSWORD", raising=False)
        told = await said_to(f"postgresql://me@{there}/d?sslmode=disable")
        assert bytes(given).endswith(b"hunter2\0")
        assert "check the role, its password" in told
        file.chmod(0o644)
        given.clear()
        open_to_others = await said_to(f"postgresql://me@{there}/d?sslmode=disable")
        assert open_to_others.endswith(f"others may read the passwords in {file}, so it is not asked: chmod 600 {file}")
        assert b"hunter2" not in given
        file.unlink()
        assert "no password is given here: set PGPASSWORD" in await said_to(
            f"postgresql://me@{there}/d?sslmode=disable"
        )
    assert "no password is given" not in told + open_to_others
    assert "hunter2" not in told + open_to_others
