"""Sends the traces of jobs and flows as they end: all that is in the feed since it was left off, however long ago."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.history import ENDING
from orchestrator.ledger.reports.event_feed import FeedEvent
from orchestrator.telemetry.traces.span_ids import is_sampled
from orchestrator.telemetry.traces.spans import SpanOf, flow_spans, job_spans
from orchestrator.telemetry.traces.trace_position import SentUntil, TracePosition

log = logging.getLogger(__name__)

Send = Callable[[Sequence[SpanOf]], Awaitable[bool]]
"""Whether the receiver has taken them."""

SPANS_AT_ONCE: Final = 500
AGAIN_S: Final = 1.0
AGAIN_S_MAX: Final = 60.0
"""Who takes nothing is tried again after twice as long each time, and no more rarely than this."""

_ENDINGS: Final = frozenset(map(Event, ENDING))


@dataclass(kw_only=True, eq=False)
class TraceSender:
    """Sends the spans of the sampled `share` of a ledger's jobs, and those of its flows."""

    ledger: Ledger
    place: TracePosition
    share: float
    send: Send

    async def serve(self) -> None:
        """Goes on until cancelled. Who sends for the first time begins with what happens from now on.

        Raises `StorageError`.
        """
        feed = self.ledger.reports.feed
        until = self.place.read()
        if until is None:
            end = await feed.end()
            until = SentUntil(end, await feed.at(end) or 0, *await self.ledger.reports.traced_jobs.last_flow_end())
            self.place.write(until)
        async for _ in feed.changes():
            until = await self._catch_up(await self._found_again(until))

    async def _found_again(self, until: SentUntil) -> SentUntil:
        """The same place, where something else stands there by now: events were deleted, or this is another ledger."""
        feed = self.ledger.reports.feed
        if not until.place or await feed.at(until.place) == until.at:
            return until
        return until._replace(place=await feed.place_by(until.at))

    async def _catch_up(self, until: SentUntil) -> SentUntil:
        while page := await self.ledger.reports.feed.page(until.place):
            await self._send(await self._of_jobs(page))
            until = self._keep(until._replace(place=page[-1].place, at=page[-1].at))
        traced = self.ledger.reports.traced_jobs
        while ended := await traced.flows_ended(until.flows_until, until.flow):
            for flow in ended:
                await self._send(flow_spans(flow, await traced.stages(flow.id)))
            until = self._keep(until._replace(flows_until=ended[-1].ended_at, flow=ended[-1].id))
        return until

    async def _of_jobs(self, page: Sequence[FeedEvent]) -> list[SpanOf]:
        spans: list[SpanOf] = []
        for event in page:
            if event.event in _ENDINGS and is_sampled(event.run, event.job, self.share):
                job = await self.ledger.reports.traced_jobs.job(event.job)
                if job is not None:
                    spans += job_spans(job, event.place)
        return spans

    def _keep(self, until: SentUntil) -> SentUntil:
        try:
            self.place.write(until)
        except StorageError as error:
            log.warning("%s", error)
        return until

    async def _send(self, spans: Sequence[SpanOf]) -> None:
        """Returns once the receiver has taken all of them."""
        for start in range(0, len(spans), SPANS_AT_ONCE):
            await self._send_some(spans[start : start + SPANS_AT_ONCE])

    async def _send_some(self, spans: Sequence[SpanOf]) -> None:
        again_s = AGAIN_S
        while not await self.send(spans):
            if again_s == AGAIN_S:
                log.warning("the receiver of traces takes none; they wait, and are sent again")
            await anyio.sleep(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)
