"""What is counted on by what was found out of a service: its time, and for how long it really keeps results."""

import msgspec

from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.core.polling.result_retention import LEAST_US, RetentionEstimate
from orchestrator.units import MINUTE_US

AGREED_US = 30 * MINUTE_US


def test_where_nothing_was_found_out_what_was_agreed_counts() -> None:
    assert Learned().retention_us(AGREED_US) == AGREED_US
    assert msgspec.json.encode(Learned()) == b"{}"


def test_time_that_runs_fast_leaves_less_of_it_here() -> None:
    assert Learned(time_scale=60.0).retention_us(AGREED_US) == AGREED_US // 60


def test_what_was_found_out_counts_as_for_the_process_that_did() -> None:
    estimate = RetentionEstimate()
    for counted_on_us in (0, 5 * MINUTE_US, 2 * AGREED_US):
        estimate.counted_on_us = counted_on_us
        learned = Learned(time_scale=2.0, counted_on_us=counted_on_us)
        assert learned.retention_us(AGREED_US) == estimate.retention_us(AGREED_US // 2)
    assert Learned(counted_on_us=0).retention_us(6 * LEAST_US) == LEAST_US
