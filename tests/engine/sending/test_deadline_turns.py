"""Runs that share an endpoint: by the earliest deadline where weight alone would miss one, and nobody starves."""

import heapq
import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.pools.member import MemberSettings
from orchestrator.engine.engine import Engine
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.hosting.test_side_by_side import HERE, a_run, engine_at, finished, serve
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

EXECUTION_S = 10.0


class FewWorkers(httpx.AsyncBaseTransport):
    """A service whose workers, so many at each endpoint, have jobs in the order in which they came, ten seconds each."""

    def __init__(self, workers: int) -> None:
        self._free: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * workers)
        self._numbers = itertools.count()
        self._jobs: dict[str, tuple[float, float]] = {}
        """When each was sent, and when it begins."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        _, _, endpoint, operation, *rest = request.url.path.split("/")
        free = self._free[endpoint]
        now_s = running_loop().time()
        if operation == "run":
            name = f"job-{next(self._numbers)}"
            begins_s = max(now_s, heapq.heappop(free))
            heapq.heappush(free, begins_s + EXECUTION_S)
            self._jobs[name] = now_s, begins_s
            return _answer({"id": name, "status": "IN_QUEUE"})
        if operation == "status":
            sent_s, begins_s = self._jobs[rest[0]]
            if now_s < begins_s + EXECUTION_S:
                return _answer({"id": rest[0], "status": "IN_PROGRESS" if now_s >= begins_s else "IN_QUEUE"})
            times = {"delayTime": int(1_000 * (begins_s - sent_s)), "executionTime": int(1_000 * EXECUTION_S)}
            return _answer({"id": rest[0], "status": "COMPLETED", "output": 1, **times})
        running = sum(begins_s <= now_s < begins_s + EXECUTION_S for _, begins_s in self._jobs.values())
        return _answer({"jobs": {"inProgress": running}, "workers": {"running": running}})


def _answer(body: Mapping[str, object]) -> httpx.Response:
    return httpx.Response(200, content=json.dumps(body).encode())


def few_ahead(finish_by: int = 0, members: Sequence[str] = ()) -> RunSettings:
    """What has been sent cannot be overtaken, so little is sent ahead."""
    pool = tuple(map(MemberSettings, members))
    return RunSettings(queue_depth=4, breaker=OFF, finish_by=finish_by, members=pool)


async def both(engine: Engine, finish_by_s: float | None) -> tuple[RunSession, RunSession, float]:
    """A run without a deadline, and one of 40 jobs that may have one; returns both, and how long the latter took."""
    began_at = engine.ledger.now()
    finish_by = 0 if finish_by_s is None else began_at + round(finish_by_s * SECOND_US)
    plain = await a_run(engine, "plain", jobs=200, settings=few_ahead())
    urgent = await a_run(engine, "urgent", jobs=40, settings=few_ahead(finish_by))
    sessions = await serve(engine, plain, urgent)
    await finished(sessions[1])
    return sessions[0], sessions[1], (engine.ledger.now() - began_at) / SECOND_US


@pytest.mark.slow
async def test_what_weight_alone_would_miss_goes_first_and_the_other_run_goes_on(tmp_path: Path) -> None:
    """40 jobs by half of four workers take 200 s."""
    async with engine_at(tmp_path / "db", {HERE: FewWorkers(4)}) as engine:
        plain, _, took_s = await both(engine, 160)
        assert took_s < 160
        done = plain.progress.total - plain.progress.unfinished
    assert done >= 2


@pytest.mark.slow
@pytest.mark.parametrize("finish_by_s", [None, 400])
async def test_who_is_in_time_by_weight_keeps_to_it(tmp_path: Path, finish_by_s: float | None) -> None:
    async with engine_at(tmp_path / "db", {HERE: FewWorkers(4)}) as engine:
        _, urgent, took_s = await both(engine, finish_by_s)
        assert 180 < took_s < 240
        assert urgent.brakes.pace.late_in_turn_us is None


@pytest.mark.parametrize(
    ("members", "within_s", "left"),
    [((), 60, 32), pytest.param(("ep", "ep-2"), 90, 28, marks=pytest.mark.slow)],
    ids=["alone", "of a pool"],
)
async def test_who_cannot_be_in_time_is_told_by_how_much(
    tmp_path: Path, members: Sequence[str], within_s: int, left: int
) -> None:
    """Of a pool once it is known how fast each of its members is."""
    async with engine_at(tmp_path / "db", {HERE: FewWorkers(4 // max(1, len(members)))}) as engine:
        finish_by = engine.ledger.now() + within_s * SECOND_US
        plain = await a_run(engine, "plain", jobs=200, settings=few_ahead(members=members))
        urgent = await a_run(engine, "urgent", jobs=40, settings=few_ahead(finish_by, members))
        _, session = await serve(engine, plain, urgent)
        await session.progress.until(lambda: session.progress.unfinished <= left)
        why = session.brakes.why_late
        assert why is not None
        assert "even where its turn comes by its deadline" in why
