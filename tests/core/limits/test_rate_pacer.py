"""The limits: no 429 under any of five ways of counting, whatever the round trips, and next to nothing given away."""

import heapq
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.client import for_a_batch, for_people
from orchestrator.core.limits.limit_text import format_limit, parse_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation, Pacer, Pacing
from orchestrator.core.limits.request_spacing import LARGE, least_gap_us
from orchestrator.emulator.contract.rate_counters import Algorithm, counter
from tests.limits.promise import ROUND_TRIPS, SMALL, WINDOWS, RoundTrips, Small
from tests.limits.simulated import MILLISECOND, SECOND, START, Traffic, refused, saturate, servers

# --- the promise: ten windows at full speed ------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("operation", [Operation.RUN, Operation.STATUS])
@pytest.mark.parametrize("trips", ROUND_TRIPS, ids=str)
def test_no_request_is_refused_by_any_way_of_counting_and_the_allowance_is_used(
    operation: Operation, trips: RoundTrips
) -> None:
    limit = CONTRACT_LIMITS[operation]
    chance = random.Random(f"{operation} {trips}")
    traffic = saturate(
        Pacer(limit),
        windows=WINDOWS,
        round_trip=lambda: chance.randint(trips.least_ms * MILLISECOND, trips.most_ms * MILLISECOND),
        late=lambda: chance.randint(0, 2 * MILLISECOND),
        chance=chance,
    )
    assert refused(limit, traffic.stamps) == {}
    assert 100 * traffic.per_window / limit.requests >= trips.use_percent_min


def test_the_batch_and_the_people_beside_it_draw_no_429_together() -> None:
    limit = CONTRACT_LIMITS[Operation.STATUS]
    stamps: list[int] = []
    used = 0.0
    for number, share in enumerate((for_a_batch, for_people)):
        chance = random.Random(number)
        traffic = saturate(
            Pacer(share(CONTRACT_LIMITS)[Operation.STATUS]),
            windows=3,
            round_trip=lambda chance=chance: chance.randint(60 * MILLISECOND, 280 * MILLISECOND),  # type: ignore[misc]
            late=lambda chance=chance: chance.randint(0, 2 * MILLISECOND),  # type: ignore[misc]
            chance=chance,
        )
        stamps += traffic.stamps
        used += traffic.per_window
    assert refused(limit, sorted(stamps)) == {}
    assert 100 * used / limit.requests >= ROUND_TRIPS[0].use_percent_min


@pytest.mark.parametrize("pacing", ["even", "window"])
def test_a_process_that_follows_a_killed_one_at_once_draws_no_429(pacing: Pacing) -> None:
    limit = CONTRACT_LIMITS[Operation.STATUS]
    chance = random.Random(1)

    def traffic(pacer: Pacer, start: int) -> Traffic:
        return saturate(
            pacer,
            windows=1,
            round_trip=lambda: chance.randint(60 * MILLISECOND, 280 * MILLISECOND),
            late=lambda: chance.randint(0, 2 * MILLISECOND),
            chance=chance,
            start=start,
        )

    killed_at = START + 10 * SECOND
    before = traffic(Pacer(limit), START)
    pacer = Pacer(limit, pacing)
    pacer.ease_in(killed_at)
    after = traffic(pacer, killed_at)
    assert refused(limit, sorted(before.stamps + after.stamps)) == {}
    assert after.per_window >= 0.94 * limit.requests


@pytest.mark.no_cover
@pytest.mark.parametrize("trips", ROUND_TRIPS, ids=str)
@pytest.mark.parametrize("small", SMALL, ids=str)
def test_in_virtual_hours_small_limits_draw_no_429_by_any_way_of_counting(small: Small, trips: RoundTrips) -> None:
    limit = small.limit
    chance = random.Random(f"{limit} {trips}")
    traffic = saturate(
        Pacer(limit),
        windows=12_000 // limit.requests,
        round_trip=lambda: chance.randint(trips.least_ms * MILLISECOND, trips.most_ms * MILLISECOND),
        late=lambda: chance.randint(0, 2 * MILLISECOND),
        chance=chance,
    )
    assert refused(limit, traffic.stamps) == {}
    for algorithm in Algorithm:  # the emulator's weighted counter lets no fraction of a request pass
        emulated = counter(algorithm, limit.requests, round(limit.window_s * SECOND))
        assert all(emulated.admit(at) for at in traffic.stamps), algorithm
    assert 100 * traffic.per_window / limit.requests >= small.use_percent_min


