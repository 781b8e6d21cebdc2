"""`orchestrator doctor --endpoint`: each thing that can be in the way to a service, made with real sockets."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from orchestrator.api.inspect.doctor import doctor
from orchestrator.clock import Clock, SystemClock
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.emulator.serving import ServedEmulator, serve
from orchestrator.emulator.workers.handlers import HandlerInput
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import MINUTE_US
from tests.cli.command_line import Result, call
from tests.client.raw_server import answering, closed_port, response, serving

KEY = "sk-very-secret-key"
NOWHERE = Path("no-such-folder/no-ledger.db")


class Ahead:
    """A clock that is ten minutes ahead."""

    def __init__(self) -> None:
        self._clock = SystemClock()

    def now(self) -> int:
        return self._clock.now() + 10 * MINUTE_US


async def echo(job: HandlerInput) -> object:
    return job["input"]


@asynccontextmanager
async def emulated() -> AsyncIterator[ServedEmulator]:
    async with serve(endpoints={"abc": echo}, keys=(KEY,)) as served:
        yield served


async def found(
    url: str, *, endpoint: str = "abc", key: str = KEY, clock: Clock | None = None, within_s: float = 5.0
) -> list[Cause]:
    request = DoctorRequest(
        ledger=NOWHERE, endpoint=endpoint, connection=ConnectionSettings(serverless_url=url, api_key=key)
    )
    diagnosis = await doctor(request, Dependencies(clock=clock or SystemClock()), within_s=within_s)
    assert KEY not in repr(diagnosis)
    assert diagnosis.not_asked == ()
    return [finding.cause for finding in diagnosis.findings]


pytestmark = pytest.mark.anyio


async def test_a_service_that_is_well_is_told_from_a_wrong_key_id_and_clock() -> None:
    async with emulated() as served:
        assert await found(served.origin) == []
        assert await found(served.origin, key="another-key") == [Cause.KEY_REFUSED]
        assert await found(served.origin, endpoint="abd") == [Cause.ENDPOINT_UNKNOWN]
        assert await found(served.origin, clock=Ahead()) == [Cause.CLOCK_WRONG]


async def reads_and_says_nothing(stream: SocketStream) -> None:
    await stream.receive()
    await anyio.sleep_forever()


async def speaks_no_tls(stream: SocketStream) -> None:
    await stream.receive()
    await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    ("handler", "scheme", "within_s", "cause"),
    [
        (reads_and_says_nothing, "http", 0.05, Cause.TIME_OUT),
        (speaks_no_tls, "https", 5.0, Cause.TLS),
        (answering(response(b"<html>log in</html>")), "http", 5.0, Cause.NOT_THE_SERVICE),
        (answering(response(b"oh", status="502 Bad Gateway")), "http", 5.0, Cause.SERVICE_FAILS),
        (answering(response(b"{}", status="403 Forbidden")), "http", 5.0, Cause.KEY_REFUSED),
    ],
)
async def test_what_answers_badly_is_told_apart(
    handler: Callable[[SocketStream], Awaitable[None]], scheme: str, within_s: float, cause: Cause
) -> None:
    async with serving(handler) as address:
        assert await found(f"{scheme}://{address}", within_s=within_s) == [cause]


async def test_a_closed_port_and_a_name_that_is_not_there_are_told_apart() -> None:
    assert await found(f"http://{closed_port()}") == [Cause.UNREACHABLE]
    assert await found("http://no-such-name.invalid") == [Cause.DNS]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_not_there_opens_no_tunnel_or_is_of_no_use(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, variable = f"{scheme}://service.invalid", f"{scheme}_proxy"
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv(variable, f"http://{closed_port()}")
    assert await found(url) == [Cause.PROXY]
    monkeypatch.setenv(variable, "socks5://127.0.0.1:1")
    assert await found(url) == [Cause.PROXY]
    async with serving(answering(response(status="407 Proxy Authentication Required"))) as proxy:
        monkeypatch.setenv(variable, f"http://{proxy}")
        assert await found(url) == [Cause.PROXY]


def command(*arguments: str, **environment: str) -> Result:
    return call(("doctor", *arguments, "--ledger", str(NOWHERE)), environment=environment)


def test_the_command_needs_no_ledger_for_an_endpoint_and_says_what_it_could_not_ask() -> None:
    url = f"http://{closed_port()}"
    place = ("--endpoint", "abc", "--serverless-url", url)
    refused = command(*place, "--json", ORCHESTRATOR_API_KEY=KEY)
    told = json.loads(refused.stdout)
    assert (refused.exit_code, told["runs"], told["findings"][0]["cause"]) == (1, 0, "unreachable")
    assert told["findings"][0]["about"] == f"abc at {url}"
    assert POINTLESS[401] not in refused.stdout
    keyless = command(*place)
    assert (keyless.exit_code, keyless.stdout.splitlines()[0]) == (0, "nothing holds it up: no run is open")
    assert f"not looked at: {url}: there is no API key for it" in keyless.stdout


def test_a_local_function_has_no_service_to_ask() -> None:
    result = command("--endpoint", "local:f.py:f")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no service to ask" in result.stderr
