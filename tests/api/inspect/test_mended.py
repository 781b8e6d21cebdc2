"""What stands still until somebody mends it goes on by itself: a key, an endpoint made anew, a variable."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.core.gates.gates import CANCELLED, PAUSED, REFUSED, STOPPED
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.http_answers import Pointless
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.heartbeats import STALE_US
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.process import Process, process, why_blocked
from tests.engine.rows import rows
from tests.engine.scripted import COMPLETED, WELL, Reply, Scripted, gaps, numbered
from tests.ledger.ledgers import obeyed, opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECRET = b'{"accessId":"env:WHO","accessSecret":"env:SECRET","bucketName":"b","endpointUrl":"https://s3"}'
MENDED_AT_S = 400.0


def held_up(p: Process) -> str:
    return why_blocked(p.endpoint, p.run.id) or ""


def sentence(p: Process) -> str | None:
    """What the display says."""
    hold = p.session.blocked_by
    return None if hold is None else hold.sentence


async def shown(p: Process, held_by: str | None) -> str | None:
    """What `status` says of why nothing is sent; `held_by` is who works."""
    [found] = await runs_now(p.ledger, held_by)
    return found.held_up


async def test_status_says_the_sentence_of_the_display_where_somebody_is_at_work_and_has_said_so_of_late(
    tmp_path: Path,
) -> None:
    shut = f"{STOPPED}: the service refused the API key (401)"
    async with process(tmp_path / "db", Scripted(run=numbered(), health=Reply(401)), jobs=3) as p:
        p.endpoint.health.stop_submitting(Pointless("the service refused the API key (401)", 401))
        await p.begin()
        await anyio.sleep(1)
        assert await shown(p, "process 7") == sentence(p) == shut
        assert await shown(p, None) is None, "who has ended says nothing of the present"
        for action, words in ((Action.PAUSE, PAUSED), (Action.CONTINUE, shut), (Action.CANCEL, CANCELLED)):
            await obeyed(p.ledger, action, run=p.run.id)
            assert await shown(p, "process 7") == words, "at once"
            p.control.on_change()
            await anyio.sleep(1)
            assert sentence(p) == words
            assert await shown(p, "process 7") == words
        assert await shown(p, None) == CANCELLED, "that stands in the ledger, whoever works"
        await obeyed(p.ledger, Action.CONTINUE, run=p.run.id)
    async with opened(tmp_path / "db", clock=p.clock) as ledger:
        [found] = await runs_now(ledger, "process 8")
        assert found.held_up == shut
        await anyio.sleep(STALE_US / SECOND_US + 1)
        [found] = await runs_now(ledger, "process 8")
        assert found.held_up is None, "what was said too long ago is not believed"


async def test_a_run_that_goes_on_is_not_said_to_be_paused_any_more(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=3) as p:
        await p.begin()
        await obeyed(p.ledger, Action.PAUSE, run=p.run.id)
        await p.control.follow()
        await p.engine.process.heart.beat()
        assert await shown(p, "process 7") == PAUSED
        await obeyed(p.ledger, Action.CONTINUE, run=p.run.id)
        assert await shown(p, "process 7") is None, "at once, whatever the process at work said last"


async def test_a_stopped_endpoint_is_probed_at_growing_pauses_and_goes_on_once_it_is_well(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=lambda asked: WELL if asked.at_s > MENDED_AT_S else Reply(401))
    transport.scripts["status"] = COMPLETED
    async with process(tmp_path / "db", transport, jobs=100) as p:
        p.endpoint.health.stop_collecting(Pointless("the service refused the API key (401)", 401))
        assert held_up(p) == f"{STOPPED}: the service refused the API key (401)"
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 100}
        asked = [round(asked.at_s) for asked in transport.of("health")]
        assert asked == [30, 90, 210, 450]
        assert transport.times("run")[0] == pytest.approx(asked[-1], abs=1)
        assert (p.endpoint.health.stopped, p.endpoint.health.uncollectable, held_up(p)) == (None, None, "")
        assert [warning for warning in p.warnings if "well again" in warning]


async def test_a_good_health_alone_lets_single_ones_go_and_longer_pauses_follow_where_they_are_refused(
    tmp_path: Path,
) -> None:
    transport = Scripted(run=Reply(403), health=WELL)
    async with process(tmp_path / "db", transport, jobs=50) as p:
        p.endpoint.changes.add(p.progress.nudge)
        await p.begin()
        pauses = []
        for _ in range(4):
            await p.wait(lambda: p.endpoint.health.stopped is not None)
            stopped_at_s = anyio.current_time()
            await p.wait(lambda: p.endpoint.health.stopped is None)
            assert held_up(p) == REFUSED
            pauses.append(round(anyio.current_time() - stopped_at_s))
        assert pauses == [30, 60, 120, 240]
        sent = transport.times("run")
        assert len([gap for gap in gaps(sent) if gap < 0.5]) < 50, "after the first, single ones"
        assert await p.counts() == {"queued": 50}
        for n in range(1, 51):
            story = await p.story(n)
            assert story == (["claimed", "deferred"] * len(story))[: len(story)]


async def test_nobody_probes_an_endpoint_that_is_well(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=WELL)
    async with process(tmp_path / "db", transport, jobs=1) as p:
        await p.begin()
        await anyio.sleep(600)
        assert transport.of("health") == []


ALLOWED = RunSettings(allow_env=("WHO", "SECRET"))


async def test_a_run_that_lacks_a_variable_is_held_alone_and_goes_on_when_it_is_set(tmp_path: Path) -> None:
    environ = {"WHO": "me"}
    transport = Scripted(run=numbered(), status=COMPLETED)
    async with process(
        tmp_path / "db", transport, jobs=rows(30, s3_config=SECRET), environ=environ, settings=ALLOWED
    ) as p:
        p.endpoint.changes.add(p.progress.nudge)
        await p.begin()
        await anyio.sleep(100)
        assert transport.of("run") == []
        assert held_up(p).startswith(f"{STOPPED}: s3Config refers to SECRET, which the environment does not set")
        assert why_blocked(p.endpoint, p.run.id + 1) is None
        assert not p.endpoint.health.submissions.breaker.is_tripped, "the endpoint has nothing to do with it"
        assert p.warnings == []
        assert p.api.limiter.figures(Operation.RUN).in_flight == 0
        stories = [await p.story(n) for n in range(1, 31)]
        assert max(map(len, stories)) <= 2, "nobody claims them again and again"
        environ["SECRET"] = "hush"
        await p.until(State.SUCCEEDED, 30)
        assert anyio.current_time() < 30 + 60 + 120 + 5
        assert [warning for warning in p.warnings if "are set" in warning]
        assert p.endpoint.why_stopped(p.run.id) is None
