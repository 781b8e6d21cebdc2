"""At a take-over: requests of the process before, which may still arrive, hold their slots and places until they cannot."""

from collections import deque
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.limits.rate_pacer import Limit, Pacer
from tests.limits.simulated import SECOND, START, servers

UNTIL = START + 30 * SECOND


def taken(pacer: Pacer, now: int) -> int:
    """How many may leave at once."""
    number = 0
    while pacer.wait_us(now) == 0:
        pacer.take(now)
        number += 1
    return number


@pytest.mark.parametrize("limit", [Limit(10, 10), Limit(100, 10, 10)], ids=["slots", "places"])
def test_what_is_reserved_is_not_taken_before_its_time_is_over(limit: Limit) -> None:
    pacer = Pacer(limit, "window")
    pacer.reserve(4, UNTIL, places=4)

    assert pacer.available(START, 0) == 6
    assert taken(pacer, START) == 6
    assert pacer.figures(START).used == 10
    assert pacer.wait_us(START) == UNTIL - START
    assert taken(pacer, UNTIL) == 4


@pytest.mark.no_cover
@pytest.mark.parametrize("phase", range(0, 10, 3))
@pytest.mark.parametrize("way", servers(Limit(100, 10)))
def test_beside_what_arrives_late_the_rest_goes_evenly(way: str, phase: int) -> None:
    """Else it would stand still at the end of each window, and what counts by windows would refuse what follows."""
    limit, start = Limit(1000, 10), START + phase * SECOND
    pacer = Pacer(limit)
    pacer.reserve(100, start + 40 * SECOND, places=0)
    late = [start + n * SECOND * 30 // 100 for n in range(100)]
    own = list(sent_evenly(pacer, start, 70))
    server = servers(limit)[way]
    assert all(server.allows(at) for at in sorted([*late, *own]))
    assert len(own) > 0.98 * (4 * 900 + 3 * 1000)


def sent_evenly(pacer: Pacer, start: int, seconds: int) -> Iterator[int]:
    """When requests leave that are answered after a tenth of a second, and always the next one waits."""
    now, on_way = start, deque[int]()
    while now < start + seconds * SECOND:
        wait = pacer.wait_us(now)
        if wait == 0:
            pacer.take(now)
            on_way.append(now)
            yield now
        elif on_way and (wait is None or on_way[0] + SECOND // 10 <= now + wait):
            now = max(now, on_way[0] + SECOND // 10)
            pacer.answered(now, on_way.popleft(), 200)
        else:
            assert wait is not None
            now += wait


def test_where_all_is_reserved_nothing_leaves_until_then() -> None:
    pacer = Pacer(Limit(10, 10, 2), "window")
    pacer.reserve(2, UNTIL, places=2)

    assert pacer.wait_us(START) == UNTIL - START
    assert pacer.available(START, 0) == 0
    assert pacer.available(START, 30 * SECOND) == 2


def test_what_takes_no_place_leaves_all_of_them_to_us() -> None:
    pacer = Pacer(Limit(100, 10, 10), "window")
    pacer.reserve(95, UNTIL, places=0)

    assert taken(pacer, START) == 5
    pacer.reserve(10, UNTIL, places=0)
    assert taken(pacer, START) == 5


def test_a_slot_of_ours_may_be_free_sooner_and_an_answer_may_have_to_come_first() -> None:
    pacer = Pacer(Limit(3, 10), "window")
    pacer.reserve(1, UNTIL, places=1)
    assert taken(pacer, START) == 2

    pacer.answered(START + SECOND, START, 200)
    assert pacer.wait_us(START + SECOND) == 10 * SECOND

    flying = Pacer(Limit(3, 10, 2), "window")
    assert taken(flying, START) == 2
    flying.reserve(1, UNTIL, places=1)
    assert flying.wait_us(START) is None


@given(
    requests=st.integers(1, 6),
    concurrent=st.none() | st.integers(1, 6),
    reserved=st.integers(0, 6),
    places=st.integers(0, 6),
    until=st.integers(0, 25),
    given_up=st.lists(st.integers(0, 9), max_size=5),
    answered=st.lists(st.integers(0, 9), max_size=5),
    look=st.integers(0, 30),
)
def test_the_wait_is_exact(
    requests: int,
    concurrent: int | None,
    reserved: int,
    places: int,
    until: int,
    given_up: list[int],
    answered: list[int],
    look: int,
) -> None:
    pacer = Pacer(Limit(requests, 10, concurrent), "window")
    pacer.hold([START + at * SECOND for at in answered], [START + at * SECOND for at in given_up])
    pacer.reserve(reserved, START + until * SECOND, places=places)
    now = START + look * SECOND

    wait = pacer.wait_us(now)

    held = sum(at + 10 > look for at in (*answered, *given_up)) + reserved * (until > look)
    busy = sum(at + 10 > look for at in given_up) + min(places, reserved) * (until > look)
    free = min(requests - held, requests if concurrent is None else concurrent - busy)
    assert pacer.available(now, 0) == max(free, 0)
    if free > 0:
        assert wait == 0
    elif wait is not None:
        assert pacer.wait_us(now + wait - 1) == 1
        assert pacer.wait_us(now + wait) == 0
    else:
        raise AssertionError("without a request on its way there is none to wait for")
