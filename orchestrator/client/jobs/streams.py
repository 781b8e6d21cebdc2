"""A job's chunks as they come (contract, `/stream`).

The service hands out each chunk once: a call gives what came since the last one, and whoever else reads the same stream
takes from it. The stream is over with the answer that says that the job is, however it ended; the last chunks may come
with it. An answer may also be chunks without a status: then the job is asked for once none come, and the stream once
more, for what was put out in between.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio

from orchestrator.client.jobs.refusals import RefusedError
from orchestrator.client.jobs.service_answers import Chunk, JobRecord, StreamPart
from orchestrator.core.service.outcomes import TERMINAL_STATUSES

PAUSE_S_MIN: Final = 0.25
PAUSE_S_MAX: Final = 2.0
"""Between the beginnings of two calls: short while chunks come, growing while none do. The service may hold a call that
has nothing to give, and then there is no pause on top."""

PAUSE_GROWTH: Final = 1.5

_NOT_FOUND: Final = 404


class JobStream:
    """The chunks of one job: `async for chunk in stream`. It can be iterated once.

    `status` is the job's latest known status, "" before the first answer; when the iteration has ended it is final. The
    iteration raises `RefusedError`, `NotSent`, and `Unanswered` where an answer was cut off: its chunks are lost then,
    and another stream of the job goes on with the next ones.
    """

    def __init__(self, poll: Callable[[], Awaitable[StreamPart]], look: Callable[[], Awaitable[JobRecord]]) -> None:
        """`look` asks for the job, where an answer of `poll` does not say how it stands."""
        self._poll = poll
        self._look = look
        self.status = ""

    @property
    def finished(self) -> bool:
        """Whether the job has ended; chunks may be left all the same."""
        return self.status in TERMINAL_STATUSES

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        pause_s = PAUSE_S_MIN
        while True:
            asked = anyio.current_time()
            part = await self._ask()
            if part is None:
                return
            was_over = self.finished
            self.status = part.status or self.status
            for chunk in part.chunks:
                yield chunk
            if self.finished and (part.status or was_over):
                return
            if not part.status and not part.chunks:
                self.status = (await self._look()).status
            pause_s = PAUSE_S_MIN if part.chunks else min(pause_s * PAUSE_GROWTH, PAUSE_S_MAX)
            await anyio.sleep(max(0.0, asked + pause_s - anyio.current_time()))

    async def _ask(self) -> StreamPart | None:
        """The next part; None where the service has forgotten a job that was known to have ended."""
        try:
            return await self._poll()
        except RefusedError as refusal:
            if refusal.status == _NOT_FOUND and self.finished:
                return None
            raise
