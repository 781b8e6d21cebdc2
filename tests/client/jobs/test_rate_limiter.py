"""Waiting for the limits, on virtual time."""

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus

from orchestrator.client.jobs.rate_limiter import Permit, RateLimiter
from orchestrator.core.limits.rate_pacer import CATCH_UP_SHARE, CONTRACT_LIMITS, EVEN_SHARE, Limit, Operation
from orchestrator.core.limits.service_pauses import BACKOFF_US_MIN, REFUSED_IN_ROW
from orchestrator.core.service.http_answers import Answer
from orchestrator.units import SECOND_US
from tests.simulation.clock import EPOCH_AT as START
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

RUN = Operation.RUN


class StoppedClock:
    def now(self) -> int:
        return START


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


def throttle_of(limit: Limit) -> RateLimiter:
    return RateLimiter(VirtualClock(), {RUN: limit}, pacing="window")


def answered(
    permit: Permit, status: int = 200, retry_after_s: float | None = None, rate_limit: str | None = None
) -> None:
    now = VirtualClock().now()
    headers = {} if rate_limit is None else {"ratelimit": rate_limit}
    permit.answered(
        Answer(status=status, body=b"", sent_at=now, answered_at=now, retry_after_s=retry_after_s, headers=headers)
    )


def answer(
    permit: Permit, status: int = 200, retry_after_s: float | None = None, rate_limit: str | None = None
) -> None:
    permit.use(permit.operation)
    answered(permit, status, retry_after_s, rate_limit)


def take_without_waiting(limiter: RateLimiter) -> Permit:
    """Drives `permit` by hand: if it awaited anything at all, there would be no result yet."""
    call = limiter.permit(RUN)
    with pytest.raises(StopIteration) as stop:
        call.send(None)
    permit: Permit = stop.value.value
    return permit


async def test_at_very_high_limits_no_turn_ever_waits() -> None:
    limiter = RateLimiter(StoppedClock(), {RUN: Limit(1_000_000, 10)})
    for _ in range(2_000):
        take_without_waiting(limiter)


@pytest.mark.parametrize(("limit", "tick_us"), [(Limit(1000, 10), 10_000), (Limit(1000, 1), 1_000)], ids=str)
async def test_turns_come_at_ticks_in_the_order_in_which_they_were_asked_for(limit: Limit, tick_us: int) -> None:
    limiter = RateLimiter(VirtualClock(), {RUN: limit})
    clock = VirtualClock()
    came: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        answer(await limiter.permit(RUN))
        came.append((number, clock.now() - START))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    assert [number for number, _ in came] == list(range(50))
    assert all(at % tick_us == 0 for _, at in came), "the same ones for all endpoints"
    allowed = (
        49 * limit.window_s * SECOND_US / limit.requests / EVEN_SHARE - limit.window_s * SECOND_US * CATCH_UP_SHARE
    )
    assert allowed <= came[-1][1] <= allowed + tick_us + 1_000, "what a tick costs is caught up"


async def test_the_allowance_is_used_although_timers_are_rounded_up() -> None:
    limiter = RateLimiter(VirtualClock())
    sent = 0

    async def worker() -> None:
        nonlocal sent
        while True:
            permit = await limiter.permit(RUN)
            sent += 1
            await anyio.sleep(0.1)
            answer(permit)

    with anyio.move_on_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(25):
                tasks.start_soon(worker)
    assert sent >= 2_000 * (10 / 10.1 - 0.005)
    assert limiter.figures(RUN).sent == sent


async def test_a_place_is_taken_the_moment_an_answer_makes_it_free() -> None:
    limiter = throttle_of(Limit(100, 10, 1))
    clock = VirtualClock()
    first = await limiter.permit(RUN)
    came: list[int] = []

    async def second() -> None:
        await limiter.permit(RUN)
        came.append(clock.now() - START)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        await anyio.sleep(3.1234)
        assert came == []
        answer(first)
    assert came == [3_123_400]


async def test_a_slot_is_taken_the_moment_its_window_is_over() -> None:
    limiter = throttle_of(Limit(1, 10))
    answer(await limiter.permit(RUN))
    await limiter.permit(RUN)
    assert VirtualClock().now() == START + 10 * SECOND_US


async def test_a_request_given_up_on_keeps_its_place_and_one_that_never_left_does_not() -> None:
    limiter = throttle_of(Limit(100, 10, 1))
    permit = await limiter.permit(RUN)
    permit.use(RUN)
    permit.not_sent()
    permit = take_without_waiting(limiter)
    permit.use(RUN)
    permit.given_up(VirtualClock().now())
    await limiter.permit(RUN)
    assert VirtualClock().now() == START + 10 * SECOND_US


