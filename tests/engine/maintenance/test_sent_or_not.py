"""A crash in the midst of sending: what had left is in doubt, what had not is not."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, Asked, Reply, Scripted, numbered
from tests.simulation.clock import VirtualClock
from tests.simulation.run import Crash, run_until_crash
from tests.simulation.run import run as run_world

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 20
SENT = 3
"""The process dies as this request reaches the service."""

LIMITS = {Operation.RUN: Limit(100, 1.0, 100)}
KEPT = "the boot in which it crashed"


class World:
    """Processes on one ledger, of which the first ones die while they send."""

    def __init__(self, folder: Path, *, settings: RunSettings | None = None) -> None:
        self.path = folder / "db"
        self.marks = folder / "db.sent"
        self.clock = VirtualClock()
        self.settings = settings
        self._at_s = 0.0

    def crashes(self, *, jobs: int = JOBS, sent: int = SENT) -> int:
        """A process that dies with `sent` requests under way; returns how many jobs were claimed then."""
        crash, left = Crash(), sent

        def run(_: Asked) -> Reply:
            nonlocal left
            left -= 1
            if not left:
                crash.pull()
            return Reply(after_s=1e6)

        async def dies() -> None:
            async with process(
                self.path, Scripted(run=run), clock=self.clock, jobs=jobs, settings=self.settings, limits=LIMITS,
                boot=lambda: KEPT,
            ) as p:  # fmt: skip
                await p.begin()
                await p.finish()

        crashed_at_s = run_until_crash(dies, start_s=self._at_s)
        assert crashed_at_s is not None
        self._at_s = crashed_at_s
        with closing(sqlite3.connect(self.path)) as connection:
            [(claimed,)] = connection.execute("SELECT count(*) FROM jobs WHERE state = 'submitting'")
        return int(claimed)

    def goes_on(self, *, boot: str | None = KEPT) -> tuple[dict[str, int], list[int], int]:
        """The process that ends the run: its counts, the attempts of each job, and the requests that it sent."""
        transport = Scripted(run=numbered(), status=COMPLETED)
        found: tuple[dict[str, int], list[int], int] | None = None

        async def ends() -> None:
            nonlocal found
            async with process(
                self.path, transport, clock=self.clock, settings=self.settings, limits=LIMITS, boot=lambda: boot
            ) as p:
                await p.begin()
                await p.finish()
                ended = sorted([*await p.results(), *await p.failures()], key=lambda job: job.job)
                found = await p.counts(), [job.paid_at_most for job in ended], len(transport.of("run"))

        run_world(ends, start_s=self._at_s)
        assert found is not None
        return found


def test_what_was_claimed_and_never_left_is_queued_again_at_no_cost(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.crashes() > 2 * SENT, "too few were claimed to show anything"

    counts, attempts, sent = world.goes_on()

    assert counts == {"succeeded": JOBS, "uncertain_seen": SENT, "uncertain_resubmitted": SENT}
    assert sorted(attempts) == [1] * (JOBS - SENT) + [2] * SENT
    assert sent == JOBS


@pytest.mark.parametrize(
    ("spoil", "boot"),
    [
        (lambda marks: marks.unlink(), KEPT),
        (lambda marks: marks.write_bytes(marks.read_bytes()[:-8]), KEPT),
        (lambda marks: marks.write_bytes(bytes(len(marks.read_bytes()))), KEPT),
        (lambda _: None, "another boot"),
        (lambda _: None, None),
    ],
    ids=["removed", "torn", "zeroed", "another boot", "the system does not tell its boot"],
)
def test_where_the_marks_cannot_be_believed_everything_claimed_is_uncertain(
    tmp_path: Path, spoil: Callable[[Path], object], boot: str | None
) -> None:
    world = World(tmp_path)
    claimed = world.crashes()
    spoil(world.marks)

    counts, _, sent = world.goes_on(boot=boot)

    assert counts == {"succeeded": JOBS, "uncertain_seen": claimed, "uncertain_resubmitted": claimed}
    assert sent == JOBS, "uncertain ones are sent again, once each"


def test_being_caught_by_our_own_crashes_costs_none_of_the_tries(tmp_path: Path) -> None:
    world = World(tmp_path)
    crashes = 6
    for _ in range(crashes):
        world.crashes(jobs=1, sent=1)

    counts, attempts, _ = world.goes_on()

    assert counts == {"succeeded": 1, "uncertain_seen": crashes, "uncertain_resubmitted": crashes}
    assert attempts == [crashes + 1]


def test_where_nothing_uncertain_may_be_sent_again_what_a_crash_caught_under_way_fails_and_nothing_else(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, settings=RunSettings(on_uncertain=OnUncertain.FAIL))
    world.crashes()

    counts, _, sent = world.goes_on()

    assert counts == {"succeeded": JOBS - SENT, "failed": SENT, "uncertain_seen": SENT}
    assert sent == JOBS - SENT


async def test_an_interruption_of_ours_costs_no_try_and_the_services_silence_costs_one(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=Reply(after_s=1e6))) as p:
        await p.start("dispatcher")
        await anyio.sleep(1)
        p.in_flight.cancel_scope.cancel()
    async with process(tmp_path / "db", Scripted(run=CUT), clock=p.clock) as p:
        assert ((await p.job()).state, (await p.job()).uncertain) == ("uncertain", 0)
        await p.begin()
        await p.until_event(lambda step: step.after.uncertain == 1)
