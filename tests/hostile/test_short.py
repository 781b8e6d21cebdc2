"""The attack in the small: every kind of request, and more slow connections than the program may hold."""

import resource

import pytest

from orchestrator.web.webhook_routes import DEFAULT_LIMITS
from tests.hostile.measure import measure
from tests.hostile.requests import ATTACKS
from tests.hostile.strangers import CHUNK, GIGABYTE, kernel_bytes

pytestmark = pytest.mark.system

OPEN_FILES = 200


@pytest.mark.slow
def test_strangers_change_nothing_and_every_webhook_is_answered() -> None:
    found = measure(150, per_s=100, slow=120, floods=1, seconds=4, open_files=OPEN_FILES)

    assert found.changed == 0
    assert found.seen.webhooks == 150
    assert found.tally is not None
    assert found.tally.unexpected == []
    assert {attack.name for attack in ATTACKS if found.tally.answers[attack.name]} == {
        attack.name for attack in ATTACKS
    }
    assert found.tally.slow_opened > OPEN_FILES // 4, "more than the listener may hold"
    taken_max = DEFAULT_LIMITS.body_bytes + kernel_bytes() + 3 * len(CHUNK)
    assert found.tally.gigabyte_bytes_most < taken_max < GIGABYTE / 5
    ours_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # Linux counts it in with a child's
    assert found.ended.peak_mb < max(400, 1.1 * ours_mb)