async def test_nothing_leaves_before_retry_after() -> None:
    limiter = throttle_of(Limit(100, 10))
    answer(await limiter.permit(RUN), 429, 7.5)
    await limiter.permit(RUN)
    assert VirtualClock().now() == START + 7_500_000
    assert limiter.figures(RUN).throttled == 1


@pytest.mark.parametrize(
    ("told", "waits_s"),
    [
        ('"minute";r=0;t=7', 7),
        ('"minute";r=1;t=7', 0),
        ('"minute";r=9;t=7, "day";r=0;t=30', 30),
        ('"day";r=0;t=86400', 3600),
        ("no list at all;;", 0),
        ('"minute";r=0', 0),
    ],
)
async def test_a_rate_limit_header_that_leaves_nothing_is_obeyed(told: str, waits_s: int) -> None:
    limiter = throttle_of(Limit(100, 10))
    answer(await limiter.permit(RUN), rate_limit=told)
    await limiter.permit(RUN)
    waited_us = VirtualClock().now() - START
    assert waited_us == pytest.approx(waits_s * SECOND_US, abs=1)


async def test_requests_in_flight_count_against_what_a_rate_limit_header_leaves() -> None:
    limiter = throttle_of(Limit(100, 10))
    turns = [await limiter.permit(RUN) for _ in range(3)]
    answer(turns[0], rate_limit='"minute";r=2;t=5')
    assert limiter.available(RUN, 4 * SECOND_US) == 0
    assert limiter.available(RUN, 5 * SECOND_US) > 0


async def test_a_full_queue_is_asked_by_one_request_at_a_time() -> None:
    limiter = throttle_of(Limit(100, 10))
    clock = VirtualClock()
    for _ in range(REFUSED_IN_ROW):
        answer(await limiter.permit(RUN), 429)
    probe = await limiter.permit(RUN)
    assert clock.now() >= START + BACKOFF_US_MIN
    assert limiter.available(RUN, SECOND_US) == 0
    came: list[int] = []
    began = clock.now()

    async def next_one() -> None:
        answer(await limiter.permit(RUN))
        came.append(clock.now() - began)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(next_one)
        tasks.start_soon(next_one)
        await anyio.sleep(4)
        assert came == []
        answer(probe)
    assert came == [4 * SECOND_US, pytest.approx(4 * SECOND_US, rel=0.05)], "the queue takes again: all go"


async def test_after_a_restart_even_a_bursting_pacing_is_even_for_a_window() -> None:
    limiter = throttle_of(Limit(100, 10))
    limiter.ease_in(RUN)
    assert limiter.available(RUN, 0) <= 2
    assert 40 < limiter.available(RUN, 5 * SECOND_US) < 60
    await anyio.sleep(10)
    assert limiter.available(RUN, 0) == 100


