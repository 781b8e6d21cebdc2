"""Runs whose jobs several simulated endpoints share."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import httpx
import msgspec

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.pools.member import MemberSettings
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.engine.pools.pool_member import PoolMember
from orchestrator.errors import NotSent, Unanswered
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import Process, process
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, URL, SimulatedService, Work, echo

SLOW, MIDDLE, QUICK = ENDPOINT, "twice", "four-times"
SPEEDS = {SLOW: 4, MIDDLE: 8, QUICK: 16}
"""Workers of three members of which the second is twice as fast as the first, and the third as the second."""


class DyingTransport(httpx.AsyncBaseTransport):
    """A way to a service that refuses the connection to some of its endpoints, while they are `dead`."""

    def __init__(self, way: httpx.AsyncBaseTransport, dead: set[str]) -> None:
        self._way = way
        self._dead = dead
        self.before_cancel: Callable[[], Awaitable[None]] | None = None
        """What happens before a `/cancel` gets there."""

        self.cuts_off: set[str] = set()
        """The endpoints whose answers to jobs are lost."""

        self.loses_cancels = False
        """Whether the answer to a `/cancel` is lost."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.before_cancel is not None and "/cancel/" in request.url.path:
            await self.before_cancel()
        endpoint = request.url.path.split("/")[2]
        if endpoint in self._dead:
            raise NotSent("the connection was refused")
        answer = await self._way.handle_async_request(request)
        if endpoint in self.cuts_off and request.method == "POST":
            raise Unanswered("its answer was lost")
        if self.loses_cancels and "/cancel/" in request.url.path:
            raise Unanswered("its answer was lost")
        return answer


class Pooled:
    """A process with one run in a pool, and its service."""

    def __init__(self, p: Process, service: SimulatedService, way: DyingTransport, dead: set[str]) -> None:
        self.p = p
        self.way = way
        self.service = service
        self.dead = dead

    @property
    def members(self) -> list[PoolMember]:
        """Those of the pool of the run."""
        return [*self.p.engine.runs.pools.of[self.p.run.id].members.values()]

    async def done_at(self) -> Counter[str]:
        """How many jobs have their result from each endpoint."""
        names = {each.endpoint_id: each.endpoint for each in await self.p.ledger.runs.elsewhere([self.p.run.id])}
        names[self.p.run.endpoint_id] = self.p.run.endpoint
        jobs = await self.p.ledger.jobs.of(range(1, self.p.progress.total + 1))
        return Counter(names[job.endpoint] for job in jobs.values() if job.state == "succeeded")

    async def sent_to(self, n: int) -> list[str]:
        """The endpoints that have taken the `n`th job, one after another; a claim that was given back is none."""
        shown = await self.p.ledger.reports.job_details.numbered(self.p.run, n)
        assert shown is not None
        return [each.endpoint for each in shown.submissions if each.remote_id is not None]

    async def run(self) -> float:
        """Sends and collects all; returns the seconds that took."""
        began_at = self.p.clock.now()
        await self.p.begin()
        await self.p.finish()
        return (self.p.clock.now() - began_at) / 1_000_000


def server_at(endpoint: str) -> str:
    """The URL at which requests go straight to the workers of a simulated endpoint."""
    return f"{URL}/v2/{endpoint}/openai"


def of(*names: str) -> tuple[MemberSettings, ...]:
    return tuple(map(MemberSettings, names))


@contextlib.asynccontextmanager
async def pooled(
    tmp_path: Path,
    workers: Mapping[str, int | Scaling],
    *,
    jobs: int,
    seconds: float = 1.0,
    work: Work = echo,
    settings: RunSettings = RunSettings(),  # noqa: B008  it is frozen
    dead: set[str] | None = None,
    webhooks: bool = False,
    clock: VirtualClock | None = None,
    limits: dict[Operation, Limit] | None = None,
) -> AsyncIterator[Pooled]:
    """A run whose pool are the endpoints that have these workers, the first of them its home."""
    clock, dead = clock or VirtualClock(), set() if dead is None else dead
    scaling = {name: each if isinstance(each, Scaling) else fixed(each) for name, each in workers.items()}
    there = SimulatedService(clock, endpoints=tuple(workers), scaling=scaling, seconds=lambda _: seconds, work=work)
    members = settings.members or (of(*workers) if len(workers) > 1 else ())
    settings = msgspec.structs.replace(settings, members=members)
    way = DyingTransport(there.transport(travel_s=lambda: 0.03), dead)
    ledger = tmp_path / "ledger.db"
    async with (
        there.serving(),
        process(ledger, way, clock=clock, jobs=jobs, settings=settings, limits=limits, webhooks=webhooks) as p,
    ):
        yield Pooled(p, there, way, dead)
