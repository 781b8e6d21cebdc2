"""A pool whose members have lanes of their own: what each of them takes, and what is known of what is there."""

from pathlib import Path

import anyio
import httpx
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.pools.member import MemberSettings, Prefer
from orchestrator.core.service.endpoint_headers import read_headers
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US
from tests.engine.pools.pooled import QUICK, SLOW, Pooled, pooled, server_at
from tests.engine.pools.test_unwell import THROTTLED_FOUR
from tests.engine.process import process
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SERVER_PATH, URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SERVER = server_at(QUICK)
BY_HTTP = MemberSettings(SERVER, via=Via.HTTP, path=SERVER_PATH)
BESIDE_A_SERVER = RunSettings(members=(MemberSettings(SLOW), BY_HTTP))
FOUR_AT_ONCE = {Operation.HTTP: Limit(500, 10.0, 4)}
"""What the server takes."""


async def with_ids(pool: Pooled) -> dict[str, set[bool]]:
    """Where jobs were sent, and whether the service gave ids to them."""
    found: dict[str, set[bool]] = {}
    for n in range(1, pool.p.progress.total + 1):
        shown = await pool.p.ledger.reports.job_details.numbered(pool.p.run, n)
        assert shown is not None
        for each in shown.submissions:
            found.setdefault(each.endpoint, set()).add(each.remote_id is not None)
    return found


@pytest.mark.parametrize(
    "via", [Via.QUEUE, pytest.param(Via.SYNC, marks=pytest.mark.slow), pytest.param(Via.BOTH, marks=pytest.mark.slow)]
)
async def test_each_member_is_sent_jobs_by_its_own_lane(tmp_path: Path, via: Via) -> None:
    settings = replace(BESIDE_A_SERVER, via=via)
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=20, seconds=2.0, settings=settings, webhooks=True) as pool:
        await pool.run()
        assert await with_ids(pool) == {SLOW: {True}, SERVER: {False}}
        assert min((await pool.done_at()).values()) > 3
        assert pool.service.paid == 20
        members = {each.endpoint: each for each in pool.p.engine.report().of(pool.p.run.id).members}
        assert [(each.via, each.window_allowed) for each in members.values()] == [
            (via, 1_000 if via is not Via.SYNC else 2_000),
            (Via.HTTP, 1_000),
        ]
        assert pool.p.session.is_adoptable, "webhooks may tell of what is at the endpoint"


async def test_what_waits_in_a_queue_goes_to_a_server_at_a_url_once_that_is_confirmed(tmp_path: Path) -> None:
    members: dict[str, int | Scaling] = {SLOW: THROTTLED_FOUR, QUICK: 4}
    async with pooled(tmp_path, members, jobs=20, seconds=2.0, settings=BESIDE_A_SERVER) as pool:
        await pool.run()
        assert await pool.done_at() == {SERVER: 20}
        assert pool.service.paid == 20
        assert ["claimed", "accepted", "deferred", "claimed", "completed"] in [
            await pool.p.story(n) for n in range(1, 21)
        ]


@pytest.mark.slow
async def test_what_is_held_at_a_server_stays_there_and_what_it_refuses_goes_elsewhere(tmp_path: Path) -> None:
    async with pooled(
        tmp_path, {SLOW: 4, QUICK: 4}, jobs=14, seconds=10.0, settings=BESIDE_A_SERVER, limits=FOUR_AT_ONCE
    ) as pool:
        await pool.p.begin()
        await anyio.sleep(5)
        pool.dead.add(QUICK)  # what is under way there comes to its end
        await pool.p.finish()
        assert 2 <= (await pool.done_at())[SERVER] <= 4
        assert pool.service.paid == 14
        assert "retried" not in {event for n in range(1, 15) for event in await pool.p.story(n)}


@pytest.mark.slow
async def test_an_answer_that_a_server_lost_is_uncertain_and_the_job_goes_to_any_member(tmp_path: Path) -> None:
    async with pooled(
        tmp_path, {SLOW: 4, QUICK: 4}, jobs=12, seconds=10.0, settings=BESIDE_A_SERVER, limits=FOUR_AT_ONCE
    ) as pool:
        pool.way.cuts_off.add(QUICK)
        await pool.p.begin()
        await anyio.sleep(15)
        pool.way.cuts_off.clear()
        pool.dead.add(QUICK)
        await pool.p.finish()
        assert await pool.done_at() == {SLOW: 12}
        doubted = [n for n in range(1, 13) if "retried uncertain" in await pool.p.story(n)]
        assert pool.service.paid == 12 + len(doubted) > 13, "each of these was executed there as well"


@pytest.mark.parametrize(("broken", "well"), [(SLOW, SERVER), (QUICK, SLOW)])
async def test_another_execution_is_where_none_has_failed_and_no_retry(tmp_path: Path, broken: str, well: str) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=12, seconds=2.0, settings=BESIDE_A_SERVER) as pool:
        pool.service.broken.add(broken)
        await pool.run()
        assert await pool.done_at() == {well: 12}
        assert not [each for each in pool.p.steps if each.after.by_retry]


