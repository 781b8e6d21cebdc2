"""Whether webhooks arrive."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.polling.webhook_health import WebhookHealth


def seen(webhook_health: WebhookHealth, jobs: int, *, arrive: float) -> list[bool]:
    """So many jobs finish, of which a share tells of itself; whether webhooks counted as healthy after each change."""
    changes, told = [], 0.0
    for _ in range(jobs):
        told += arrive
        comes = told >= 1
        told -= comes
        if webhook_health.observe(finished=True, arrived=comes):
            changes.append(webhook_health.healthy)
    return changes


def test_where_no_webhooks_are_expected_they_never_become_healthy() -> None:
    webhook_health = WebhookHealth(expected=False)

    assert seen(webhook_health, 300, arrive=1) == []
    assert (webhook_health.healthy, webhook_health.share) == (False, None)


def test_webhooks_count_as_healthy_until_most_of_enough_have_not_come() -> None:
    webhook_health = WebhookHealth(expected=True)

    assert seen(webhook_health, WebhookHealth.ENOUGH - 1, arrive=0) == []
    assert webhook_health.healthy
    assert seen(webhook_health, 1, arrive=0) == [False]


def test_between_the_two_thresholds_everything_stays_as_it_is() -> None:
    webhook_health = WebhookHealth(expected=True)
    assert seen(webhook_health, 2_000, arrive=0.65) == []
    assert seen(webhook_health, 2_000, arrive=0.3) == [False]
    assert seen(webhook_health, 2_000, arrive=0.65) == []
    assert seen(webhook_health, 2_000, arrive=0.97) == [True]


def test_a_collapse_shows_within_two_hundred_jobs_and_a_recovery_within_five_hundred() -> None:
    webhook_health = WebhookHealth(expected=True)
    seen(webhook_health, 5_000, arrive=1)

    assert seen(webhook_health, 200, arrive=0) == [False]
    seen(webhook_health, 5_000, arrive=0)
    assert seen(webhook_health, 500, arrive=1) == [True]


def test_a_webhook_that_comes_after_the_question_counts_as_much_as_one_before_it() -> None:
    webhook_health = WebhookHealth(expected=True)
    for _ in range(1_000):
        webhook_health.observe(finished=True, arrived=False)
        webhook_health.observe(finished=False, arrived=True)

    assert webhook_health.healthy
    assert (webhook_health.share or 0) > 0.95


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=600))
def test_the_share_is_a_share_whatever_comes_twice_or_never(news: list[tuple[bool, bool]]) -> None:
    webhook_health = WebhookHealth(expected=True)
    for finished, arrived in news:
        webhook_health.observe(finished=finished, arrived=arrived)

    assert webhook_health.share is None or 0 <= webhook_health.share <= 1
