"""Runs side by side, a few times disturbed; hundreds of times by `python -m tests.crashes --side-by-side`."""

import pytest

from tests.crashes.side_by_side import Act, Disturbance
from tests.system.processes import Desk, Service

pytestmark = pytest.mark.system


@pytest.mark.slow
def test_runs_side_by_side_come_to_their_ends_whatever_happens_to_their_processes(desk: Desk, service: Service) -> None:
    service.change(answers_dropped=0.02, finish_after_s=(0.02, 0.2))

    ended = Disturbance(desk, service, runs=3, jobs=60, seed=1).go_through(3)

    assert ended.faults() == []
    assert ended.acts[Act.KILL] > 0
