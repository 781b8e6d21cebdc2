"""A service that refuses the key, or to know the endpoint, for a moment or for good."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orchestrator.core.gates.gates import REFUSED
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from tests.engine.process import Process, process, why_blocked
from tests.engine.scripted import COMPLETED, IN_PROGRESS, WELL, Asked, Reply, Scripted, gaps, numbered

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REFUSING_AT_S = 5.0


def told(p: Process) -> list[str]:
    return [warning for warning in p.warnings if "nothing is sent there for now" in warning]


@pytest.mark.parametrize(
    ("operation", "status", "for_s"),
    [
        ("run", 401, 1.2),
        pytest.param("status", 403, 50.0, marks=pytest.mark.slow),
        pytest.param("run", 403, 50.0, marks=pytest.mark.slow),
        pytest.param("status", 401, 1.2, marks=pytest.mark.slow),
    ],
)
async def test_a_refusal_that_does_not_last_a_minute_ends_nothing(
    tmp_path: Path, operation: str, status: int, for_s: float
) -> None:
    def while_refusing(of: str, reply: Reply, asked: Asked) -> Reply:
        is_on = of == operation and REFUSING_AT_S <= asked.at_s < REFUSING_AT_S + for_s
        return Reply(status) if is_on else reply

    def state(asked: Asked) -> Reply:
        return while_refusing("status", COMPLETED if asked.at_s > REFUSING_AT_S + 10 else IN_PROGRESS, asked)

    transport = Scripted(run=lambda asked: while_refusing("run", numbered()(asked), asked), status=state)
    limits = {Operation.RUN: Limit(100, 10)}
    async with process(tmp_path / "db", transport, jobs=100, limits=limits) as p:
        await p.begin()
        await anyio.sleep_until(REFUSING_AT_S + 1)
        assert why_blocked(p.endpoint, p.run.id) == REFUSED
        await p.finish()
        assert p.endpoint.why_stopped(p.run.id) is None
        assert (await p.counts()) == {"succeeded": 100}
        [warning] = told(p)
        assert str(status) in warning
        while_refused = [at for at in transport.times(operation) if REFUSING_AT_S + 1 < at < REFUSING_AT_S + for_s]
        assert len(while_refused) <= 1 + for_s / 3, "single ones"
        sent = [at for at in transport.times("run") if REFUSING_AT_S + 1 < at < REFUSING_AT_S + for_s]
        assert len(sent) <= len(while_refused)
        assert why_blocked(p.endpoint, p.run.id) is None


async def test_a_key_that_is_refused_by_every_operation_is_told_once(tmp_path: Path) -> None:
    def refused_for_a_while(otherwise: Reply) -> Callable[[Asked], Reply]:
        return lambda asked: Reply(401) if REFUSING_AT_S <= asked.at_s < REFUSING_AT_S + 10 else otherwise

    def run(asked: Asked) -> Reply:
        return refused_for_a_while(numbered()(asked))(asked)

    transport = Scripted(run=run, status=refused_for_a_while(COMPLETED))
    limits = {Operation.RUN: Limit(30, 10)}
    async with process(tmp_path / "db", transport, jobs=60, limits=limits) as p:
        await p.begin()
        await p.finish()
        for operation in ("run", "status"):
            assert [at for at in transport.times(operation) if REFUSING_AT_S <= at < REFUSING_AT_S + 10], operation
        assert len(told(p)) == 1


@pytest.mark.parametrize("status", [401, 402, 403, 404])
async def test_after_a_minute_of_refusals_nothing_is_sent_and_what_is_outstanding_is_still_collected(
    tmp_path: Path, status: int
) -> None:
    def run(asked: Asked) -> Reply:
        return numbered()(asked) if len(transport.of("run")) <= 5 else Reply(status)

    transport = Scripted(run=run, status=COMPLETED)
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.begin()
        await p.until(State.SUCCEEDED, 5)
        refused_at_s = transport.times("run")[5]
        await p.wait(lambda: p.endpoint.health.stopped is not None)
        transport.scripts["health"] = Reply(status)  # else single ones would go once that is well
        assert str(status) in (p.endpoint.health.stopped or "")
        assert anyio.current_time() - refused_at_s == pytest.approx(62, abs=3)
        sent = len(transport.of("run"))
        assert sent < 60
        assert min(gaps([at for at in transport.times("run") if at > refused_at_s + 2])) > 0.7, "single ones"
        await anyio.sleep(120)
        assert len(transport.of("run")) == sent
        assert await p.counts() == {"succeeded": 5, "queued": 95}
        assert {tuple(await p.story(n))[:2] for n in range(6, 101)} <= {("claimed", "deferred"), ()}
        assert (await p.job(6)).attempt == 0


async def test_after_a_minute_of_refused_questions_nothing_is_asked_either(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=Reply(401))
    async with process(tmp_path / "db", transport, jobs=10) as p:
        p.endpoint.changes.add(p.progress.nudge)
        await p.begin()
        await p.wait(lambda: p.endpoint.health.uncollectable is not None)
        transport.scripts["health"] = Reply(401)
        assert p.endpoint.health.uncollectable == p.endpoint.health.stopped == "the service refused the API key (401)"
        asked = len(transport.of("status"))
        assert asked < 35
        await anyio.sleep(300)
        assert len(transport.of("status")) == asked
        assert (await p.counts())["outstanding"] == 10
        assert p.api.limiter.figures(Operation.STATUS).in_flight == 0


@pytest.mark.parametrize("status", [401, 404])
async def test_where_nothing_was_ever_accepted_and_the_health_is_refused_too_nobody_waits_a_minute(
    tmp_path: Path, status: int
) -> None:
    transport = Scripted(run=Reply(status), health=Reply(status))
    async with process(tmp_path / "db", transport, jobs=100) as p:
        began_at_s = anyio.current_time()
        await p.begin()
        await p.wait(lambda: p.endpoint.health.stopped is not None)
        assert anyio.current_time() < began_at_s + 2
        await anyio.sleep(1)
        assert len(transport.of("run")) < 50
        assert len(transport.of("health")) == 1
        assert await p.counts() == {"queued": 100}


async def test_where_the_health_is_well_a_first_refusal_may_pass(tmp_path: Path) -> None:
    transport = Scripted(run=lambda asked: Reply(403) if asked.at_s < 3 else numbered()(asked), status=COMPLETED)
    transport.scripts["health"] = WELL
    async with process(tmp_path / "db", transport, jobs=20) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 20}


async def test_jobs_of_an_earlier_process_show_that_the_key_has_worked(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=1) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
    transport = Scripted(status=lambda asked: Reply(401) if asked.at_s < 20 else COMPLETED, health=Reply(401))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 1}
        assert not any("going on" in warning for warning in p.warnings), "it was given up"
