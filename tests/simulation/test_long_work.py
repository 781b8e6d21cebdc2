"""Work that outlives its worker: its script."""

import json
from typing import Any

from orchestrator.units import SECOND_US
from tests.simulation.long_work import KILLED, LongWork

WORK = LongWork(work_s=100, report_every_s=10, checkpoint_every_s=25)


def told(work: LongWork, resume: dict[str, Any] | None = None) -> list[tuple[int, Any]]:
    """Seconds, and the checkpoint of a report, or how it ended."""
    found = []
    for act in work.acts(json.dumps({"resume": resume} if resume else {}).encode()):
        said: Any = json.loads(act.report)["checkpoint"]["done_s"] if act.report else None
        if act.result is not None:
            said = act.result.error or json.loads(act.result.output or b"null")
        found.append((act.after_us // SECOND_US, said))
    return found


def test_a_worker_reports_what_it_has_saved_and_ends_with_its_work() -> None:
    expected: list[tuple[int, Any]] = [(at, at // 25 * 25) for at in range(10, 100, 10)]
    assert told(WORK) == [*expected, (100, {"done_s": 100, "segment": 0})]


def test_it_goes_on_from_its_checkpoint() -> None:
    resume = {"checkpoint": {"done_s": 75}, "segment": 4}
    assert told(WORK, resume) == [(10, 75), (20, 75), (25, {"done_s": 100, "segment": 4})]


def test_it_gives_the_job_back_when_its_time_is_up() -> None:
    assert told(WORK, {"soft_s": 15}) == [(10, 0), (15, {"unfinished": True, "checkpoint": {"done_s": 15}})]


def test_it_is_killed_or_hangs() -> None:
    assert told(LongWork(work_s=100, report_every_s=10, checkpoint_every_s=25, killed_after_s=15)) == [
        (10, 0),
        (15, KILLED),
    ]
    assert told(LongWork(work_s=100, report_every_s=10, checkpoint_every_s=25, stalls_after_s=25)) == [(10, 0), (20, 0)]
    assert told(LongWork(work_s=9, report_every_s=10, checkpoint_every_s=25, stalls_after_s=5)) == []
