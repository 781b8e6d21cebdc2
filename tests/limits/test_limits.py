"""The short form of `python -m tests.limits`: real processes, small limits, a few seconds."""

import pytest

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.emulator.contract.rate_counters import Algorithm
from tests.limits.promise import RoundTrips
from tests.limits.real import measure
from tests.limits.server import Observed

LIMITS = {Operation.RUN: Limit(40, 1, 10), Operation.STATUS: Limit(80, 1, 20)}

ALGORITHMS = (Algorithm.SLIDING_LOG, Algorithm.FIXED_WINDOW, Algorithm.TOKEN_BUCKET)
"""Those that no standstill of a busy machine can upset. It stamps in one moment what came in a tenth of a second, which
is a tenth of these short windows, and more than a bucket of four holds; the command has windows of ten seconds."""


@pytest.mark.slow
def test_no_request_of_real_processes_is_refused() -> None:
    uses = measure(RoundTrips(least_ms=1, most_ms=20, use_percent_min=0), LIMITS, windows=3, algorithms=ALGORITHMS)
    assert {(use.algorithm, use.operation) for use in uses} == {(a, o) for a in ALGORITHMS for o in LIMITS}
    assert [use for use in uses if use.refused] == []
    assert all(use.window_max <= LIMITS[Operation(use.operation)].requests for use in uses)
    assert all(use.concurrent_max <= (LIMITS[Operation(use.operation)].concurrent or 0) for use in uses)
    assert all(use.percent > 0 for use in uses), "how much a busy machine uses says nothing of the program"


@pytest.mark.parametrize(("window_s", "fullest"), [(1.0, 2), (1.1, 3), (0.4, 1)])
def test_the_fullest_window_is_found_wherever_it_begins(window_s: float, fullest: int) -> None:
    seen = Observed(endpoint="sliding_log", operation="run", accepted=[0.0, 0.5, 1.0, 2.5])
    assert seen.window_max(window_s) == fullest
