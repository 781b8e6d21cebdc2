"""Of which jobs nobody knows when they were last unfinished."""

import pytest

from orchestrator.core.jobs.job import sure_of
from orchestrator.core.jobs.lifecycle import State
from tests.factories import a_job_in


@pytest.mark.parametrize(("unfinished_at", "is_unsure"), [(5, False), (10, False), (11, True), (0, True)])
def test_a_time_that_lies_ahead_or_is_none_says_nothing(unfinished_at: int, is_unsure: bool) -> None:
    job, found = sure_of(a_job_in(State.OUTSTANDING, unfinished_at=unfinished_at), 10)
    assert (job.unfinished_at, found) == (10 if is_unsure else unfinished_at, is_unsure)
