"""A member that is not well gets nothing more, and what waits there goes elsewhere: never twice, unless it is uncertain."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.pools.member_health import FAILING, THROTTLED, UNREACHABLE, MemberState
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.engine.pools.pooled import QUICK, SLOW, Pooled, pooled
from tests.ledger.statements import statements

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

THROTTLED_FOUR = Scaling(workers_min=4, workers_max=4, machines=0)
"""Four workers are wanted, and there is a machine for none."""


def state_of(pool: Pooled, name: str) -> tuple[MemberState, str | None]:
    [found] = [each.health for each in pool.members if each.endpoint.api.url.endswith(f"/{name}")]
    return found.state, found.why


@pytest.mark.slow
async def test_nothing_is_left_at_a_member_whose_workers_are_throttled(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: THROTTLED_FOUR, QUICK: 8}, jobs=80, seconds=2.0) as pool:
        took_s = await pool.run()
        assert state_of(pool, SLOW) == (MemberState.UNWELL, THROTTLED)
        assert await pool.done_at() == {QUICK: 80}
        assert pool.service.paid == 80
        assert took_s < 1.2 * 80 * 2.0 / 8


@pytest.mark.slow
async def test_a_member_where_everything_fails_at_once_gets_few_of_the_rows(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=24, seconds=5.0) as pool:
        pool.service.broken.add(SLOW)
        await pool.run()
        assert state_of(pool, SLOW) == (MemberState.UNWELL, FAILING)
        assert len(await pool.p.results()) == 24
        assert await pool.done_at() == {QUICK: 24}
        assert pool.service.paid - 24 < 16, "which were there before one had failed"


async def test_what_fails_in_one_run_keeps_no_member_from_another(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=8, settings=RunSettings(max_attempts=1)) as pool:
        pool.service.broken.update((SLOW, QUICK))
        await pool.run()
        run = pool.p.run.id
        pool.p.settings[run + 1] = pool.p.settings[run]
        found = [(each.facts(run).failed_last, each.facts(run + 1).failed_last) for each in pool.members]
        assert found == [(4, 0), (4, 0)]


async def test_what_is_due_later_for_one_member_alone_is_not_looked_for_all_the_time(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=60, seconds=5.0) as pool:
        pool.service.broken.add(SLOW)
        with statements() as asked:
            await pool.p.begin()
            await anyio.sleep(4)
        assert len(asked) < 1_000, "thousands, if it were"


@pytest.mark.slow
async def test_a_member_whose_executions_failed_is_tried_by_single_ones_until_one_succeeds(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 2}, jobs=30, seconds=10.0) as pool:
        pool.service.broken.add(SLOW)
        await pool.p.begin()
        await pool.p.wait(lambda: state_of(pool, SLOW)[0] is MemberState.UNWELL)
        await anyio.sleep(40)
        assert state_of(pool, SLOW) == (MemberState.UNWELL, FAILING), "it was tried, and failed again"
        pool.service.broken.clear()
        await anyio.sleep(80)
        assert state_of(pool, SLOW) == (MemberState.WELL, None)
        await pool.p.finish()
        assert len(await pool.p.results()) == 30
        assert (await pool.done_at())[SLOW] > 0


@pytest.mark.slow
async def test_what_waits_is_moved_once_the_workers_go_and_what_runs_stays(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=60, seconds=10.0) as pool:
        await pool.p.begin()
        await pool.p.wait(lambda: pool.p.progress.count(State.SUCCEEDED.value) >= 6)
        running = {job.id for job in pool.service.world.table.by_id.values() if job.endpoint == SLOW and job.started_at}
        pool.service.scale(SLOW, THROTTLED_FOUR)
        await pool.p.finish()
        assert pool.service.paid == 60, "what was moved had not begun"
        assert [n for n in range(1, 61) if await pool.sent_to(n) == [SLOW, QUICK]], "some waited there"
        assert len(await pool.p.results()) == 60
        assert (await pool.done_at())[SLOW] == len(running)


async def test_what_is_moved_waits_in_the_line_of_the_pool(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 2, QUICK: 4}, jobs=24, seconds=10.0) as pool:
        await pool.p.begin()
        await anyio.sleep(5)
        pool.service.scale(QUICK, THROTTLED_FOUR)
        step = await pool.p.until_event(lambda step: step.reason is ReasonCode.MOVED)
        assert pool.p.endpoints[step.before.endpoint].api.url.endswith(f"/{QUICK}")
        assert step.after.endpoint == pool.p.run.endpoint_id
        assert (step.after.attempt, step.after.due_at) == (0, step.at)


@pytest.mark.slow
async def test_what_begins_before_its_cancelling_is_confirmed_stays(tmp_path: Path) -> None:
    limits = {**CONTRACT_LIMITS, Operation.CANCEL: Limit(requests=1, window_s=10)}
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=40, seconds=10.0, limits=limits) as pool:
        await pool.p.begin()
        await anyio.sleep(5)
        pool.service.scale(SLOW, THROTTLED_FOUR)
        await anyio.sleep(20)
        assert state_of(pool, SLOW) == (MemberState.UNWELL, THROTTLED)
        pool.service.scale(SLOW, fixed(4))
        await pool.p.finish()
        assert pool.service.paid == 40
        moved = [n for n in range(1, 41) if len(await pool.sent_to(n)) > 1]
        assert 0 < len(moved) < 4, "those whose /cancel there was time for"
        assert (await pool.done_at())[SLOW] > 4


@pytest.mark.slow
async def test_what_was_cancelled_without_an_answer_is_sent_anew(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 2, QUICK: 2}, jobs=16, seconds=10.0) as pool:
        await pool.p.begin()
        await anyio.sleep(5)
        pool.way.loses_cancels = True
        pool.service.scale(SLOW, THROTTLED_FOUR)
        await pool.p.finish()
        assert [n for n in range(1, 17) if await pool.sent_to(n) == [SLOW, QUICK]]
        assert (pool.service.paid, len(await pool.p.results())) == (16, 16)


async def test_what_begins_as_it_is_cancelled_counts_as_an_execution(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=24, seconds=10.0) as pool:

        async def begins() -> None:
            pool.service.scale(SLOW, fixed(4))
            await anyio.sleep(0.5)

        await pool.p.begin()
        await anyio.sleep(5)
        pool.way.before_cancel = begins
        pool.service.scale(SLOW, THROTTLED_FOUR)
        await pool.p.finish()
        again = [n for n in range(1, 25) if "retried cancelled" in await pool.p.story(n)]
        assert again
        assert [(await pool.p.job(n)).attempt for n in again] == [2] * len(again)
        assert pool.service.paid == 24 + len(again)


@pytest.mark.slow
async def test_a_member_is_tried_once_its_workers_are_back(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: THROTTLED_FOUR, QUICK: 2}, jobs=60, seconds=5.0) as pool:
        await pool.p.begin()
        await anyio.sleep(20)
        assert state_of(pool, SLOW)[0] is MemberState.UNWELL
        pool.service.scale(SLOW, fixed(4))
        await pool.p.finish()
        assert state_of(pool, SLOW) == (MemberState.WELL, None)
        assert pool.service.paid == 60
        assert (await pool.done_at())[SLOW] > 10


@pytest.mark.slow
async def test_what_was_to_be_moved_and_stayed_is_moved_when_its_member_is_unwell_again(tmp_path: Path) -> None:
    limits = {**CONTRACT_LIMITS, Operation.CANCEL: Limit(requests=1, window_s=300)}
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=16, seconds=100.0, limits=limits) as pool:
        await pool.p.begin()
        await anyio.sleep(10)
        pool.dead.add(SLOW)
        await anyio.sleep(40)
        assert state_of(pool, SLOW) == (MemberState.UNWELL, UNREACHABLE)
        pool.dead.clear()
        pool.service.scale(SLOW, THROTTLED_FOUR)  # of which is heard once those at work have ended what they do
        await anyio.sleep(40)
        assert state_of(pool, SLOW)[0] is MemberState.TRIED
        with anyio.fail_after(7_200):
            await pool.p.finish()
        assert pool.service.paid == 16
        moved = [n for n in range(1, 17) if await pool.sent_to(n) == [SLOW, QUICK]]
        assert len(moved) > 1, "more than the one whose /cancel there was time for at first"


@pytest.mark.slow
async def test_what_is_at_a_member_that_died_is_uncertain_there_after_a_while(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=100, seconds=10.0) as pool:
        await pool.p.begin()
        await pool.p.wait(lambda: pool.p.progress.count(State.SUCCEEDED.value) >= 16)
        outstanding = len(pool.p.endpoint.outstanding)
        pool.dead.add(SLOW)
        began_at, left = pool.p.clock.now(), pool.p.progress.unfinished
        await pool.p.finish()
        assert state_of(pool, SLOW) == (MemberState.UNWELL, UNREACHABLE)
        counts = await pool.p.counts()
        assert (counts["succeeded"], counts["uncertain_resubmitted"]) == (100, outstanding)
        took_s = (pool.p.clock.now() - began_at) / 1_000_000
        assert took_s < 1.2 * left * 10.0 / 4
        debts = await pool.p.ledger.jobs.cancels.due(now=pool.p.clock.now() + 10**9, after=(0, 0), most=1_000)
        assert len(debts) == outstanding, "what is there is cancelled once it can be"


@pytest.mark.slow
async def test_whoever_holds_what_is_uncertain_waits_for_a_member_that_died(tmp_path: Path) -> None:
    settings = RunSettings(on_uncertain=OnUncertain.HOLD)
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=40, seconds=10.0, settings=settings) as pool:
        await pool.p.begin()
        await pool.p.wait(lambda: pool.p.progress.count(State.SUCCEEDED.value) >= 8)
        pool.dead.add(SLOW)
        await anyio.sleep(600)
        assert pool.p.progress.unfinished == len(pool.p.endpoint.outstanding) > 0
        pool.dead.clear()
        await pool.p.finish()
        assert pool.service.paid == 40


@pytest.mark.slow
async def test_no_member_that_is_well_means_that_nothing_is_moved(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=40, seconds=10.0) as pool:
        await pool.p.begin()
        await pool.p.wait(lambda: pool.p.progress.count(State.SUCCEEDED.value) >= 8)
        pool.dead |= {SLOW, QUICK}
        await anyio.sleep(300)
        pool.dead.clear()
        await pool.p.finish()
        assert pool.service.paid == 40
        assert "uncertain_resubmitted" not in await pool.p.counts()


async def test_where_no_files_can_be_made_of_outputs_no_member_is_sent_more(tmp_path: Path) -> None:
    (tmp_path / "out").touch()  # where a folder would be
    rules = SAVE.value_type.read([f"output.n={tmp_path}/out/{{custom_id}}.bin"])
    settings = RunSettings(save=rules, queue_depth=1)

    def work(raw_input: bytes, _number: int) -> WorkerResult:
        return WorkerResult(output=b'{"n":"YQ=="}' if raw_input else None)

    async with pooled(tmp_path, {SLOW: 1, QUICK: 1}, jobs=40, seconds=5.0, settings=settings, work=work) as pool:
        await pool.p.begin()
        await pool.p.until(State.SUCCEEDED)
        found = [part.endpoint.why_stopped(pool.p.run.id) or "" for part in pool.p.session.parts]
        assert len(found) == 2
        assert all("File exists: outputs are kept whole in the ledger" in each for each in found)
        await anyio.sleep(60)
        assert pool.p.session.is_over, "though both of them have jobs that were not sent"
