"""What the engine does when it is asked to serve a run that another process has taken in, or to serve it no more."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.escalation_text import parse_rule
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pools.member import MemberSettings
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.commands.command_types import Action, Command, NewEndpoint, ReplyCode
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL
from tests.engine.commands.test_command_inbox import asked
from tests.engine.process import Process, process
from tests.engine.rows import rows
from tests.engine.scripted import Scripted, numbered, says
from tests.ledger.ledgers import brought_to
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

THERE = "https://there.example"
OTHER = "other"


def completing() -> Scripted:
    return Scripted(run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, output=1))


async def taken_in(
    ledger: Ledger, name: str, jobs: int, *, url: str = URL, endpoint: str = ENDPOINT, first: int = 0
) -> int:
    """Rows of a run, as another process takes them in; returns its number."""
    run = await ledger.runs.named(name) or await ledger.runs.create(
        name=name, service_url=url, endpoint=endpoint, source="/x", settings=RunSettings()
    )
    intake = await ledger.runs.intakes.start(run)
    await ledger.runs.intakes.add(intake, packed_rows(rows(first + jobs)[first:]))
    await ledger.runs.intakes.accept(intake)
    return run.id


async def served(p: Process, run: int) -> Command:
    return await asked(p, Action.SERVE, run=run)


async def left(p: Process, run: int) -> int:
    counts = await p.ledger.runs.counts(run)
    return counts.get(State.QUEUED.value, 0)


async def test_a_run_that_came_beside_it_is_sent_with_the_rows_that_come_later(tmp_path: Path) -> None:
    transport = completing()
    async with process(tmp_path / "db", transport, jobs=2) as p:
        await p.begin()
        async with command_ledger(tmp_path / "db", clock=p.clock, connect=async_creator(tmp_path / "db")) as beside:
            run = await taken_in(beside, "two", 5, first=2)
            assert (await served(p, run)).outcome == "it is served"
            session = p.engine.runs.sessions[run]
            await session.progress.until(lambda: session.progress.unfinished == 0)
            assert session.progress.counts["succeeded"] == 5
            await taken_in(beside, "two", 3, first=7)
            assert (await served(p, run)).outcome == "it is served"
            await session.progress.until(lambda: session.progress.unfinished == 0)
            assert session.progress.counts["succeeded"] == 8
        assert len(transport.of("run")) == 10


async def test_a_run_that_is_released_is_sent_no_more_until_somebody_asks_again(tmp_path: Path) -> None:
    transport = completing()
    settings = RunSettings(queue_depth=20)
    transport.scripts["status"] = lambda asked: says("IN_PROGRESS", asked.remote_id)
    async with process(tmp_path / "db", transport, jobs=100, settings=settings) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 20)
        assert (await asked(p, Action.RELEASE)).outcome == "no more of it is sent"
        assert p.session.is_released
        assert p.session.is_over, "whoever waits for it hears of it"
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await anyio.sleep(600)
        sent = len(transport.of("run"))
        assert sent < 100, "what it had sent is collected, and nothing follows"
        assert p.progress.counts["succeeded"] == sent
        assert p.engine.report().runs[p.run.id].is_released
        assert (await served(p, p.run.id)).outcome == "it is served"
        await p.finish()
        assert len(transport.of("run")) == 100


async def test_what_was_asked_of_a_process_that_has_ended_is_not_done_by_the_next_one(tmp_path: Path) -> None:
    transport = completing()
    async with process(tmp_path / "db", transport, jobs=2) as p:
        run = await taken_in(p.ledger, "two", 5)
        number = await p.ledger.commands.ask(Action.SERVE, run=run)
        release = await p.ledger.commands.ask(Action.RELEASE, run=p.run.id)
    await anyio.sleep(1)
    async with process(tmp_path / "db", transport, clock=p.clock) as p:
        await p.begin()
        await p.finish()
        for each in (number, release):
            command = await p.ledger.commands.answer(each)
            assert (command.is_refused, command.code) == (True, ReplyCode.ASKED_ANOTHER)
        assert await left(p, run) == 5, "nobody wants it paid for any more"
        assert p.progress.counts["succeeded"] == 2


async def test_a_run_that_several_take_on_at_once_is_served_once(tmp_path: Path) -> None:
    """People ask for it, what others have committed is looked at, and what was held is tried again, all at once."""
    taken_on: list[RunSession] = []
    async with process(tmp_path / "db", completing()) as p:
        await p.begin()
        [run] = await p.ledger.runs.all([await taken_in(p.ledger, "two", 5)])
        p.settings[run.id] = run.settings

        async def take_on() -> None:
            taken_on.append(await p.engine.host.take_on(run))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(take_on)
        assert taken_on == [p.engine.runs.sessions[run.id]] * 3


@pytest.mark.parametrize(
    "settings",
    [
        RunSettings(members=(MemberSettings(ENDPOINT), MemberSettings(OTHER))),
        RunSettings(escalate=(parse_rule(f"failed: endpoint {OTHER}"),)),
    ],
)
async def test_jobs_are_sent_to_where_they_may_be_though_that_was_known_before(
    tmp_path: Path, settings: RunSettings
) -> None:
    """As after a moment in which another process had that endpoint: the ledger names it, and nothing is sent there."""
    async with process(tmp_path / "db", completing()) as p:
        await p.begin()
        there = await p.ledger.runs.at_endpoint(p.run, OTHER)
        await p.engine.learn()
        assert p.session.part(there.endpoint_id) is None
        await p.engine.host.serve(replace(p.run, settings=settings))
        assert p.session.part(there.endpoint_id) is not None


async def test_a_run_without_a_key_is_held_says_why_and_goes_on_when_there_is_one(tmp_path: Path) -> None:
    transport = completing()
    environ: dict[str, str] = {}
    keys = {THERE: "env:THERE_KEY"}
    async with process(tmp_path / "db", transport, environ=environ, keys=keys) as p:
        await p.begin()
        run = await taken_in(p.ledger, "two", 5, url=THERE)
        told = (await served(p, run)).outcome or ""
        assert told.startswith(f"it is held: the process that works on this ledger has no API key for {THERE}")
        hold = p.engine.report().runs[run].blocked_by
        assert hold is not None
        assert told.endswith(hold.sentence)
        await anyio.sleep(60)
        assert await left(p, run) == 5
        environ["THERE_KEY"] = "sk-there"
        await anyio.sleep(60)
        assert await left(p, run) == 0
        assert p.engine.report().runs[run].blocked_by is None


async def test_a_function_of_another_process_is_held(tmp_path: Path) -> None:
    async with process(tmp_path / "db", completing()) as p:
        await p.begin()
        run = await taken_in(p.ledger, "two", 5, url=LOCAL, endpoint="local:/x/f.py:f")
        assert "is a function that only a process of its own can run" in ((await served(p, run)).outcome or "")


async def test_one_that_is_held_is_cancelled_all_the_same_and_held_no_more(tmp_path: Path) -> None:
    async with process(tmp_path / "db", completing()) as p:
        await p.begin()
        run = await taken_in(p.ledger, "two", 5, url=LOCAL, endpoint="local:/x/f.py:f")
        await served(p, run)
        assert (await asked(p, Action.CANCEL, run=run)).outcome
        await anyio.sleep(60)
        counts = await p.ledger.runs.counts(run)
        assert (counts["cancelled"], counts["queued"]) == (5, 0)
        assert run not in p.engine.runs.unservable


async def test_who_asks_for_what_is_not_there_is_refused(tmp_path: Path) -> None:
    async with process(tmp_path / "db", completing()) as p:
        await p.begin()
        assert (await served(p, 99)).is_refused


async def test_a_run_that_nobody_asked_to_serve_is_cancelled_all_the_same(tmp_path: Path) -> None:
    async with process(tmp_path / "db", completing()) as p:
        await p.begin()
        run = await taken_in(p.ledger, "two", 5)
        assert (await asked(p, Action.CANCEL, run=run)).outcome
        await anyio.sleep(10)
        counts = await p.ledger.runs.counts(run)
        assert (counts["cancelled"], counts["queued"]) == (5, 0)


async def test_nothing_is_said_of_the_runs_that_had_ended_before(tmp_path: Path) -> None:
    async with process(tmp_path / "db", completing(), jobs=1) as p:
        await taken_in(p.ledger, "ended", 1, first=1)
        left = await taken_in(p.ledger, "left", 1, first=2)
        await p.engine.runs.learn_settings()
        await brought_to(p.ledger, State.SUCCEEDED, p.clock.now(), job=2)
        await p.begin()
        assert p.engine.report().runs.keys() == {p.run.id, left}


async def test_a_run_that_cannot_be_served_here_can_be_given_another_endpoint(tmp_path: Path) -> None:
    async with process(tmp_path / "db", completing(), jobs=0) as p:
        await p.begin()
        run = await taken_in(p.ledger, "two", 3, url=LOCAL, endpoint="f.py:caption")
        await served(p, run)
        assert run in p.engine.runs.unservable
        done = await asked(p, Action.REBIND, run=run, argument=NewEndpoint(URL, ENDPOINT))
        assert (done.outcome, done.is_refused) == (f"it is at {ENDPOINT} from now on", False)
        await served(p, run)
        session = p.engine.runs.sessions[run]
        await session.progress.until(lambda: session.progress.unfinished == 0)
