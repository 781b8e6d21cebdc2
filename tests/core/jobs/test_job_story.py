"""The story of a job as programs read it."""

import msgspec

from orchestrator.core.jobs.job_story import TimelineStep


def test_a_step_is_written_with_the_name_of_its_class() -> None:
    step = TimelineStep(
        at=2, after_us=1, event="retried", reason="status", class_="failed", attempt=1, remote_id="0f0e-u1"
    )
    assert msgspec.to_builtins(step)["class"] == "failed"
