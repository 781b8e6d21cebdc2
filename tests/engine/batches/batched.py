"""A run whose jobs leave in batches, at a simulated service that loses what a test says."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import httpx

from orchestrator.core.gates.failure_breaker import OFF, BreakerRules
from orchestrator.core.lanes.via import Via
from orchestrator.emulator.batches.batch_records import BatchStatus
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.errors import Unanswered
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import Process, process
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, SimulatedService

BATCH = RunSettings(via=Via.BATCH)

Lost = Literal["request", "answer", "late"]
"""A request that is late is under way while its process lives."""


class Call(NamedTuple):
    """A request about batches: `create`, `append`, `finalize`, `cancel`, `get` or `page`, the n-th of its kind."""

    kind: str
    n: int


def kind_of(request: httpx.Request) -> str | None:
    """What is asked for; None where it is not about batches."""
    _, _, rest = request.url.path.partition("/batch")
    if "/batch" not in request.url.path:
        return None
    last = rest.rpartition("/")[2]
    if request.method == "POST":
        return {"": "create", "requests": "append"}.get(last, last)
    return "page" if last == "requests" else "get"


class Lossy(httpx.AsyncBaseTransport):
    """Loses requests, or their answers, as `lose` says."""

    def __init__(self, inner: httpx.AsyncBaseTransport, lose: Callable[[Call], Lost | None]) -> None:
        self._inner = inner
        self._lose = lose
        self.asked = Counter[str]()
        self.late: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        kind = kind_of(request)
        if kind is None:
            return await self._inner.handle_async_request(request)
        self.asked[kind] += 1
        lost = self._lose(Call(kind, self.asked[kind]))
        if lost == "request":
            raise Unanswered("cut before it arrived")
        if lost == "late":
            self.late.append(request)
            await anyio.sleep_forever()
        response = await self._inner.handle_async_request(request)
        if lost == "answer":
            raise Unanswered("cut before it was answered")
        return response


class Batched(NamedTuple):
    """What a test looks at."""

    p: Process
    service: SimulatedService
    asked: Counter[str]
    late: list[httpx.Request]

    async def stages(self) -> list[str]:
        return [batch.stage.value for batch in await self.p.ledger.runs.batches.of_run(self.p.run.id)]

    async def all_done_once(self, rows: int) -> None:
        """Each row has its own result, and was executed once."""
        found = [(each.line, each.output) for each in await self.p.results()]
        assert found == [(n, b'{"n":%d}' % n) for n in range(1, rows + 1)]
        executed = self.service.counts.executed
        assert {key: n for key, n in executed.items() if n != 1} == {}
        assert executed.total() == rows

    def drafts(self) -> list[str]:
        """The drafts that are left at the service."""
        page = self.service.batches.newest(ENDPOINT, 0, None, self.p.clock.now())
        return [batch.id for batch in page.batches if batch.status is BatchStatus.DRAFT]


@asynccontextmanager
async def batched(
    folder: Path,
    *,
    rows: int = 40,
    rules: BatchRules = BatchRules(append_ids=True),  # noqa: B008  it is frozen
    settings: RunSettings = BATCH,
    lose: Callable[[Call], Lost | None] = lambda _: None,
    service: SimulatedService | None = None,
    clock: VirtualClock | None = None,
    breaker: BreakerRules = OFF,
    server: str | None = None,
    here: ThisProcess | None = None,
    **more: Any,
) -> AsyncIterator[Batched]:
    """The process has begun."""
    clock = clock or VirtualClock()
    service = service or SimulatedService(clock, batch=rules, **more)
    transport = Lossy(service.transport(), lose)
    async with (
        service.serving(),
        process(
            folder / "db",
            transport,
            clock=clock,
            jobs=rows,
            settings=settings,
            breaker=breaker,
            server=server,
            here=here,
        ) as p,
    ):
        await p.begin()
        yield Batched(p, service, transport.asked, transport.late)


def once(kind: str, n: int, lost: Lost) -> Callable[[Call], Lost | None]:
    """The n-th request of that kind is lost, or its answer."""
    return lambda call: lost if call == Call(kind, n) else None
