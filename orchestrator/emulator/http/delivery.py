"""Lets answers out as the wire has decided: late, whole, in part, or not at all."""

from collections.abc import AsyncIterator

import anyio
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.clock import Clock
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.http.wire import Cut, OutgoingAnswer, Wire
from orchestrator.units import SECOND_US


class AnswerDelivery:
    """Where answers leave. `scale` is how fast `clock` runs."""

    def __init__(self, wire: Wire, clock: Clock, scale: float = 1.0) -> None:
        self.wire = wire
        self.clock = clock
        self.scale = scale

    async def deliver(self, sending: OutgoingAnswer) -> Response:
        """Keep the answer back as long as a fault says; raises ConnectionCut if none is to come.

        The service may have gone down meanwhile.
        """
        if sending.delay_us:
            await anyio.sleep(sending.delay_us / SECOND_US / self.scale)
        self.wire.check_connection(self.clock.now())
        if sending.cut is Cut.BEFORE_ANSWER:
            raise ConnectionCut
        answer = sending.answer
        if answer.more is not None and sending.cut is Cut.NOWHERE:
            events = _whole(answer.body, answer.more)
            return StreamingResponse(events, answer.status, dict(answer.headers), answer.content_type)
        return AnswerResponse(sending)


async def _whole(beginning: bytes, more: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield beginning
    async for piece in more:
        yield piece


class AnswerResponse(Response):
    """An answer on its way, which a fault may cut in the middle of its body."""

    def __init__(self, sending: OutgoingAnswer) -> None:
        answer = sending.answer
        super().__init__(answer.body, answer.status, dict(answer.headers), answer.content_type or None)
        self._cut = sending.cut is Cut.INSIDE_BODY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._cut:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        raise ConnectionCut


TIME_SCALE_HEADER = b"x-emulator-time-scale"
"""In every answer of an emulator whose time does not run as the clock does: how many of its seconds pass in one."""


def announced(app: ASGIApp, scale: float) -> ASGIApp:
    """`app`, whose every answer tells `scale`."""
    header = (TIME_SCALE_HEADER, f"{scale:g}".encode())

    async def telling(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await app(scope, receive, send_told)

    return telling