def test_the_guard_alone_is_enough_where_windows_are_counted() -> None:
    limit = CONTRACT_LIMITS[Operation.RUN]
    chance = random.Random(1)
    traffic = saturate(
        Pacer(limit, "window"),
        windows=4,
        round_trip=lambda: chance.randint(60 * MILLISECOND, 280 * MILLISECOND),
        late=lambda: 0,
        chance=chance,
    )
    assert {"sliding log", "fixed window"}.isdisjoint(refused(limit, traffic.stamps))


def test_a_limiter_without_the_guard_and_the_pacing_would_be_caught_by_these_servers() -> None:
    limit = CONTRACT_LIMITS[Operation.RUN]
    evenly = [START + 10_100 * n for n in range(2_000)]
    assert refused(limit, evenly) == {}, "even, and a percent below the limit"
    assert set(refused(limit, [START] * 1_001)) == set(servers(limit)), "a thousand at once, and one more"


@pytest.mark.parametrize("pacing", ["even", "window"])
def test_the_pacing_called_window_uses_the_allowance_at_once_and_even_spreads_it(pacing: Pacing) -> None:
    pacer = Pacer(Limit(100, 10), pacing)
    taken = 0
    while pacer.wait_us(START) == 0:
        pacer.take(START)
        taken += 1
    assert taken == (100 if pacing == "window" else 1)


# --- any traffic at all ----------------------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True):
    gap: int
    round_trip: int
    stamped: float
    ends: str


REQUESTS = st.lists(
    st.builds(
        Request,
        gap=st.integers(0, 400 * MILLISECOND),
        round_trip=st.integers(0, 2 * SECOND),
        stamped=st.floats(0, 1),
        ends=st.sampled_from(["answered", "throttled", "told", "given up", "not sent", "given back"]),
    ),
    max_size=60,
)
LIMITS = st.builds(Limit, st.integers(1, 6), st.just(1.0), st.none() | st.integers(1, 4))


