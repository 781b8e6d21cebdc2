"""Room for batches, how many rows a call has, and when rows have to leave by `/run`."""

import pytest

from orchestrator.core.batches.lateness import (
    EXECUTION_US_UNKNOWN,
    RESERVE_US,
    BatchPace,
    ends_at,
    is_in_time,
    leaves_at,
    needed_us,
)
from orchestrator.core.batches.terms import APPEND_ROWS, BatchTerms, fewer_rows, more_rows, rows_room
from orchestrator.units import HOUR_US, MIB, SECOND_US

TERMS = BatchTerms()


def test_the_defaults_are_what_the_service_documents() -> None:
    assert (TERMS.rows_max, TERMS.active_max, TERMS.queued_max, TERMS.call_bytes) == (
        5_000,
        10,
        50_000,
        10 * MIB,
    )


def test_they_can_be_those_of_a_service_that_keeps_results_for_less() -> None:
    assert TERMS.with_retention(SECOND_US) == BatchTerms(retention_us=SECOND_US)


@pytest.mark.parametrize(
    ("active", "queued", "room"), [(0, 0, 50_000), (9, 49_999, 1), (9, 60_000, 0), (10, 0, 0), (11, 0, 0)]
)
def test_no_more_batches_and_rows_than_the_service_takes(active: int, queued: int, room: int) -> None:
    assert rows_room(TERMS, active=active, queued=queued) == room


def test_calls_grow_from_one_row_and_shrink_where_one_is_refused() -> None:
    assert [more_rows(rows) for rows in (1, 4, 600)] == [2, 8, APPEND_ROWS]
    assert [fewer_rows(rows) for rows in (1_000, 3, 1)] == [500, 1, 1]


def test_what_is_left_leaves_at_the_latest_moment_at_which_run_ends_it_in_time() -> None:
    needed = needed_us(100, execution_us=10 * SECOND_US, workers=4)
    assert needed == 10 * SECOND_US + 275 * SECOND_US + RESERVE_US
    assert leaves_at(HOUR_US, 100, execution_us=10 * SECOND_US, workers=4) == HOUR_US - needed
    assert needed_us(1, execution_us=None, workers=0) == round(EXECUTION_US_UNKNOWN * 2.1) + RESERVE_US


@pytest.mark.parametrize(
    ("pace", "in_time"),
    [
        (BatchPace(left=100, ended=0, since=None), False),
        (BatchPace(left=100, ended=19, since=0), False),
        (BatchPace(left=100, ended=100, since=HOUR_US), False),
        (BatchPace(left=100, ended=100, since=0), True),
        (BatchPace(left=101, ended=100, since=0), False),
    ],
)
def test_a_batch_is_left_alone_that_ends_in_time_at_the_pace_that_it_has_shown(pace: BatchPace, in_time: bool) -> None:
    assert is_in_time(pace, finish_by=2 * HOUR_US, now=HOUR_US) is in_time


def test_a_batch_ends_when_its_pace_says_so() -> None:
    assert ends_at(BatchPace(left=50, ended=100, since=0), HOUR_US) == HOUR_US + HOUR_US // 2
    assert ends_at(BatchPace(left=50, ended=0, since=None), HOUR_US) is None