@pytest.mark.parametrize("cancelled", [0, 1, 2], ids=["the first", "one between", "the last"])
@pytest.mark.parametrize("limit", [Limit(1000, 0.1, 1), Limit(1, 10), Limit(1, 0.02)], ids=["answer", "slot", "tick"])
async def test_a_cancelled_waiter_takes_nothing_along(cancelled: int, limit: Limit) -> None:
    limiter = throttle_of(limit)
    first = await limiter.permit(RUN)
    came: list[int] = []
    scopes: list[anyio.CancelScope] = []

    async def wait(number: int, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            permit = await limiter.permit(RUN)
            came.append(number)
            answer(permit)

    async with anyio.create_task_group() as tasks:
        if limit.concurrent is None:
            answer(first)
        for number in range(3):
            scopes.append(await tasks.start(wait, number))
            await settle()
        scopes[cancelled].cancel()
        await settle()
        if limit.concurrent is not None:
            answer(first)
    assert came == [number for number in range(3) if number != cancelled]
    figures = limiter.figures(RUN)
    assert (figures.sent, figures.in_flight) == (3, 0)


async def test_a_waiter_cancelled_when_its_slot_has_just_become_free_leaves_it_to_the_next() -> None:
    limiter = throttle_of(Limit(100, 10, 1))
    first = await limiter.permit(RUN)
    came: list[str] = []

    async def wait(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            answer(await limiter.permit(RUN))
            came.append(name)

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "cancelled", scope)
        await settle()
        tasks.start_soon(wait, "next", anyio.CancelScope())
        await settle()
        answer(first)
        scope.cancel()
    assert "next" in came
    assert limiter.figures(RUN).in_flight == 0


@pytest.mark.parametrize("limit", [Limit(100, 10, 1), Limit(1, 10)], ids=["answer", "slot"])
async def test_who_can_wait_for_so_long_only_takes_nothing_and_leaves_the_line_to_the_others(limit: Limit) -> None:
    limiter = throttle_of(limit)
    first = await limiter.permit(RUN)
    if limit.concurrent is None:
        answer(first)
    came: list[tuple[str, bool, int]] = []

    async def wait(name: str, seconds: float) -> None:
        permit = await limiter.permit_within(RUN, seconds)
        came.append((name, permit is not None, VirtualClock().now() - START))

    async with anyio.create_task_group() as tasks:
        for name, seconds in (("the first", 2.0), ("behind it", 1.0), ("patient", 3600.0)):
            tasks.start_soon(wait, name, seconds)
        await anyio.sleep(5)
        if limit.concurrent is not None:
            answer(first)
    assert came[:2] == [("behind it", False, SECOND_US), ("the first", False, 2 * SECOND_US)]
    assert came[2] == ("patient", True, (5 if limit.concurrent else 10) * SECOND_US)
    assert limiter.figures(RUN).sent == 2


async def test_a_raised_limit_lets_the_waiting_go_at_once() -> None:
    limiter = throttle_of(Limit(1, 1000))
    answer(await limiter.permit(RUN))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limiter.permit, RUN)
        tasks.start_soon(limiter.permit, RUN)
        await settle()
        limiter.change(RUN, Limit(3, 1000))
    assert VirtualClock().now() == START
    assert limiter.limit(RUN) == Limit(3, 1000)


async def test_a_longer_window_begins_evenly_since_nobody_remembers_what_it_holds() -> None:
    limiter = throttle_of(Limit(100, 10))
    limiter.change(RUN, Limit(600, 60))
    assert limiter.available(RUN, 0) <= 2
    await anyio.sleep(60)
    assert limiter.available(RUN, 0) == 600


async def test_who_waits_in_line_is_counted_off_the_room() -> None:
    limiter = throttle_of(Limit(3, 10))
    assert limiter.available(RUN, 0) == 3
    turns = [await limiter.permit(RUN) for _ in range(3)]
    assert limiter.available(RUN, 0) == 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limiter.permit, RUN)
        await settle()
        assert limiter.available(RUN, 20 * SECOND_US) == 0
        for permit in turns:
            permit.give_back()
            await settle()
        assert limiter.available(RUN, 0) == 2


async def test_what_an_earlier_process_sent_holds_slots() -> None:
    limiter = throttle_of(Limit(2, 10))
    limiter.hold(RUN, [START - SECOND_US, START - 2 * SECOND_US])
    await limiter.permit(RUN)
    assert VirtualClock().now() == START + 8 * SECOND_US


async def test_a_turn_serves_one_request_of_its_own_operation() -> None:
    limiter = RateLimiter(VirtualClock())
    permit = await limiter.permit(RUN)
    with pytest.raises(RuntimeError, match="a turn for run was handed to status"):
        permit.use(Operation.STATUS)
    permit.use(RUN)
    with pytest.raises(RuntimeError, match="used up"):
        permit.use(RUN)


async def test_giving_back_is_harmless_when_it_comes_twice_or_after_the_use() -> None:
    limiter = throttle_of(Limit(5, 10))
    permit = await limiter.permit(RUN)
    permit.give_back()
    permit.give_back()
    assert limiter.available(RUN, 0) == 5
    with pytest.raises(RuntimeError, match="used up"):
        permit.use(RUN)
    permit = await limiter.permit(RUN)
    permit.use(RUN)
    permit.give_back()
    assert limiter.figures(RUN).in_flight == 1
    answered(permit)
    permit.give_back()
    assert limiter.figures(RUN).in_flight == 0


async def test_every_operation_has_a_line_of_its_own_and_the_contract_s_limit() -> None:
    limiter = RateLimiter(VirtualClock(), {RUN: Limit(1, 10, 1)})
    await limiter.permit(RUN)
    await limiter.permit(Operation.STATUS)
    assert limiter.limit(Operation.STATUS) == CONTRACT_LIMITS[Operation.STATUS]
    assert VirtualClock().now() == START
