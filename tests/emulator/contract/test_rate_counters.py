from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emulator.contract.rate_counters import Algorithm, Counter, TokenBucket, counter

WINDOW_US = 1_000

gaps = st.lists(st.integers(0, WINDOW_US * 3 // 2) | st.integers(0, 5), max_size=200)
allowances = st.integers(1, 30)
algorithms = st.sampled_from(Algorithm)


def admitted(counter: Counter, gaps: list[int], start: int = 50_000) -> list[int]:
    """The times of the requests that were let in."""
    times, now = [], start
    for gap in gaps:
        now += gap
        if counter.admit(now):
            times.append(now)
    return times


def most_in_a_window(times: list[int], window_us: int = WINDOW_US) -> int:
    return max((i + 1 - bisect_right(times, at - window_us) for i, at in enumerate(times)), default=0)


@given(gaps, allowances)
def test_a_sliding_log_never_lets_more_than_n_into_any_window(gaps: list[int], n: int) -> None:
    assert most_in_a_window(admitted(counter(Algorithm.SLIDING_LOG, n, WINDOW_US), gaps)) <= n


@given(gaps, allowances)
def test_a_sliding_log_refuses_only_what_would_overfill_a_window(gaps: list[int], n: int) -> None:
    log, times, now = counter(Algorithm.SLIDING_LOG, n, WINDOW_US), list[int](), 50_000
    for gap in gaps:
        now += gap
        fits = len(times) - bisect_right(times, now - WINDOW_US) < n
        assert log.admit(now) is fits
        if fits:
            times.append(now)


@given(gaps, allowances)
def test_a_fixed_window_never_lets_more_than_n_into_one_of_its_windows(gaps: list[int], n: int) -> None:
    times = admitted(counter(Algorithm.FIXED_WINDOW, n, WINDOW_US), gaps)
    assert all(sum(1 for t in times if t // WINDOW_US == window) <= n for window in {t // WINDOW_US for t in times})


def test_a_fixed_window_lets_two_windows_worth_through_at_a_seam() -> None:
    fixed = counter(Algorithm.FIXED_WINDOW, 5, WINDOW_US)
    assert len(admitted(fixed, [WINDOW_US - 1, *[0] * 9, 1, *[0] * 9])) == 10


@given(gaps, allowances)
def test_a_weighted_counter_keeps_its_estimate_within_n(gaps: list[int], n: int) -> None:
    times = admitted(counter(Algorithm.WEIGHTED_COUNTER, n, WINDOW_US), gaps)
    for i, at in enumerate(times):
        window, elapsed = divmod(at, WINDOW_US)
        current = sum(1 for t in times[: i + 1] if t // WINDOW_US == window)
        previous = sum(1 for t in times if t // WINDOW_US == window - 1)
        assert previous * (WINDOW_US - elapsed) + current * WINDOW_US <= n * WINDOW_US


@pytest.mark.parametrize(("algorithm", "burst"), [(Algorithm.TOKEN_BUCKET, 40), (Algorithm.TOKEN_BUCKET_SMALL, 4)])
def test_a_bucket_lets_its_capacity_through_at_once(algorithm: Algorithm, burst: int) -> None:
    assert len(admitted(counter(algorithm, 40, WINDOW_US), [0] * 100)) == burst


@given(gaps, allowances, st.integers(1, 40))
def test_a_bucket_gives_no_more_than_its_capacity_and_the_refill(gaps: list[int], n: int, capacity: int) -> None:
    times = admitted(TokenBucket(n, WINDOW_US, capacity), gaps)
    for i, start in enumerate(times):
        for j, end in enumerate(times[i:], start=1):
            assert j * WINDOW_US <= capacity * WINDOW_US + (end - start) * n


@given(algorithms, gaps, allowances)
def test_the_wait_is_exact_to_the_microsecond(algorithm: Algorithm, gaps: list[int], n: int) -> None:
    subject = counter(algorithm, n, WINDOW_US)
    now = 50_000 + sum(gaps)
    admitted(subject, gaps)
    wait_us = subject.wait_us(now)
    if wait_us:
        assert not subject.admit(now + wait_us - 1)
    assert subject.admit(now + wait_us)


@given(algorithms, st.integers(1, 50), st.integers(1, 60))
def test_even_pacing_passes_every_algorithm(algorithm: Algorithm, n: int, requests: int) -> None:
    pace_us = 2 * -(-WINDOW_US // n)
    assert len(admitted(counter(algorithm, n, WINDOW_US), [pace_us] * requests)) == requests


@given(algorithms, st.integers(1, 40), st.integers(1, 40))
def test_an_allowance_may_be_raised_while_requests_come(algorithm: Algorithm, n: int, more: int) -> None:
    """Contract, Limits, dynamic rule: the effective limit follows the running workers."""
    subject = counter(algorithm, n, WINDOW_US)
    admitted(subject, [0] * 100)
    subject.allow(n + more)
    later = 50_000 + 10 * WINDOW_US
    assert 1 <= sum(subject.admit(later) for _ in range(200)) <= n + more
