"""A process on a ledger that another one may take from it: it sends as long as it may, and leaves room for what its
predecessor may still send.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Operation
from orchestrator.core.ownership.lease import LATE_US_MAX, SETTLED_US_MIN, TRUST_US
from orchestrator.errors import DeposedError, leading
from orchestrator.ledger.postgres.connection import LineBounds, Settings
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.processes.tenure import tenure_of
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.units import SECOND_US
from tests.engine.process import WATCH_EVERY_S, Process, process
from tests.engine.scripted import ACCEPTED, COMPLETED, CUT, Reply, Scripted, numbered
from tests.postgres.databases import Databases
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.postgres.owners import taken_over, takes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

GONE, ME = ProcessName("process 1 on a", " #1"), ProcessName("process 2 on b", " #2")
JOBS = 7
AT_ONCE = CONTRACT_LIMITS[Operation.STATUS].concurrent or 0


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


class Line:
    """The one by which an owner beats."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_cut = False
        self._drivers: list[Any] = []

    async def __call__(self, settings: Settings, bounds: LineBounds) -> Any:
        if self.is_cut:
            raise ConnectionRefusedError
        self._drivers.append(await waited_for(self._url)(settings, bounds))
        return self._drivers[-1]

    def cut(self) -> None:
        self.is_cut = True
        for driver in self._drivers:
            driver.terminate()


@asynccontextmanager
async def owned(
    tmp_path: Path, url: str, transport: Scripted, line: Line | None = None, *, watch_every_s: float = WATCH_EVERY_S
) -> AsyncIterator[Process]:
    """A process that owns the ledger, and works on it."""
    ledger = str(parse_ledger_url(url))
    here = on_virtual_time()
    async with (
        tenure_of(ledger, line or Line(url), ME, here=here),
        process(tmp_path / "l.db", transport, server=url, here=here, jobs=JOBS, watch_every_s=watch_every_s) as p,
    ):
        yield p


async def left_by_a_predecessor(tmp_path: Path, url: str, *, without_a_word: bool) -> None:
    """All jobs were sent and none was answered. It let go of the ledger, or is gone without a word."""
    held_up = Scripted(run=Reply(after_s=3_600))
    async with owned(tmp_path, url, held_up) as p:
        await p.begin()
        await all_sent(held_up)
    if without_a_word:
        await gone_without_a_word(url)


async def all_sent(transport: Scripted) -> None:
    while len(transport.of("run")) < JOBS:  # noqa: ASYNC110  nobody tells of it
        await anyio.sleep(0.1)


async def deposed_in_flight(tmp_path: Path, url: str, transport: Scripted) -> None:
    """All jobs were sent as another process takes the place of this one."""
    async with owned(tmp_path, url, transport) as p:
        await p.begin()
        await all_sent(transport)
        await taken_over(url, GONE)


async def gone_without_a_word(url: str) -> None:
    """The ledger has an owner that is gone."""
    driver = await waited_for(url)({}, LineBounds())
    await takes(driver, GONE)
    driver.terminate()


async def test_nothing_leaves_a_process_that_may_have_lost_its_place(tmp_path: Path, url: str) -> None:
    line, transport = Line(url), Scripted(run=CUT)
    async with owned(tmp_path, url, transport, line) as p:
        line.cut()
        await anyio.sleep(TRUST_US / SECOND_US + 0.1)
        await p.begin()
        await anyio.sleep(30)
        assert transport.asked == []

        line.is_cut = False
        transport.scripts["run"] = numbered()
        await all_sent(transport)


async def test_an_owner_asks_for_half_as_much_at_once_as_both_may(tmp_path: Path, url: str) -> None:
    async with owned(tmp_path, url, Scripted(run=ACCEPTED)) as p:
        part = p.engine.endpoints.services.part_of(CONTRACT_LIMITS)
    async with process(tmp_path / "file.db", Scripted(run=ACCEPTED)) as alone:
        whole = alone.engine.endpoints.services.part_of(CONTRACT_LIMITS)
    assert whole[Operation.STATUS].concurrent == AT_ONCE
    assert part[Operation.STATUS].concurrent == AT_ONCE // 2
    assert part[Operation.RUN].concurrent == (whole[Operation.RUN].concurrent or 0) // 2
    held = Operation.RUNSYNC
    assert part[held] == whole[held], "of these the ledger knows how many there can be"