def end(pacer: Pacer, now: int, sent_at: int, ends: str) -> None:
    match ends:
        case "answered":
            pacer.answered(now, sent_at, 200)
        case "throttled":
            pacer.answered(now, sent_at, 429, 0.0)
        case "told":
            pacer.answered(now, sent_at, 200)
            pacer.observe_remaining(now, 1, now + SECOND // 2)
        case "given up":
            pacer.given_up(now)
        case "not sent":
            pacer.not_sent()
        case _:
            pacer.give_back()


def test_what_an_easing_in_has_put_off_still_waits_once_it_is_over() -> None:
    pacer = Pacer(Limit(2, 1.0, None), "window")
    pacer.ease_in(START)
    now = START
    while pacer.wait_us(now) is not None and now < START + 1 * SECOND:
        if pacer.wait_us(now) == 0:
            pacer.take(now)
            pacer.answered(now, now, 200)
        now += MILLISECOND
        assert (pacer.available(now, 0) > 0) == (pacer.wait_us(now) == 0)


@pytest.mark.no_cover
@settings(max_examples=100, deadline=None)
@given(
    requests=REQUESTS,
    limit=LIMITS,
    pacing=st.sampled_from(["even", "window"]),
    held=st.integers(0, 8),
    eased=st.booleans(),
)
def test_no_window_of_the_server_ever_holds_more_than_the_limit(
    requests: list[Request], limit: Limit, pacing: Pacing, held: int, eased: bool
) -> None:
    pacer = Pacer(limit, pacing)
    if eased:
        pacer.ease_in(START)
    stamps = [START - 100 * MILLISECOND * n for n in range(min(held, limit.requests))]
    pacer.hold(stamps)
    endings: list[tuple[int, int, int, str]] = []
    busy: list[tuple[int, int]] = []
    now = START
    for number, request in enumerate(requests):
        now += request.gap
        while endings and endings[0][0] <= now:
            at, _, sent_at, ends = heapq.heappop(endings)
            end(pacer, at, sent_at, ends)
        assert (pacer.available(now, 0) > 0) == (pacer.wait_us(now) == 0)
        if pacer.wait_us(now) != 0:
            continue
        pacer.take(now)
        over = now + (0 if request.ends == "given back" else request.round_trip)
        heapq.heappush(endings, (over, number, now, request.ends))
        if request.ends not in {"not sent", "given back"}:
            stamps.append(now + round(request.stamped * request.round_trip))
            busy.append((now, over + SECOND if request.ends == "given up" else over))
    stamps.sort()
    assert all(late - early >= SECOND for early, late in zip(stamps, stamps[limit.requests :], strict=False))
    if limit.concurrent is not None:
        assert all(sum(a <= at < b for a, b in busy) <= limit.concurrent for at, _ in busy)


@settings(max_examples=100, deadline=None)
@given(taken=st.integers(0, 8), limit=LIMITS, given_up=st.integers(0, 8), within=st.integers(0, 3 * SECOND))
def test_the_wait_is_exact_and_the_room_is_what_can_then_be_taken(
    taken: int, limit: Limit, given_up: int, within: int
) -> None:
    pacer, now = Pacer(limit, "window"), START
    flying = 0
    for number in range(taken):
        if pacer.wait_us(now) == 0:
            pacer.take(now)
            flying += 1
            if number < given_up:
                now += 10 * MILLISECOND
                pacer.given_up(now)
                flying -= 1
    wait = pacer.wait_us(now)
    if wait is None:
        assert flying > 0, "only an answer can be waited for without an end"
    elif wait:
        assert pacer.wait_us(now + wait - 1) == 1
        assert pacer.wait_us(now + wait) == 0
    available = pacer.available(now, within)
    for _ in range(available):
        assert pacer.wait_us(now + within) == 0
        pacer.take(now + within)
    assert pacer.wait_us(now + within) != 0


# --- small limits


def spacing(pacer: Pacer, now: int) -> int:
    pacer.take(now)
    pacer.not_sent()
    wait = pacer.wait_us(now)
    assert wait is not None
    return wait


def test_the_spacing_follows_the_longest_round_trip_of_late() -> None:
    pacer, now = Pacer(Limit(100, 1)), START
    at_first = spacing(pacer, now)

    def answer(trip: int) -> None:
        nonlocal now
        now += 2 * SECOND
        pacer.take(now)
        pacer.answered(now + trip, now, 200)

    answer(250 * MILLISECOND)
    slow = spacing(pacer, now + SECOND)
    answer(9 * SECOND)
    slowest = spacing(pacer, now + 9 * SECOND)
    for _ in range(500):
        answer(2 * MILLISECOND)
    quick = spacing(pacer, now + SECOND)
    assert quick < at_first < slow < slowest < 1.3 * slow, "300 ms at most"


@given(
    requests=st.integers(1, LARGE - 1),
    window=st.integers(SECOND, 60 * SECOND),
    spread=st.integers(0, SECOND // 2),
    more=st.integers(0, SECOND // 2),
)
def test_the_longer_the_round_trips_the_further_apart_and_never_nearer_than_evenly(
    requests: int, window: int, spread: int, more: int
) -> None:
    gap = least_gap_us(requests, window, spread)
    assert gap >= window / requests
    assert gap <= least_gap_us(requests, window, spread + more) * 1.000_001


# --- lateness, giving back, restarts ---------------------------------------------------------------------------------


def test_a_late_sender_catches_up_but_never_by_more_than_a_400th_of_the_window() -> None:
    pacer = Pacer(Limit(1000, 10))
    while (wait := pacer.wait_us(START)) == 0:
        pacer.take(START)
    assert wait is not None
    late = START + wait + 3 * MILLISECOND
    pacer.take(late)
    assert pacer.wait_us(late) == pytest.approx(10 * SECOND / 995 - 3 * MILLISECOND, abs=2)
    idle = START + 5 * SECOND
    burst = 0
    while pacer.wait_us(idle) == 0:
        pacer.take(idle)
        burst += 1
    assert burst == 3, "25 ms at 10 ms each"


def test_the_room_follows_the_schedule() -> None:
    pacer = Pacer(Limit(1000, 10))
    pacer.take(START)
    pacer.take(START)
    pacer.take(START)
    assert pacer.available(START, 0) == 0
    assert pacer.available(START, 250 * MILLISECOND) == 25


def test_a_turn_given_back_frees_its_slot_and_its_place_in_the_schedule() -> None:
    pacer = Pacer(Limit(10, 10, 1))
    pacer.take(START)
    assert pacer.wait_us(START) is None
    pacer.give_back()
    assert pacer.wait_us(START) == 0
    assert pacer.figures(START).sent == 0


def test_a_request_that_never_left_frees_its_slots_but_not_its_place_in_the_schedule() -> None:
    pacer = Pacer(Limit(10, 10, 1))
    pacer.take(START)
    pacer.not_sent()
    wait = pacer.wait_us(START)
    assert wait is not None
    assert 0 < wait <= 1.4 * SECOND
    assert pacer.wait_us(START + wait) == 0
    assert pacer.figures(START).used == 0


def test_a_request_given_up_on_keeps_its_place_for_a_window() -> None:
    pacer = Pacer(Limit(10, 10, 1))
    pacer.take(START)
    pacer.given_up(START + 30 * SECOND)
    assert pacer.wait_us(START + 30 * SECOND) == 10 * SECOND


def test_the_requests_of_an_earlier_process_hold_slots() -> None:
    pacer = Pacer(Limit(3, 10), "window")
    pacer.hold([START - SECOND, START - 9 * SECOND, START - 12 * SECOND])
    assert pacer.figures(START).used == 2
    pacer.take(START)
    assert pacer.wait_us(START) == SECOND
    assert pacer.figures(START).free_at == START + SECOND
    assert (pacer.available(START, SECOND - 1), pacer.available(START, SECOND)) == (0, 1)


def test_what_an_earlier_process_got_no_answer_to_keeps_its_place_for_a_window() -> None:
    pacer = Pacer(Limit(10, 10, 2), "window")
    pacer.hold([START - SECOND], [START - 4 * SECOND, START - SECOND, START - 11 * SECOND])
    assert pacer.figures(START).used == 3
    assert pacer.wait_us(START) == 6 * SECOND
    pacer.take(START + 6 * SECOND)
    assert pacer.wait_us(START + 6 * SECOND) == 3 * SECOND


def test_a_limit_can_be_lowered_and_raised_with_requests_on_their_way() -> None:
    pacer = Pacer(Limit(5, 10), "window")
    for n in range(4):
        pacer.take(START + n * SECOND)
        pacer.answered(START + n * SECOND, START + n * SECOND, 200)
    pacer.limit = Limit(2, 10)
    assert pacer.wait_us(START + 4 * SECOND) == 8 * SECOND, "three of four have to lapse"
    pacer.limit = Limit(5, 10)
    assert pacer.wait_us(START + 4 * SECOND) == 0
    assert pacer.limit == Limit(5, 10)


# --- settings --------------------------------------------------------------------------------------------------------


def test_every_operation_has_a_limit() -> None:
    assert set(CONTRACT_LIMITS) == set(Operation)
    assert CONTRACT_LIMITS[Operation.RUN] == Limit(1000, 10, 200)
    assert CONTRACT_LIMITS[Operation.RETRY] == CONTRACT_LIMITS[Operation.CANCEL]


@pytest.mark.parametrize(
    ("text", "operation", "limit"),
    [
        ("run=1000/10:200", Operation.RUN, Limit(1000, 10, 200)),
        (" status=50/0.5 ", Operation.STATUS, Limit(50, 0.5, 400)),
        ("purge-queue=1/60", Operation.PURGE_QUEUE, Limit(1, 60)),
        ("health=5/1:2", Operation.HEALTH, Limit(5, 1, 2)),
    ],
)
def test_a_limit_is_read_from_text(text: str, operation: Operation, limit: Limit) -> None:
    assert parse_limit(text) == (operation, limit)
    assert parse_limit(format_limit(operation, limit)) == (operation, limit), "and written as it is read"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("run", "write OPERATION=REQUESTS/SECONDS"),
        ("run=1000", "write OPERATION=REQUESTS/SECONDS"),
        ("run=-1/10", "write OPERATION=REQUESTS/SECONDS"),
        ("fly=1000/10", "'fly' is no operation"),
        ("run=0/10", "1 to 1000000000 requests, not 0"),
        ("run=9999999999/10", "not 9999999999"),
        ("run=10/0", "not 0"),
        ("run=10/99999", "0.001 to 86400 seconds"),
        ("run=10/10:0", "at least 1 request at once"),
    ],
)
def test_a_bad_limit_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_limit(text)
