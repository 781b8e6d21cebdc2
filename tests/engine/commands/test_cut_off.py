"""What goes through many jobs, killed after each of its commits: the next process goes on to the end, each job once."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.commands.cancel_jobs import cancel_chosen
from orchestrator.engine.commands.retry_jobs import retry_chosen
from orchestrator.ledger.commands.command_types import Action, CancelledJobs
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import audited
from tests.engine.commands.test_command_inbox import counts
from tests.engine.process import Process, process
from tests.engine.scripted import FAILED, IN_PROGRESS, Asked, Reply, Scripted, numbered, says
from tests.simulation.clock import VirtualClock
from tests.simulation.run import Crash, run, run_until_crash

PAGE = 2
JOBS = 7
OF_THEM = "line<=6"
END_S = 600.0
"""Later than a life that nobody kills."""

COMMITS_MIN = 4
"""One for each page, and one to acknowledge it."""


class AfterCommit:
    """Kills the world after its so manieth commit from `arm` on."""

    def __init__(self) -> None:
        self._left = 0
        self._crash = Crash()

    def arm(self, number: int) -> None:
        self._left = number

    def committing(self) -> bool:
        return True

    def committed(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._crash.pull()


class World:
    """A service, and processes on one ledger, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.path, self.clock = folder / "db", VirtualClock()
        self.transport = Scripted(run=numbered(), status=IN_PROGRESS)

    async def life(
        self,
        commits: AfterCommit,
        begin: Callable[[Process], Awaitable[None]],
        end: Callable[[Process], Awaitable[object]],
    ) -> None:
        settings = RunSettings(max_attempts=1, queue_depth=3)
        async with process(
            self.path, self.transport, clock=self.clock, jobs=JOBS, settings=settings, commits=commits
        ) as p:
            p.engine.commands.register(Action.RETRY, partial(retry_chosen, p.ledger, there=p.run, page=PAGE))
            p.engine.commands.register(
                Action.CANCEL_JOBS, partial(cancel_chosen, p.ledger, p.canceller.wake, page=PAGE)
            )
            await p.begin()
            await begin(p)
            await end(p)


async def nothing(_: Process) -> None: ...


def killed_after_each_commit(
    folder: Path,
    asks: Callable[[World, Callable[[], None], Process], Awaitable[None]],
    end: Callable[[World, Process], Awaitable[None]],
) -> None:
    """`asks` says when it begins to matter: until it is acknowledged. `end` waits for the end of the run, and checks."""
    for number in count(1):
        (folder / str(number)).mkdir()
        world, commits = World(folder / str(number)), AfterCommit()
        begin = partial(asks, world, partial(commits.arm, number))
        crashed_at_s = run_until_crash(partial(world.life, commits, begin, acknowledged))
        run(partial(world.life, AfterCommit(), nothing, partial(end, world)), start_s=crashed_at_s or END_S)
        if crashed_at_s is None:
            assert number > COMMITS_MIN
            return


async def acknowledged(p: Process) -> str | None:
    """What the command came to, which has changed six jobs whoever carried it out."""
    p.engine.commands.on_change()
    command = await p.ledger.commands.answer(1, within_s=60.0)
    assert (command.done_at is not None, command.progress, command.is_refused) == (True, 6, False)
    return command.outcome


async def happened(p: Process, event: str) -> Counter[int]:
    return Counter({n: sum(each.event == event for each in await p.events(n)) for n in range(1, JOBS + 1)})


@pytest.mark.slow
def test_jobs_cancel_goes_on_after_a_crash_and_cancels_each_job_once(tmp_path: Path) -> None:
    async def asks(world: World, matters: Callable[[], None], p: Process) -> None:
        def status(asked: Asked) -> Reply:
            is_cancelled = asked.remote_id in {each.remote_id for each in world.transport.of("cancel")}
            return says("CANCELLED", asked.remote_id) if is_cancelled else IN_PROGRESS

        world.transport.scripts["status"] = status
        await p.until(State.OUTSTANDING, 3)
        matters()
        await p.ledger.commands.ask(Action.CANCEL_JOBS, run=p.run.id, argument=CancelledJobs(OF_THEM))

    async def end(world: World, p: Process) -> None:
        assert (await acknowledged(p) or "").startswith("6 jobs are being cancelled")
        await p.wait(lambda: p.progress.count("cancelled") == 6)
        world.transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await p.finish()
        assert await counts(p, p.run.id) == {"succeeded": 1, "cancelled": 6}
        assert await happened(p, "cancelled") == {n: int(n <= 6) for n in range(1, JOBS + 1)}
        assert {each.remote_id for each in world.transport.of("cancel")} == {"r-1", "r-2", "r-3"}
        assert await audited(p.ledger) == []

    killed_after_each_commit(tmp_path, asks, end)


@pytest.mark.slow
def test_a_retry_goes_on_after_a_crash_and_reopens_each_job_once(tmp_path: Path) -> None:
    async def asks(world: World, matters: Callable[[], None], p: Process) -> None:
        world.transport.scripts["status"] = FAILED
        await p.finish()
        world.transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        matters()
        await p.ledger.commands.ask(Action.RETRY, run=p.run.id, argument=RetryChoice(where=OF_THEM))

    async def end(_: World, p: Process) -> None:
        assert (await acknowledged(p) or "").startswith("6 ")
        await p.finish()
        assert await counts(p, p.run.id) == {"succeeded": 6, "failed": 1}
        assert await happened(p, "reopened") == {n: int(n <= 6) for n in range(1, JOBS + 1)}
        assert await audited(p.ledger) == []

    killed_after_each_commit(tmp_path, asks, end)
