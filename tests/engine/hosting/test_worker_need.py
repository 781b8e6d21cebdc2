"""Workers by need: raised and lowered while runs are at work, minutes apart, and put back whatever ends them."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.api.foreground.serve import serve
from orchestrator.client import Service
from orchestrator.client.jobs.refusals import Refusal, RefusedError
from orchestrator.core.gates.scaling_override import Bounds, WorkerRange
from orchestrator.core.planning.worker_steps import STEP_US
from orchestrator.errors import Unanswered
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.engine.hosting.test_worker_scaling import Place, serving
from tests.engine.pods.workplace import nobody_holds
from tests.simulation.run import Crash, run_until_crash

SPAN = WorkerRange(2, 10)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.takes_s = 60
    return found


class Watched:
    """A run whose workers follow what it needs, and how its endpoint's bounds were meanwhile."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.changes: list[tuple[int, int]] = []
        """When the most became how many."""

    async def carry_out(self, jobs: int, minutes: float, **settings: Any) -> int:
        """So many jobs, to be done in so many minutes; returns how many minutes it took."""
        began_at = self.place.clock.now()
        finish_by = began_at + round(minutes * MINUTE_US)
        given = {"workers_max": None, "workers": SPAN, "finish_by": finish_by, **settings}
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            await self.place.carry_out(jobs, **given)
            group.cancel_scope.cancel()
        return round((self.place.clock.now() - began_at) / MINUTE_US)

    async def _watch(self) -> None:
        while True:
            most = self.place.bounds[1]
            if not self.changes or self.changes[-1][1] != most:
                self.changes.append((self.place.clock.now(), most))
            await anyio.sleep(10)

    @property
    def bounds(self) -> list[int]:
        return [most for _, most in self.changes]

    @property
    def gaps_us(self) -> list[int]:
        """Between two changes of ours."""
        times = [at for at, _ in self.changes[1:]]
        return [after - before for before, after in pairwise(times)]


@pytest.fixture
def watched(place: Place) -> Watched:
    return Watched(place)


@pytest.mark.slow
def test_it_begins_in_the_middle_and_has_more_once_it_is_known_that_they_are_needed(watched: Watched) -> None:
    """32 jobs of two minutes and a half, and there are 16 minutes: four workers do 8 in the first five."""
    watched.place.takes_s = 150
    took = watched.place.world(lambda: watched.carry_out(32, 16))
    assert watched.bounds == [3, 4, 10]
    assert took < 16
    assert watched.place.bounds == (0, 3)
    assert min(watched.gaps_us) >= STEP_US
    assert any("finish-by needs 10 workers" in line for line in watched.place.console.lines)


@pytest.mark.slow
def test_it_has_fewer_where_fewer_do(watched: Watched) -> None:
    took = watched.place.world(lambda: watched.carry_out(100, 120))
    assert watched.bounds == [3, 4, 2]
    assert took <= 50
    assert watched.place.bounds == (0, 3)


@pytest.mark.slow
def test_the_next_run_knows_from_its_beginning_what_it_needs(place: Place) -> None:
    async def both() -> Watched:
        await Watched(place).carry_out(8, 60, name="first")
        second = Watched(place)
        await second.carry_out(40, 10)
        return second

    assert place.world(both).bounds == [3, 6]


@pytest.mark.slow
def test_an_hourly_budget_says_how_many(watched: Watched) -> None:
    paying = {"finish_by": 0, "budget_per_hour": 1.8, "price_per_second": 0.0001}
    watched.place.world(lambda: watched.carry_out(60, 0, **paying))
    assert watched.bounds == [3, 5]
    assert any("budget-per-hour pays for 5 workers" in line for line in watched.place.console.lines)


@pytest.mark.slow
def test_beside_a_run_that_did_not_ask_for_it_there_are_not_fewer_than_before(place: Place) -> None:
    """Two would do for the one, and the other has a right to the three that there were."""
    watched = Watched(place)

    async def both() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(serve, serving(place), place.console, place.dependencies, stop)
            await anyio.sleep(1)
            group.start_soon(partial(place.carry_out, 60, name="plain", workers_max=None))
            await anyio.sleep(1)
            await watched.carry_out(30, 120)
            stop.set()

    place.world(both)
    assert set(watched.bounds) == {3, 4}


# --- people, and accounts


