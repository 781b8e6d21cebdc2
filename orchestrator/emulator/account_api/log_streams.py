"""A log as a stream of events: what is asked for of it, and then what comes, as long as there is more to come."""

from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Final

import anyio
import msgspec
from starlette.requests import Request

from orchestrator.clock import Clock
from orchestrator.emulator.account.pod_logs import (
    EVENT_STREAM,
    HEARTBEAT,
    HEARTBEAT_US,
    LogSelection,
    PodLogLine,
    parse_selection,
)
from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal

LOOK_S: Final = 0.25
"""How often a stream looks whether there is a new line."""

Read = Callable[[LogSelection], tuple[Sequence[PodLogLine], bool]]
"""The lines that are asked for, and whether more may come. Raises Problem where there is no such log, or no longer."""


class LogStreams:
    """Answers requests for logs. `scale` is how fast `clock` runs."""

    def __init__(self, clock: Clock, scale: float) -> None:
        self._clock = clock
        self._scale = scale

    def answer(self, request: Request, read: Read) -> HttpAnswer:
        """The log that `read` reads. Raises Problem."""
        asked = parse_selection(request.query_params, request.headers.get("last-event-id"))
        lines, _ = read(asked)
        seen = lines[-1].number if lines else asked.after
        if seen is None:  # none was wanted of those that there are
            seen = max((line.number for line in read(LogSelection(after=0))[0]), default=0)
        return HttpAnswer(
            status=HTTPStatus.OK,
            body=b"".join(line.event() for line in lines) or HEARTBEAT,
            content_type=EVENT_STREAM,
            more=self._live(read, msgspec.structs.replace(asked, after=seen)),
        )

    async def _live(self, read: Read, asked: LogSelection) -> AsyncIterator[bytes]:
        """What comes from now on, until no more will (our choice), and a sign of life now and then."""
        beat_at = self._clock.now() + HEARTBEAT_US
        while True:
            now = self._clock.now()
            try:
                lines, goes_on = read(asked)
            except ProblemRefusal:
                return
            if lines:
                asked = msgspec.structs.replace(asked, after=lines[-1].number)
                yield b"".join(line.event() for line in lines)
            elif now >= beat_at:
                yield HEARTBEAT
            if lines or now >= beat_at:
                beat_at = now + HEARTBEAT_US
            if not goes_on:
                return
            await anyio.sleep(LOOK_S / self._scale)
