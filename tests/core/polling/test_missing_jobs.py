"""Whether missing jobs or their endpoint is to blame."""

from collections.abc import Awaitable, Callable

import pytest

from orchestrator.core.polling.missing_jobs import MissingJobs
from tests.simulation.clock import EPOCH_AT

pytestmark = pytest.mark.anyio

MINUTE = 60_000_000


def accepted(n: int) -> Callable[[int], Awaitable[int]]:
    async def since(_: int) -> int:
        return n

    return since


async def are_many(
    found: MissingJobs, now: int = EPOCH_AT, *, outstanding: int = 0, accepted_with_them: int = 0
) -> bool:
    return await found.are_many(now, outstanding=outstanding, sent_since=accepted(accepted_with_them))


def missing_jobs(*, missing: int, known: int, at: int = EPOCH_AT) -> MissingJobs:
    found = MissingJobs()
    for _ in range(known):
        found.answered(at, at)
    for number in range(missing):
        found.missing(number, at)
    return found


@pytest.mark.parametrize(
    ("missing", "known", "many"),
    [(0, 0, False), (19, 0, False), (20, 0, True), (20, 379, True), (20, 380, False), (21, 379, True)],
)
async def test_many_are_twenty_and_more_than_a_twentieth(missing: int, known: int, many: bool) -> None:
    assert await are_many(missing_jobs(missing=missing, known=known)) is many


async def test_they_are_remembered_for_a_minute_and_forgotten_after_two() -> None:
    found = missing_jobs(missing=20, known=0)

    assert await are_many(found, EPOCH_AT + MINUTE - 1)
    assert await are_many(found, EPOCH_AT + MINUTE)
    assert not await are_many(found, EPOCH_AT + 3 * MINUTE)


async def test_a_job_that_is_missing_again_and_again_counts_once() -> None:
    found = MissingJobs()
    for _ in range(100):
        found.missing(7, EPOCH_AT)

    assert not await are_many(found)


async def test_jobs_that_were_accepted_or_told_of_count_as_known() -> None:
    found = missing_jobs(missing=20, known=0)
    for _ in range(380):
        found.accepted(EPOCH_AT)

    assert not await are_many(found)


async def test_lost_jobs_that_are_left_at_the_end_are_few_among_those_that_were_sent_with_them() -> None:
    found = missing_jobs(missing=120, known=0)

    assert not await are_many(found, outstanding=120, accepted_with_them=6_000)
    assert await are_many(found, outstanding=120, accepted_with_them=120), "an endpoint that vanished at the end"


async def test_where_others_are_outstanding_one_should_have_given_a_sign_of_life() -> None:
    found = missing_jobs(missing=20, known=0)

    assert await are_many(found, outstanding=5_000, accepted_with_them=5_000), "an endpoint that vanished half-way"
    found.answered(EPOCH_AT + 1, EPOCH_AT + 1)
    assert not await are_many(found, EPOCH_AT + 1, outstanding=5_000, accepted_with_them=5_000)
    assert found.answered_at == EPOCH_AT + 1


def test_a_webhook_tells_that_a_job_is_known_but_not_that_questions_are_answered() -> None:
    found = MissingJobs()
    found.answered(EPOCH_AT, EPOCH_AT)
    found.known_by_webhook(EPOCH_AT + 1)
    assert found.answered_at == EPOCH_AT
