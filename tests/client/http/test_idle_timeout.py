"""Time-outs that are about silence, and count only the time in which somebody could have listened."""

from collections.abc import AsyncIterator

import anyio
import httpx
import pytest
from multidict import CIMultiDict

from orchestrator.client.http.backends import Request
from orchestrator.client.http.idle_timeout import RATE_MIN, TICK_S, IdleWatch
from orchestrator.client.http.transport import REQUEST_S_MAX, Transport
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US
from tests.simulation.clock import VirtualClock
from tests.simulation.loop import running_loop
from tests.simulation.run import run

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REQUEST = Request("POST", "http://h/v2/ep/run", CIMultiDict(), b"{}")


class Slow(httpx.AsyncBaseTransport):
    """Answers once `answer` is set; a body of `pieces`, each after `pause_s`."""

    def __init__(self, *, pieces: int = 0, size: int = 1, pause_s: float = 0.0) -> None:
        self.answer = anyio.Event()
        self._pieces, self._size, self._pause_s = pieces, size, pause_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self._pieces:
            await self.answer.wait()
        return httpx.Response(200, content=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        for _ in range(self._pieces):
            await anyio.sleep(self._pause_s)
            yield b"x" * self._size


def sleep_through(seconds: float, slow: Slow) -> None:
    """The process stands still; what came meanwhile is found a round later than the timers that fell due."""
    loop = running_loop()
    loop.stand_still(seconds)
    loop.call_soon(loop.call_soon, slow.answer.set)


async def took_s(transport: Transport) -> float:
    """How long a request took that came to nothing."""
    began_s = anyio.current_time()
    with pytest.raises(Unanswered, match="nothing came for 30 s"):
        await transport.send(REQUEST)
    return anyio.current_time() - began_s


@pytest.mark.parametrize("after_s", [5, REQUEST_S_MAX - 0.5])
async def test_answers_that_came_while_the_process_was_stopped_are_read(after_s: float) -> None:
    slow = Slow()
    transport = Transport(VirtualClock(), transport=slow)
    answers: list[Answer] = []

    async def send() -> None:
        answers.append(await transport.send(REQUEST))

    async with anyio.create_task_group() as tasks:
        for _ in range(120):
            tasks.start_soon(send)
        await anyio.sleep(after_s)
        sleep_through(40, slow)
    assert len(answers) == 120


async def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    loop = running_loop()
    loop.call_later(5.5, loop.stand_still, 1_000.0)
    loop.call_later(6.5, loop.stand_still, 1_000.0)
    assert await took_s(Transport(VirtualClock(), transport=Slow())) == pytest.approx(2_000 + REQUEST_S_MAX, abs=3)


async def test_a_loop_that_is_late_all_the_time_gives_up_all_the_same() -> None:
    loop = running_loop()

    def hang() -> None:
        loop.stand_still(5.0)
        loop.call_later(0.1, hang)

    hang()
    assert await took_s(Transport(VirtualClock(), transport=Slow())) < 200


async def test_silence_lasts_as_long_as_it_says() -> None:
    transport = Transport(VirtualClock(), transport=Slow())
    assert await took_s(transport) == pytest.approx(REQUEST_S_MAX, abs=0.01)
    await anyio.sleep(100)
    assert await took_s(transport) == pytest.approx(REQUEST_S_MAX, abs=0.01), "and after a time without requests"


def test_a_transport_may_be_used_by_one_loop_after_the_other() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    transport = Transport(VirtualClock(), transport=httpx.MockTransport(silent))

    async def use() -> None:
        with anyio.move_on_after(0.5):
            await transport.send(REQUEST)
        assert await took_s(transport) == pytest.approx(REQUEST_S_MAX, abs=TICK_S)

    for _ in range(2):
        run(use)


async def test_a_long_answer_has_its_time_as_long_as_it_comes() -> None:
    transport = Transport(VirtualClock(), transport=Slow(pieces=100, size=64 * 1024, pause_s=10))
    assert len((await transport.send(REQUEST)).body) == 100 * 64 * 1024
    assert anyio.current_time() >= 1_000


async def test_an_answer_that_stops_is_given_up_however_much_has_come() -> None:
    transport = Transport(VirtualClock(), transport=Slow(pieces=2, size=40 * 1024 * 1024, pause_s=31))
    assert await took_s(transport) == pytest.approx(REQUEST_S_MAX, abs=TICK_S)


async def test_whoever_sends_a_byte_now_and_then_is_given_up() -> None:
    transport = Transport(VirtualClock(), transport=Slow(pieces=1_000, pause_s=20))
    assert await took_s(transport) == pytest.approx(REQUEST_S_MAX, abs=TICK_S)
    transport = Transport(VirtualClock(), transport=Slow(pieces=1_000, size=20 * RATE_MIN // 2, pause_s=20))
    assert await took_s(transport) == pytest.approx(2 * REQUEST_S_MAX, abs=20), "half the rate: twice the time"


async def test_nothing_is_waited_for_while_it_is_paused() -> None:
    idle_timeout = IdleWatch(VirtualClock()).begin(5.0)
    with idle_timeout.scope:
        await anyio.sleep(2)
        with idle_timeout.paused():
            await anyio.sleep(100)
        began_s = anyio.current_time()
        await anyio.sleep_forever()
    assert anyio.current_time() - began_s == pytest.approx(3, abs=0.01), "two seconds of five were over before"


async def test_connections_are_not_trusted_after_the_machine_has_slept() -> None:
    slept: list[float] = []
    clock = Lid()
    watch = IdleWatch(clock, on_sleep=lambda: slept.append(anyio.current_time()))
    idle_timeout = watch.begin(1_000)
    await anyio.sleep(10)
    assert slept == []
    clock.closed_us = 3_600 * SECOND_US  # the loop's own clock stood still
    await anyio.sleep(2)
    assert len(slept) == 1
    watch.end(idle_timeout)
    await anyio.sleep(10)
    clock.closed_us *= 2
    watch.end(watch.begin(1_000))
    assert len(slept) == 2, "also when nothing was waited for"


class Lid(VirtualClock):
    """A clock that goes on while the lid is closed."""

    closed_us = 0

    def now(self) -> int:
        return super().now() + self.closed_us


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ConnectTimeout("late")])
async def test_a_connection_that_was_not_made_costs_nothing(error: Exception) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(NotSent):
        await Transport(VirtualClock(), transport=httpx.MockTransport(refuse)).send(REQUEST)