@pytest.mark.slow
def test_what_a_person_changes_is_left_alone_and_said_once(watched: Watched) -> None:
    async def meddled() -> None:
        async with anyio.create_task_group() as group:

            async def meddle() -> None:
                await anyio.sleep(90)
                watched.place.change(workers_max=6)

            group.start_soon(meddle)
            await watched.carry_out(100, 14)

    watched.place.world(meddled)
    assert watched.bounds == [3, 4, 6]
    assert watched.place.bounds == (0, 6)
    said = [line for line in watched.place.console.lines if "somebody has made it 0 to 6 workers meanwhile" in line]
    assert len(said) == 2, "once when it was seen, once when it was not put back"


class Account(RunEndpoints):
    """An account that goes wrong from a time on."""

    def __init__(self, service: Service, rest_url: str, goes_wrong: Callable[[str, Bounds], Any]) -> None:
        super().__init__(service, rest_url)
        self._goes_wrong = goes_wrong

    async def set_bounds(self, endpoint: str, bounds: Bounds) -> None:
        if bounds.most > 4:
            await self._goes_wrong(endpoint, bounds)
        await super().set_bounds(endpoint, bounds)


def wrong(place: Place, goes_wrong: Callable[[str, Bounds], Any]) -> None:
    place.more["account"] = lambda service, rest_url: Account(service, rest_url, goes_wrong)


@pytest.mark.slow
def test_an_account_that_refuses_a_step_is_asked_again_after_minutes_and_it_is_said(watched: Watched) -> None:
    asked: list[int] = []

    async def refuse(endpoint: str, _bounds: Bounds) -> None:
        asked.append(watched.place.clock.now())
        raise RefusedError(f"endpoints update {endpoint}", Refusal(status=403, title="Forbidden"))

    wrong(watched.place, refuse)
    watched.place.world(lambda: watched.carry_out(80, 14))
    assert watched.bounds == [3, 4]
    assert watched.place.bounds == (0, 3)
    assert len(asked) > 1
    assert all(after - before >= STEP_US for before, after in pairwise(asked))
    assert any("its workers stay as they are" in line and "403" in line for line in watched.place.console.lines)


@pytest.mark.slow
def test_an_account_that_does_not_answer_holds_nothing_up(watched: Watched) -> None:
    async def hang(_endpoint: str, _bounds: Bounds) -> None:
        await anyio.sleep(HOUR_US / SECOND_US)

    wrong(watched.place, hang)
    took = watched.place.world(lambda: watched.carry_out(80, 14))
    assert took <= 22
    assert watched.place.bounds == (0, 3)
    assert any("has not answered within 30 s" in line for line in watched.place.console.lines)


@pytest.mark.slow
def test_a_step_whose_answer_was_lost_is_taken_as_what_the_account_says_then(watched: Watched) -> None:
    async def lose(endpoint: str, bounds: Bounds) -> None:
        watched.place.emulator.account.endpoints.update(
            endpoint, {"workersMax": bounds.most}, watched.place.clock.now()
        )
        raise Unanswered("the answer was lost")

    wrong(watched.place, lose)
    watched.place.world(lambda: watched.carry_out(80, 14))
    assert watched.bounds == [3, 4, 10]
    assert watched.place.bounds == (0, 3)
    assert not any("somebody" in line for line in watched.place.console.lines)


@pytest.mark.slow
@pytest.mark.parametrize("has_heard", [False, True])
def test_after_a_kill_within_a_step_tidy_puts_back_what_there_was_before(watched: Watched, has_heard: bool) -> None:
    """It was 3, is 4, and was to be more: the account has heard of that, or not."""
    place, crash = watched.place, Crash()
    place.takes_s = 90
    place.more = {"lock": nobody_holds, "intake_lock": nobody_holds}

    async def dies(endpoint: str, bounds: Bounds) -> None:
        if has_heard:
            place.emulator.account.endpoints.update(endpoint, {"workersMax": bounds.most}, place.clock.now())
        crash.pull()
        await anyio.sleep(1)

    wrong(place, dies)
    assert run_until_crash(lambda: place.served(lambda: watched.carry_out(40, 13))) is not None
    assert (place.bounds[1] > 4) is has_heard
    place.emulator._workforce._handlers._running.clear()  # their tasks died with that world: to cancel them would never end
    place.more.clear()
    [found] = place.world(place.tidy)
    assert found.is_put_back
    assert found.outcome == "0 to 3 workers again"
    assert place.bounds == (0, 3)
