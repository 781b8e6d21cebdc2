"""The wire of a service whose time runs faster than the clock: what it is told in its time, and what it tells.

The world behind it goes by the true clock, as those do who look at it afterwards. So what a submission allows a job is
divided on its way there, and how long a job took is multiplied on its way back.
"""

import re
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.emulator.http.delivery import announced

_ALLOWED = re.compile(rb'("(?:ttl|executionTimeout)":)(\d+)')
_WAIT = re.compile(rb"(wait=)(\d+)")
_TOOK = re.compile(rb'("(?:delayTime|executionTime)":)(\d+)(?=[,}])')
_LENGTH = b"content-length"


class Scale:
    """A service whose time runs `times` as fast; whether its answers tell that is `is_told`."""

    def __init__(self, times: float, *, is_told: bool) -> None:
        self._times = times
        self._is_told = is_told

    def app(self, app: ASGIApp) -> ASGIApp:
        """`app`, which goes by the true clock, as those see it who go by the service's."""
        return announced(self._translated(app), self._times) if self._is_told else self._translated(app)

    def told(self, body: bytes) -> bytes:
        """What the service tells of a job, be it an answer or a webhook."""
        return _changed(_TOOK, body, lambda true: round(true * self._times))

    def _translated(self, app: ASGIApp) -> ASGIApp:
        async def translated(scope: Scope, receive: Receive, send: Send) -> None:
            wait = _changed(_WAIT, scope.get("query_string", b""), lambda there: round(there / self._times))
            scope = {**scope, "query_string": wait}

            async def receive_translated() -> Message:
                message = await receive()
                allowed = _changed(_ALLOWED, message.get("body", b""), lambda there: round(there / self._times))
                return {**message, "body": allowed} if "body" in message else message

            held: list[Message] = []

            async def hold(message: Message) -> None:
                held.append(message)

            try:
                await app(scope, receive_translated, hold)
            finally:  # an answer may be cut off, and what came of it by then is seen
                for message in self._answer(held):
                    await send(message)

        return translated

    def _answer(self, held: list[Message]) -> list[Message]:
        bodies = [message["body"] for message in held if message.get("body")]
        if not bodies:
            return held
        whole = b"".join(bodies)
        body = self.told(whole)
        start, last = held[0], held[-1]
        headers = [
            (name, str(int(value) + len(body) - len(whole)).encode() if name.lower() == _LENGTH else value)
            for name, value in start["headers"]
        ]
        return [{**start, "headers": headers}, {**last, "body": body}]


def _changed(pattern: re.Pattern[bytes], body: bytes, change: Callable[[int], int]) -> bytes:
    return pattern.sub(lambda found: found[1] + str(change(int(found[2]))).encode(), body)
