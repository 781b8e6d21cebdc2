"""The wait that the limits of the REST interface ask for (contract, Limits)."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.account.transport.quotas import RateQuota
from orchestrator.core.limits.ratelimit_headers import Window
from orchestrator.units import SECOND_US as SECOND

NOW = 1_000 * SECOND


def quotas(**remaining: int) -> RateQuota:
    known = RateQuota()
    known.observe(Window(name=name, remaining=left, reset_at=NOW + 20 * SECOND) for name, left in remaining.items())
    return known


def test_nothing_known_is_no_reason_to_wait() -> None:
    assert RateQuota().wait(NOW) == (0, "")
    known = RateQuota()
    known.observe([Window(name="minute", quota=60)])
    assert known.wait(NOW) == (0, "")


def test_the_last_request_of_a_window_is_left_to_others() -> None:
    assert quotas(minute=2).wait(NOW) == (0, "")
    assert quotas(minute=1, hour=50).wait(NOW) == (
        20 * SECOND,
        "the minute window of the rate limit is nearly used up",
    )
    assert quotas(minute=0).wait(NOW + 20 * SECOND) == (0, "")


def test_requests_under_way_count() -> None:
    known = quotas(minute=3)
    known.take()
    assert known.wait(NOW)[0] == 0
    known.take()
    assert known.wait(NOW)[0] == 20 * SECOND
    known.ended()
    assert known.wait(NOW)[0] == 0


def test_a_refusal_is_waited_out_whatever_the_windows_say() -> None:
    """Contract, Limits 5."""
    known = quotas(minute=50)
    known.refused(NOW + 7 * SECOND)
    known.refused(NOW + 5 * SECOND)
    assert known.wait(NOW) == (7 * SECOND, "the service asked for it (429)")
    assert known.wait(NOW + 7 * SECOND) == (0, "")


def test_an_answer_that_tells_nothing_changes_nothing() -> None:
    known = quotas(minute=1)
    known.observe([])
    assert [window.name for window in known.windows] == ["minute"]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 100)), max_size=3))
def test_the_wait_ends_every_shortage(told: list[tuple[int, int]]) -> None:
    known = RateQuota()
    known.observe(
        Window(name=str(i), remaining=left, reset_at=NOW + reset_s * SECOND) for i, (left, reset_s) in enumerate(told)
    )
    wait_us, _ = known.wait(NOW)
    assert known.wait(NOW + wait_us) == (0, "")