class Recorder(httpx.AsyncBaseTransport):
    """Notes whose key each host was shown."""

    def __init__(self, way: httpx.AsyncBaseTransport) -> None:
        self._way = way
        self.shown: set[tuple[str, str]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.shown.add((request.url.host, request.headers["authorization"]))
        return await self._way.handle_async_request(request)


async def test_each_member_is_shown_its_own_key_and_no_other(tmp_path: Path) -> None:
    elsewhere = f"https://pod.example/v2/{QUICK}/openai"
    members = (MemberSettings(SLOW), replace(BY_HTTP, endpoint=elsewhere))
    headers = {elsewhere: read_headers({"Authorization": "env:POD_KEY"}, {"POD_KEY": "sk-of-the-pod"})}
    clock = VirtualClock()
    there = SimulatedService(clock, endpoints=(SLOW, QUICK), workers=4)
    way = Recorder(there.transport())
    async with (
        there.serving(),
        process(
            tmp_path / "db", way, clock=clock, jobs=12, settings=RunSettings(members=members), headers=headers
        ) as p,
    ):
        await p.begin()
        await p.finish()
    assert way.shown == {(httpx.URL(URL).host, "Bearer key"), ("pod.example", "Bearer sk-of-the-pod")}


@pytest.mark.slow
async def test_who_ends_leaves_what_is_in_a_queue_and_makes_uncertain_what_a_server_had(tmp_path: Path) -> None:
    clock = VirtualClock()
    there = SimulatedService(clock, endpoints=(SLOW, QUICK), workers=4, seconds=lambda _: 10.0)
    way, path = there.transport(), tmp_path / "db"
    async with there.serving():
        async with process(
            path, way, clock=clock, jobs=12, settings=BESIDE_A_SERVER, limits=FOUR_AT_ONCE, name="pooled"
        ) as p:
            await p.begin()
            await anyio.sleep(5)
            under_way = p.progress.count(State.SUBMITTING.value)
            assert under_way >= 2
        async with process(path, way, clock=clock, limits=FOUR_AT_ONCE, name="pooled") as p:
            recovered = await p.begin()
            assert recovered.uncertain == under_way
            assert recovered.outstanding >= 4
            await p.finish()
            assert len(await p.results()) == 12
        assert there.paid == 12 + under_way


@pytest.mark.slow
@pytest.mark.parametrize("members", [(MemberSettings(SLOW),), ()], ids=["a pool", "one endpoint"])
async def test_what_a_server_had_that_is_no_member_any_more_goes_to_those_that_are(
    tmp_path: Path, members: tuple[MemberSettings, ...]
) -> None:
    clock = VirtualClock()
    there = SimulatedService(clock, endpoints=(SLOW, QUICK), workers=4, seconds=lambda _: 10.0)
    way, path = there.transport(), tmp_path / "db"
    async with there.serving():
        async with process(path, way, clock=clock, jobs=12, settings=BESIDE_A_SERVER, name="pooled") as p:
            await p.begin()
            await anyio.sleep(5)
            under_way = p.progress.count(State.SUBMITTING.value)
            assert under_way >= 2
        settings = RunSettings().with_members(members, BESIDE_A_SERVER)
        assert settings.at(SERVER).via is Via.HTTP
        async with process(path, way, clock=clock, settings=settings, name="pooled") as p:
            await p.begin()
            await p.finish()
            assert len(await p.results()) == 12
            taken = [step.after.endpoint for step in p.steps if step.event is Event.CLAIMED]
            assert taken == [p.run.endpoint_id] * len(taken), "nothing more went to the server"


CHEAP = RunSettings(
    members=(MemberSettings(SLOW, 0.4), replace(BY_HTTP, price_per_second=0.1)),
    prefer=Prefer.CHEAP,
    spill_after_us=600 * MINUTE_US,
)
"""The server at a URL is the cheapest."""


@pytest.mark.slow
@pytest.mark.parametrize(("within_s", "least", "most"), [(400.0, 0, 5), (200.0, 20, 75)])
async def test_the_cheapest_that_makes_its_end_is_one_rule_for_all_lanes(
    tmp_path: Path, within_s: float, least: int, most: int
) -> None:
    clock = VirtualClock()
    settings = replace(CHEAP, finish_by=clock.now() + round(within_s * SECOND_US))
    async with pooled(
        tmp_path, {SLOW: 4, QUICK: 4}, jobs=200, seconds=5.0, settings=settings, clock=clock, limits=FOUR_AT_ONCE
    ) as pool:
        took_s = await pool.run()
        assert took_s < within_s + 10, "the cheapest alone takes 250 s"
        assert least <= (await pool.done_at())[SLOW] <= most
        assert pool.service.paid == 200
