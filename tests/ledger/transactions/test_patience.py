"""How long a process waits for a ledger that cannot be used just now, and what it says of it."""

import math
from collections.abc import Awaitable, Callable

import anyio
import pytest

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.transactions.patience import AWAY_S_MAX, PAUSE_S_MAX, Patience, Trouble
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FIRST = LedgerUnavailableError("first")


def away_until(time_s: float, tried_at: list[float] | None = None) -> Callable[[], Awaitable[str]]:
    """What can be done from then on, and when it was tried."""

    async def act() -> str:
        now = running_loop().time()
        if tried_at is not None:
            tried_at.append(now)
        if now < time_s:
            raise LedgerUnavailableError(f"away at {now}")
        return "done"

    return act


def patience(seconds: float = math.inf) -> tuple[Patience, list[Trouble | None]]:
    told: list[Trouble | None] = []
    one = Patience(VirtualClock(), seconds)
    one.subscribe(told.append)
    return one, told


async def test_without_any_nothing_is_tried_again_and_nobody_is_told() -> None:
    one, told = patience(0.0)
    with pytest.raises(LedgerUnavailableError, match="first"):
        await one.again(FIRST, away_until(0.0))
    assert told == []


async def test_what_a_second_try_mends_is_no_trouble() -> None:
    one, told = patience()
    assert await one.again(FIRST, away_until(0.0)) == "done"
    assert (running_loop().time(), told, one.trouble) == (0.0, [], None)


async def test_it_is_tried_at_growing_pauses_and_told_once_at_the_beginning_and_once_at_the_end() -> None:
    one, told = patience()
    tried_at: list[float] = []
    assert await one.again(FIRST, away_until(60.0, tried_at)) == "done"
    assert tried_at[:6] == [0.0, 0.25, 0.75, 1.75, 3.75, 7.75]
    assert 60.0 <= tried_at[-1] <= 60.0 + PAUSE_S_MAX
    began, ended = told
    assert began is not None
    assert (began.since, str(began.error), ended) == (EPOCH_AT, "away at 0.0", None)


async def test_all_who_wait_share_one_trouble_and_go_on_once_one_of_them_can() -> None:
    one, told = patience()
    done_at: list[float] = []

    async def wait(after_s: float) -> None:
        await anyio.sleep(after_s)
        assert one.trouble is not None
        assert await one.again(FIRST, away_until(30.0)) == "done"
        done_at.append(running_loop().time())

    async with anyio.create_task_group() as tasks:
        for n in range(5):
            tasks.start_soon(wait, 1.0 + n / 7)
        assert await one.again(FIRST, away_until(30.0)) == "done"
    assert len(told) == 2
    assert len(set(done_at)) == 1


async def test_it_has_an_end_for_all_at_once_and_what_comes_later_is_another_trouble() -> None:
    one, told = patience(60.0)
    ended_at: list[float] = []

    async def wait(after_s: float) -> None:
        await anyio.sleep(after_s)
        with pytest.raises(StorageError, match="away at"):
            await one.again(FIRST, away_until(math.inf))
        ended_at.append(running_loop().time())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 0.0)
        tasks.start_soon(wait, 50.0)
    assert ended_at == [60.0, 60.0]
    assert (len(told), one.trouble) == (1, None)  # it is not over, but nobody waits
    assert await one.again(FIRST, away_until(100.0)) == "done"
    assert len(told) == 3


@pytest.mark.parametrize(
    ("away_from_s", "is_known", "waited_s"),
    [(0.0, False, AWAY_S_MAX), (100.0, False, IN_FLIGHT_S_MAX), (100.0, True, AWAY_S_MAX)],
)
async def test_who_leaves_hurries_all_who_wait_and_those_who_come_later(
    away_from_s: float, is_known: bool, waited_s: float
) -> None:
    one, _ = patience()
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await anyio.sleep(100.0)
            one.hurry(is_away=is_known)

        tasks.start_soon(leave)
        await anyio.sleep(away_from_s + 0.01)
        with pytest.raises(LedgerUnavailableError, match="away"):
            await one.again(FIRST, away_until(math.inf))
    assert running_loop().time() == 100.0 + waited_s
    with pytest.raises(LedgerUnavailableError, match="first"):
        await one.again(FIRST, away_until(0.0))


async def test_who_is_cancelled_waits_no_more() -> None:
    one, told = patience()
    with anyio.move_on_after(10.0):
        await one.again(FIRST, away_until(math.inf))
    assert (running_loop().time(), one.trouble, len(told)) == (10.0, None, 1)


async def test_that_it_is_over_is_told_also_where_one_who_still_waits_is_cancelled() -> None:
    """Somebody's line may be the last to come back, and the work be done by then."""
    one, told = patience()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.again, FIRST, away_until(math.inf))
        assert await one.again(FIRST, away_until(30.0)) == "done"
        await anyio.sleep(60.0)
        assert len(told) == 1
        tasks.cancel_scope.cancel()
    assert told[1:] == [None]
