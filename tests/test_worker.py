"""The file for images: what a handler is given, what it reports, and that its reports are waited for."""

import threading
from typing import Any

import pytest

from orchestrator.core.jobs.segments import CHECKPOINT_BYTES_MAX as TAKEN_BYTES_MAX
from orchestrator.emulator.workers.handlers import HandlerJob, ReportKind
from orchestrator.worker import CHECKPOINT_BYTES_MAX, LongJob

RESUME = {"key": "k", "segment": 3, "checkpoint": {"n": 1}, "soft_s": 3_600.0, "until": 2**40}


class Sent(list[Any]):
    """What was reported."""

    def __call__(self, _job: dict[str, Any], said: Any) -> None:
        self.append(said)


def job(**resume: Any) -> dict[str, Any]:
    return {"id": "r-1", "input": {"a": 1, "resume": {**RESUME, **resume}}}


def test_a_job_goes_on_from_its_checkpoint_and_repeats_it_until_there_is_another() -> None:
    sent = Sent()
    long = LongJob(job(), update=sent)
    assert (long.checkpoint, long.key, long.segment, long.place) == ({"n": 1}, "k", 3, "k/3")
    long.report(0.5, "half")
    long.report(checkpoint={"n": 2})
    long.report()
    assert sent == [
        {"seq": 1, "progress": 0.5, "message": "half", "checkpoint": {"n": 1}},
        {"seq": 2, "checkpoint": {"n": 2}},
        {"seq": 3, "checkpoint": {"n": 2}},
    ]
    assert long.checkpoint == {"n": 2}
    assert long.unfinished() == {"unfinished": True, "seq": 4, "checkpoint": {"n": 2}}
    assert long.unfinished(checkpoint=None) == {"unfinished": True, "seq": 4, "checkpoint": None}


@pytest.mark.parametrize(("resume", "is_up"), [({}, False), ({"soft_s": 0.0}, True), ({"until": 0}, True)])
def test_its_time_is_up_by_the_one_limit_or_the_other(resume: dict[str, Any], is_up: bool) -> None:
    assert LongJob(job(**resume), update=Sent()).time_is_up is is_up


def test_a_job_that_is_not_resumable_begins_at_the_beginning_and_has_all_the_time() -> None:
    long = LongJob({"id": "r-1", "input": {"a": 1}})
    long.report(0.1)  # to nobody: nothing runs the handler
    assert (long.checkpoint, long.key, long.segment, long.time_is_up) == (None, "r-1", 1, False)


def test_a_checkpoint_that_would_not_be_taken_is_refused_where_it_is_made() -> None:
    assert CHECKPOINT_BYTES_MAX == TAKEN_BYTES_MAX
    sent = Sent()
    long = LongJob(job(), update=sent)
    with pytest.raises(ValueError, match="65,537 bytes, and none over 65,536 is taken"):
        long.report(checkpoint="x" * (CHECKPOINT_BYTES_MAX - 1))
    assert (sent, long.checkpoint) == ([], {"n": 1})
    long.report(checkpoint="x" * (CHECKPOINT_BYTES_MAX - 2))
    assert len(sent) == 1


def test_the_end_waits_for_the_reports_under_way() -> None:
    """As the official worker sends them: each in a thread of its own, of which the caller is told nothing."""
    may_arrive, arrived = threading.Event(), []

    def _thread_target(said: Any) -> None:
        may_arrive.wait()
        arrived.append(said["seq"])

    def update(_job: dict[str, Any], said: Any) -> None:
        threading.Thread(target=_thread_target, args=(said,), daemon=True).start()
        threading.Thread(target=may_arrive.wait, daemon=True, name="another").start()

    with LongJob(job(), update=update) as long:
        long.report(0.5)
        long.wait(0.0)
        assert arrived == []
        threading.Timer(0.01, may_arrive.set).start()
    assert arrived == [1]


def test_under_the_emulator_reports_go_there() -> None:
    said: list[tuple[ReportKind, bytes]] = []

    def report(kind: ReportKind, output: bytes) -> bool:
        said.append((kind, output))
        return True

    LongJob(HandlerJob(report, job())).report(0.5)
    assert said == [(ReportKind.PROGRESS, b'{"seq": 1, "checkpoint": {"n": 1}, "progress": 0.5}')]
