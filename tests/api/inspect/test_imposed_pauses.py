"""A service that wants to be left alone for longer than it keeps results, and whoever else imposes a pause."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.core.diagnosis.limit_rules import UNWANTED
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Operation
from tests.engine.process import Process, process
from tests.engine.scripted import COMPLETED, GONE, Asked, Reply, Script, Scripted, numbered
from tests.factories import S

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEPT_S = 1_800
"""For so long after a job was sent its result is there, whatever happens."""

HOUR = Reply(429, headers={"retry-after": "3600"})


def kept(script: Script) -> Script:
    """Answers while results are there, and knows nothing of them afterwards."""
    sent: dict[str, float] = {}

    def answer(asked: Asked) -> Reply:
        first_s = sent.setdefault("at", asked.at_s)
        return GONE if asked.at_s > first_s + KEPT_S - 5 else script(asked)

    return answer


def first_refused() -> Script:
    """The first question is answered with the wish for an hour's rest; every other is answered as it should be."""
    seen: list[float] = []

    def answer(asked: Asked) -> Reply:
        seen.append(asked.at_s)
        return HOUR if len(seen) == 1 else COMPLETED

    return kept(answer)


def told(p: Process) -> list[str]:
    return [warning for warning in p.warnings if "results would be gone by then" in warning]


@pytest.mark.slow
async def test_a_wish_for_an_hour_s_rest_loses_no_result(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=first_refused())
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.begin()
        await p.finish()

        assert await p.counts() == {"succeeded": 100}
        asked = transport.times("status")
        assert not [at for at in asked if asked[0] + 1 < at < 1_400], (
            "it was obeyed as long as nothing was lost by that"
        )
        assert max(asked) < KEPT_S - 200, "and after the first answer the others followed at once"
        [warning] = told(p)
        assert "the service wants no question before" in warning


async def test_while_it_lasts_status_says_that_no_question_is_wanted(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=first_refused())
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.begin()
        while p.api.limiter.throttled_until(Operation.STATUS) <= p.clock.now() + 60 * S:  # noqa: ASYNC110  nobody tells of it
            await anyio.sleep(1)
        await p.ledger.runs.heartbeats.beat(p.engine.report())
        [seen] = await runs_now(p.ledger, "process 7")
        assert seen.finding == UNWANTED
        await p.finish()
        await p.ledger.runs.heartbeats.beat(p.engine.report())
        [seen] = await runs_now(p.ledger, "process 7")
        assert seen.finding is None


@pytest.mark.slow
async def test_a_service_that_answers_most_questions_with_that_wish_gets_single_ones(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        return COMPLETED if asked.at_s > KEPT_S - 60 else HOUR

    transport = Scripted(run=numbered(), status=kept(status))
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.begin()
        await p.finish()

        assert await p.counts() == {"succeeded": 100}
        refused = [at for at in transport.times("status") if 60 < at < KEPT_S - 60]
        assert len(refused) < 60


@pytest.mark.slow
async def test_a_rate_limit_header_that_leaves_nothing_for_an_hour_loses_no_result(tmp_path: Path) -> None:
    nothing_left = COMPLETED._replace(headers={"ratelimit": '"hour";r=0;t=3600'})
    transport = Scripted(run=numbered(), status=kept(lambda _: nothing_left))
    async with process(tmp_path / "db", transport, jobs=300) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 300}


@pytest.mark.slow
async def test_a_key_that_is_refused_until_shortly_before_results_are_gone_loses_none(tmp_path: Path) -> None:
    def while_refused(asked: Asked) -> Reply:
        return Reply(401) if asked.at_s < KEPT_S - 100 else COMPLETED

    transport = Scripted(run=numbered(), status=kept(while_refused), health=Reply(401))
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.begin()
        await p.wait(lambda: p.endpoint.health.uncollectable is not None)
        await p.finish()

        assert await p.counts() == {"succeeded": 100}
        assert p.endpoint.health.uncollectable is None
        assert p.endpoint.health.stopped is None
        assert len(told(p)) == 1


async def test_a_job_that_seems_missing_does_not_wait_an_hour_for_the_health(tmp_path: Path) -> None:
    """The endpoint has vanished for a moment; it wants no question of how it is for an hour."""

    def status(asked: Asked) -> Reply:
        return GONE if asked.at_s < 120 else COMPLETED

    transport = Scripted(run=numbered(), status=kept(status), health=HOUR)
    async with process(tmp_path / "db", transport, jobs=10) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 10}
        assert len(transport.of("run")) == 10


async def test_a_cancel_that_is_to_wait_an_hour_does_not_hold_up_the_end_of_a_run(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), cancel=HOUR)
    async with process(tmp_path / "db", transport, jobs=2) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 2)
        for job in (1, 2):
            assert await p.ledger.jobs.cancels.owe([job], CancelWhy.ASKED, now=p.clock.now()) == [job]
            began_s = anyio.current_time()
            await p.canceller.finish()
            assert anyio.current_time() - began_s < 60
        assert len(transport.of("cancel")) == 1
        assert p.api.limiter.throttled_until(Operation.CANCEL) > p.clock.now() + 3_000 * S
