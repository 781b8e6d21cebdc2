"""The time of a ledger on a server: the server's, whatever the machine's wall clock says, and it never goes back."""

from itertools import pairwise

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.clock import JUMP_US_MIN, SystemClock
from orchestrator.errors import StorageError
from orchestrator.ledger.postgres.server_clock import ADJUST_US_MAX, LOOK_S, ServerClock
from orchestrator.units import SECOND_US
from tests.simulation.loop import running_loop
from tests.simulation.run import run

HOUR_US = 3_600 * SECOND_US
SERVER_US = 1_767_225_600 * SECOND_US


class Line:
    """A server that is asked over a line: the times of both ends are moved by the test."""

    def __init__(self) -> None:
        self.elapsed_us = 7 * SECOND_US
        self.server_us = SERVER_US
        self.trips: list[tuple[int, int]] = []
        """How long each question takes to get there, and its answer to come back; after these, nothing."""

        self.clock = ServerClock(self._ask, lambda: self.elapsed_us)

    def pass_(self, us: int) -> None:
        self.elapsed_us += us
        self.server_us += us

    def look(self, *, first: bool = False) -> int:
        """Looks, for the first time or once more; returns by how much the time is ahead of the server's then."""
        drive(self.clock.begin() if first else self.clock.look())
        return self.clock.now() - self.server_us

    async def _ask(self) -> int:
        there_us, back_us = self.trips.pop(0) if self.trips else (0, 0)
        self.pass_(there_us)
        at = self.server_us
        self.pass_(back_us)
        return at


def drive(coroutine: object) -> None:
    """To its end, which waits for nothing."""
    with pytest.raises(StopIteration):
        coroutine.send(None)  # type: ignore[attr-defined]


def test_the_quickest_answer_tells_the_time() -> None:
    line = Line()
    line.trips = [(900_000, 100_000), (2_000, 1_000), (0, 400_000)]
    assert [line.look(first=True), line.look()] == [500, 500]


def test_a_server_that_is_set_forward_is_followed_and_one_that_is_set_back_is_not() -> None:
    line = Line()
    line.look(first=True)
    line.server_us += HOUR_US
    assert line.look() == 0
    line.server_us -= 2 * HOUR_US
    assert line.look() == 2 * HOUR_US
    line.pass_(SECOND_US)
    assert line.look() == 2 * HOUR_US, "and it does not stand still"
    line.server_us += 2 * ADJUST_US_MAX
    assert line.look() == 2 * HOUR_US - ADJUST_US_MAX, "what it is adjusted by is followed by and by"
    assert line.look() == 2 * HOUR_US
    line.server_us += HOUR_US
    assert line.look() == 2 * HOUR_US


def test_a_clock_that_runs_fast_here_is_held_back_a_little_and_never_goes_back() -> None:
    line = Line()
    line.look(first=True)
    times = []
    for _ in range(100):
        line.elapsed_us += 10 * SECOND_US + 4_000
        line.server_us += 10 * SECOND_US
        times.append(line.clock.now())
        assert abs(line.look()) <= 8 * 4_000
    assert all(earlier < later for earlier, later in pairwise(times))


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=7),
    st.integers(-HOUR_US, HOUR_US),
)
def test_it_is_wrong_by_half_of_the_first_trip_at_most(looks: list[tuple[int, int, int]], apart_us: int) -> None:
    line = Line()
    line.elapsed_us += HOUR_US + apart_us
    latest, first_us = 0, sum(looks[0][1:])
    for n, (wait_us, there_us, back_us) in enumerate(looks):
        line.trips = [(there_us, back_us)] * (2 if n == 0 else 1)
        assert abs(line.look(first=n == 0)) <= first_us // 2 + 1
        line.pass_(wait_us)
        assert line.clock.now() >= latest
        latest = line.clock.now()


def test_it_is_asked_again_and_goes_on_while_the_server_is_away() -> None:
    asked: list[float] = []

    async def ask() -> int:
        asked.append(running_loop().time())
        if len(asked) in (4, 5):
            raise StorageError("away")
        return SERVER_US + round(running_loop().time() * SECOND_US)

    async def world() -> None:
        clock = ServerClock(ask, lambda: round(running_loop().time() * SECOND_US))
        await clock.begin()
        assert clock.now() == SERVER_US
        async with anyio.create_task_group() as group:
            group.start_soon(clock.serve)
            await anyio.sleep(5 * LOOK_S + 1)
            assert clock.now() == SERVER_US + round((5 * LOOK_S + 1) * SECOND_US)
            group.cancel_scope.cancel()

    run(world)
    assert asked == [0, 0, *(n * LOOK_S for n in range(1, 6))]


def test_what_has_elapsed_is_no_affair_of_the_wall_clock() -> None:
    wall, elapsed = [SERVER_US * 1000], [5]
    clock = SystemClock(wall_ns=lambda: wall[0], elapsed=lambda: elapsed[0])
    before = clock.elapsed()
    wall[0] += HOUR_US * 1000
    elapsed[0] += 2 * JUMP_US_MIN
    assert clock.elapsed() - before == 2 * JUMP_US_MIN
    system = SystemClock()
    assert system.elapsed() <= system.elapsed()
