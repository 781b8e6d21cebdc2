"""Who has a place on the line, on virtual time."""

import anyio
import pytest

from orchestrator.client.http.transfer_slots import TransferSlot, TransferSlots
from orchestrator.core.limits.transfer_slots import AT_ONCE, SharedLine
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SIZE = 1_000_000


async def test_places_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    places = TransferSlots(VirtualClock())
    taken = [await places.enter(SIZE) for _ in range(AT_ONCE)]
    came: list[int] = []

    async def one(number: int) -> None:
        place = await places.enter(SIZE)
        came.append(number)
        place.leave()

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one, number)
        await anyio.wait_all_tasks_blocked()
        assert (places.waiting, came) == (5, [])
        taken[0].leave()
    assert came == [0, 1, 2, 3, 4]


async def test_a_place_is_left_once_however_often_one_says_so() -> None:
    places = TransferSlots(VirtualClock())
    place = await places.enter(SIZE)
    place.moved(SIZE)
    place.completed()
    place.leave()
    place.leave()
    assert places.line.bodies == 0


@pytest.mark.parametrize("is_given", [False, True])
async def test_whoever_is_cancelled_while_waiting_keeps_no_place(is_given: bool) -> None:
    places = TransferSlots(VirtualClock(), SharedLine(at_once=1))
    place = await places.enter(SIZE)
    came: list[TransferSlot] = []
    scope = anyio.CancelScope()

    async def cancelled() -> None:
        with scope:
            (await places.enter(SIZE)).leave()

    async def other() -> None:
        came.append(await places.enter(SIZE))

    async with anyio.create_task_group() as tasks:
        for each in (cancelled, other):
            tasks.start_soon(each)
            await anyio.wait_all_tasks_blocked()
        if is_given:
            place.leave()  # the place and the cancellation come together
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        place.leave()
    assert len(came) == 1
    assert places.line.bodies == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_nothing_comes_down_the_line_before_there_is_room_for_it_behind(is_cancelled: bool) -> None:
    places, there_is_room = TransferSlots(VirtualClock()), anyio.Event()
    places.room = there_is_room.wait
    came: list[TransferSlot] = []

    async def one() -> None:
        came.append(await places.enter(SIZE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        assert (places.line.bodies, came) == (1, [])
        if is_cancelled:
            tasks.cancel_scope.cancel()
        else:
            there_is_room.set()
    assert (places.line.bodies, len(came)) == ((0, 0) if is_cancelled else (1, 1))


async def test_it_is_clear_when_nobody_waits_any_more() -> None:
    places = TransferSlots(VirtualClock(), SharedLine(at_once=1))
    place = await places.enter(SIZE)
    await places.clear()
    clear_at_s: list[float] = []

    async def clear() -> None:
        await places.clear()
        clear_at_s.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(places.enter, SIZE)
        await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            tasks.start_soon(clear)
        await anyio.sleep(7)
        place.leave()
    assert clear_at_s == [7, 7]
