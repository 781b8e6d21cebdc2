"""What the alarms beside stray refusals can bear."""

from orchestrator.core.limits.rate_sample import RateSample
from orchestrator.core.limits.stray_refusals import StrayRefusals


def test_an_alarm_rings_however_many_refusals_are_stray() -> None:
    """A share that left no room above it made alarms that cannot be: the logarithm of nothing."""
    for percent in range(101):
        stray = StrayRefusals()
        stray.share = percent / 100
        for alarm in (stray.alarm(), stray.rise_alarm(RateSample())):
            assert any(alarm.rings(refused=True) for _ in range(1_000)), percent
