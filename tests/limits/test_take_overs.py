"""The short form of `python -m tests.limits.take_overs`."""

import pytest

from orchestrator.core.limits.rate_pacer import Operation
from tests.limits.take_overs import OPERATIONS, Way, is_kept, play


@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_take_overs_no_request_is_refused_whatever_the_way_of_counting(operation: Operation) -> None:
    played = play(operation, Way.GONE, times=2, seed=5)
    assert is_kept(played), played


@pytest.mark.parametrize("operation", [Operation.RUN, Operation.CANCEL])
def test_one_that_goes_on_exactly_is_refused_nothing_either(operation: Operation) -> None:
    played = play(operation, Way.HANDS_OVER, times=2, seed=5)
    assert is_kept(played), played
