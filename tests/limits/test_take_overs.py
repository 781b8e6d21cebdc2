"""The short form of `python -m tests.limits.take_overs`."""

import pytest

from orchestrator.core.limits.rate_pacer import Operation
from tests.limits.take_overs import OPERATIONS, is_kept, play


@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_take_overs_no_request_is_refused_whatever_the_way_of_counting(operation: Operation) -> None:
    played = play(operation, times=2, seed=5)
    assert is_kept(played), played
