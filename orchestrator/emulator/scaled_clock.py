"""The emulator's time, which may run faster than the clock's: a minute a second, say."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.clock import Clock

TIME_SCALE_HEADER = b"x-emulator-time-scale"
"""In every answer of an emulator whose time does not run as the clock does: how many of its seconds pass in one."""


class ScaledClock:
    """Begins at the clock's time; from then on `scale` seconds pass in each of the clock's."""

    def __init__(self, clock: Clock, scale: float) -> None:
        self._clock = clock
        self._scale = scale
        self._start = clock.now()

    def now(self) -> int:
        return self._start + round((self._clock.now() - self._start) * self._scale)


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
