"""Whether webhooks arrive."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.arrivals import Arrivals


def seen(arrivals: Arrivals, jobs: int, *, arrive: float) -> list[bool]:
    """So many jobs finish, of which a share tells of itself; whether webhooks counted as healthy after each change."""
    changes, told = [], 0.0
    for _ in range(jobs):
        told += arrive
        comes = told >= 1
        told -= comes
        if arrivals.observe(finished=True, arrived=comes):
            changes.append(arrivals.healthy)
    return changes


def test_where_no_webhooks_are_expected_they_never_become_healthy() -> None:
    arrivals = Arrivals(expected=False)

    assert seen(arrivals, 300, arrive=1) == []
    assert (arrivals.healthy, arrivals.share) == (False, None)


def test_webhooks_count_as_healthy_until_most_of_enough_have_not_come() -> None:
    arrivals = Arrivals(expected=True)

    assert seen(arrivals, Arrivals.ENOUGH - 1, arrive=0) == []
    assert arrivals.healthy
    assert seen(arrivals, 1, arrive=0) == [False]


def test_between_the_two_thresholds_everything_stays_as_it_is() -> None:
    arrivals = Arrivals(expected=True)
    assert seen(arrivals, 2_000, arrive=0.65) == []
    assert seen(arrivals, 2_000, arrive=0.3) == [False]
    assert seen(arrivals, 2_000, arrive=0.65) == []
    assert seen(arrivals, 2_000, arrive=0.97) == [True]


def test_a_collapse_shows_within_two_hundred_jobs_and_a_recovery_within_five_hundred() -> None:
    arrivals = Arrivals(expected=True)
    seen(arrivals, 5_000, arrive=1)

    assert seen(arrivals, 200, arrive=0) == [False]
    seen(arrivals, 5_000, arrive=0)
    assert seen(arrivals, 500, arrive=1) == [True]


def test_a_webhook_that_comes_after_the_question_counts_as_much_as_one_before_it() -> None:
    arrivals = Arrivals(expected=True)
    for _ in range(1_000):
        arrivals.observe(finished=True, arrived=False)
        arrivals.observe(finished=False, arrived=True)

    assert arrivals.healthy
    assert (arrivals.share or 0) > 0.95


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=600))
def test_the_share_is_a_share_whatever_comes_twice_or_never(news: list[tuple[bool, bool]]) -> None:
    arrivals = Arrivals(expected=True)
    for finished, arrived in news:
        arrivals.observe(finished=finished, arrived=arrived)

    assert arrivals.share is None or 0 <= arrivals.share <= 1
