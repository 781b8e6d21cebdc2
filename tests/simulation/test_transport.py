"""The simulated transport: answers, refusals, cuts, and callers that give up."""

from collections.abc import Callable

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest

from orchestrator.errors import NotSent, Unanswered
from tests.simulation.loop import running_loop
from tests.simulation.transport import ASGIApp, Message, SimulatedTransport

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time(seed=7)]


def answering(delay_s: float = 0.0, seen: list[str] | None = None) -> ASGIApp:
    """An app that takes `delay_s` for its answer, 204, or breaks off as the path asks."""

    async def app(scope: Message, receive: object, send: Callable[[Message], object]) -> None:
        try:
            if scope["path"] == "/cut":
                raise ConnectionResetError
            if scope["path"] == "/bug":
                raise ZeroDivisionError
            await anyio.sleep(delay_s)
            for message in ({"type": "http.response.start", "status": 204}, {"type": "http.response.body"}):
                await send(message)  # type: ignore[misc]
        except anyio.get_cancelled_exc_class():
            if seen is not None:
                seen.append("cancelled")
            raise

    return app


async def test_a_request_and_its_answer_travel() -> None:
    legs = iter([0.1, 0.2])
    transport = SimulatedTransport(answering(1.0), travel_s=lambda: next(legs))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        assert (await client.get("/")).status_code == 204
    assert running_loop().time() == pytest.approx(1.3)


async def test_a_server_that_is_down_refuses_and_nothing_was_sent() -> None:
    transport = SimulatedTransport(answering(), down=lambda: True)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        with pytest.raises(NotSent, match="service refused"):
            await client.get("/")


async def test_a_cut_connection_is_unanswered_and_a_bug_of_the_app_stays_a_bug() -> None:
    transport = SimulatedTransport(answering(), cut=ConnectionResetError)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        with pytest.raises(Unanswered, match="service cut"):
            await client.post("/cut")
        with pytest.raises(ZeroDivisionError):
            await client.post("/bug")


async def test_a_caller_that_gives_up_cancels_the_app() -> None:
    seen: list[str] = []
    transport = SimulatedTransport(answering(60, seen))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        with anyio.move_on_after(5):
            await client.get("/")
    assert seen == ["cancelled"]
    assert running_loop().time() == 5