async def test_at_a_take_over_what_may_still_arrive_keeps_its_part_of_the_limits(tmp_path: Path, url: str) -> None:
    await left_by_a_predecessor(tmp_path, url, without_a_word=True)
    async with owned(tmp_path, url, Scripted()) as p:
        taken_at = p.ledger.now()
        await p.engine.endpoints.begin()
        limiter = p.api.limiter
        assert limiter.figures(Operation.RUN).used == JOBS
        assert limiter.figures(Operation.STATUS).used == limiter.limit(Operation.STATUS).concurrent
        window_us = round(limiter.limit(Operation.RUN).window_s * SECOND_US)
        await anyio.sleep_until(anyio.current_time() + (LATE_US_MAX + window_us) / SECOND_US - 0.1)
        assert limiter.figures(Operation.RUN).used == JOBS
        await anyio.sleep(0.2)
        assert limiter.figures(Operation.RUN).used == 0
        assert limiter.figures(Operation.STATUS).used == 0
        assert p.ledger.now() - taken_at < 60 * SECOND_US


async def test_where_the_one_before_let_go_nothing_more_of_it_can_arrive(tmp_path: Path, url: str) -> None:
    await left_by_a_predecessor(tmp_path, url, without_a_word=False)
    async with owned(tmp_path, url, Scripted()) as p:
        await p.engine.endpoints.begin()
        assert p.api.limiter.figures(Operation.STATUS).used == 0


async def test_where_the_one_before_let_go_its_successor_goes_on_as_it_stood(tmp_path: Path, url: str) -> None:
    async with owned(tmp_path, url, Scripted(run=numbered(), status=COMPLETED)) as p:
        await p.begin()
        await p.until(State.SUCCEEDED, JOBS)
        await anyio.sleep(1)
        left = {operation: p.api.limiter.figures(operation).used for operation in (Operation.RUN, Operation.STATUS)}
        finished_per_s = p.endpoint.estimates.throughput.per_s(p.clock.now())
    assert set(left.values()) == {JOBS}
    async with owned(tmp_path, url, Scripted()) as p:
        await p.engine.endpoints.begin()
        limiter = p.api.limiter
        assert {operation: limiter.figures(operation).used for operation in left} == left
        per_s = limiter.limit(Operation.STATUS).requests / limiter.limit(Operation.STATUS).window_s
        assert limiter.available(Operation.STATUS, SECOND_US) >= 0.99 * per_s, "it goes at the full rate at once"
        assert p.endpoint.estimates.throughput.per_s(p.clock.now()) == pytest.approx(finished_per_s, rel=0.2)
        await anyio.sleep(10)
        assert limiter.figures(Operation.STATUS).used == 0


async def test_what_an_owner_left_goes_with_one_that_dies_in_its_place(tmp_path: Path, url: str) -> None:
    async with owned(tmp_path, url, Scripted(run=numbered(), status=COMPLETED)) as p:
        await p.begin()
        await p.until(State.SUCCEEDED, JOBS)
    await gone_without_a_word(url)
    async with owned(tmp_path, url, Scripted()) as p:
        await p.engine.endpoints.begin()
        at_once = p.api.limiter.limit(Operation.STATUS).concurrent
        assert p.api.limiter.figures(Operation.STATUS).used == at_once, "reserved for the one that died"


async def test_what_may_still_arrive_is_not_sent_again_before_it_cannot_any_more(tmp_path: Path, url: str) -> None:
    held_up = Scripted(run=Reply(after_s=3_600))
    with pytest.raises(BaseExceptionGroup) as ended:
        await deposed_in_flight(tmp_path, url, held_up)  # so it writes nothing of what it knows, as if it were killed
    assert isinstance(leading(ended.value), DeposedError)
    transport = Scripted(run=numbered(), status=COMPLETED)
    async with owned(tmp_path, url, transport) as p:
        taken_s = anyio.current_time()
        await p.begin()
        await p.finish()
    assert len(transport.times("run")) == JOBS
    assert min(transport.times("run")) - taken_s >= SETTLED_US_MIN / SECOND_US - 0.1
