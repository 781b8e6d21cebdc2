"""The short form of `python -m tests.simulation.many`: a tenth of the limits, a sixth of the retention."""

import pytest

from orchestrator.units import SECOND_US
from tests.simulation.many import MARGIN_SHARE_MIN, Many, Size

SMALL = Size(
    hours=0.5,
    retention_us=300 * SECOND_US,
    status_per_s=20,
    run_per_s=10,
    workers=80,
    execution_s=(4, 16),
    asleep_s=400,
)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [80, 20])
def test_as_many_as_may_be_outstanding_are_all_collected_in_time_by_polling_alone(workers: int) -> None:
    many = Many(Size(**{name: getattr(SMALL, name) for name in SMALL.__struct_fields__} | {"workers": workers}))
    result = many.play()

    assert result.outstanding_most == 4_000
    assert result.expired == 0
    assert result.margin_min_us >= MARGIN_SHARE_MIN * SMALL.retention_us
    assert result.collected > 1_400 * workers / 10 * 0.8
