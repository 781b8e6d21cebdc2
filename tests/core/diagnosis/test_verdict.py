"""The verdict on a run: its word, its sentence, and when it will be over."""

import pytest
from msgspec.structs import replace

from orchestrator.core.batches.outlook import BatchesOutlook
from orchestrator.core.diagnosis.verdict import MARKS, OVER, RunFigures, RunStanding, RunVerdict, utc_minute, verdict_on
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

NOON = 1_767_268_800 * SECOND_US  # 2026-01-01T12:00Z
RUN = RunFigures(now=NOON, counts={"queued": 30, "outstanding": 10, "succeeded": 58, "failed": 2}, is_worked_on=True)


def of(**changes: object) -> RunVerdict:
    return verdict_on(replace(RUN, **changes))


@pytest.mark.parametrize(
    ("counts", "standing", "sentence"),
    [
        ({}, RunStanding.EMPTY, "It has no jobs."),
        ({"succeeded": 1}, RunStanding.SUCCEEDED, "Done: its one job succeeded."),
        ({"succeeded": 7_000}, RunStanding.SUCCEEDED, "Done: all 7,000 succeeded."),
        ({"succeeded": 8, "failed": 2}, RunStanding.PARTIAL, "Over: 8 of 10 succeeded; 2 failed."),
        (
            {"succeeded": 7, "failed": 2, "cancelled": 1},
            RunStanding.PARTIAL,
            "Over: 7 of 10 succeeded; 2 failed and 1 was cancelled.",
        ),
        ({"failed": 2}, RunStanding.FAILED, "Over: none of 2 has a result; 2 failed."),
        (
            {"failed": 2, "cancelled": 3},
            RunStanding.FAILED,
            "Over: none of 5 has a result; 2 failed and 3 were cancelled.",
        ),
        ({"cancelled": 3}, RunStanding.CANCELLED, "Cancelled: none of 3 has a result."),
    ],
)
def test_a_run_that_is_over(counts: dict[str, int], standing: RunStanding, sentence: str) -> None:
    found = of(counts=counts, is_paused=True, safe_offline_s=1.0, finish_by=NOON - 1)
    assert (found.standing, found.sentence) == (standing, sentence)
    assert found.is_over
    assert found.left == 0
    assert found.eta_at is None
    assert found.is_late is None


@pytest.mark.parametrize(
    ("changes", "standing", "sentence"),
    [
        ({}, RunStanding.SENDING, "Sending. 40 of 100 to go, 10 at the service."),
        ({"is_cancelled": True, "is_paused": True}, RunStanding.CANCELLING, "Being cancelled. 40 of 100 to go, 10 at the service."),
        ({"is_paused": True, "stopped": "no"}, RunStanding.PAUSED, "Paused: nothing is sent. 40 of 100 to go, 10 at the service."),
        (
            {"stopped": "the first 20 failed"},
            RunStanding.ON_HOLD,
            "Held: nothing more is sent. 40 of 100 to go, 10 at the service; the first 20 failed.",
        ),
        (
            {"stopped": "20 of 20 failed", "are_singles_sent": True, "jobs_per_s": 2.0},
            RunStanding.ON_HOLD,
            "Held: single jobs only are sent. 40 of 100 to go, 10 at the service; 20 of 20 failed.",
        ),
        ({"is_unserved": True}, RunStanding.WAITING, "Nobody works on it. 40 of 100 to go, 10 at the service."),
        (
            {"is_worked_on": False, "safe_offline_s": 720.5},
            RunStanding.WAITING,
            "Nobody works on it. 40 of 100 to go, 10 at the service; collect again within 12 min, or results expire.",
        ),
        (
            {"is_worked_on": False, "is_paused": True},
            RunStanding.PAUSED,
            "Paused: nothing is sent. 40 of 100 to go, 10 at the service; nobody works on it.",
        ),
        ({"counts": {"outstanding": 3, "succeeded": 1}}, RunStanding.COLLECTING, "All is sent. 3 of 4 to go."),
        ({"counts": {"queued": 4}}, RunStanding.SENDING, "Sending. 4 of 4 to go."),
        (
            {"hindrance": "the rate limit of /run binds"},
            RunStanding.SENDING,
            "Sending. 40 of 100 to go, 10 at the service; the rate limit of /run binds.",
        ),
        (
            {"hindrance": "no", "stopped": "no"},
            RunStanding.ON_HOLD,
            "Held: nothing more is sent. 40 of 100 to go, 10 at the service; no.",
        ),
        (
            {"safe_offline_s": 600.0},
            RunStanding.SENDING,
            "Sending. 40 of 100 to go, 10 at the service; results are safe for 10 min more if nobody collects.",
        ),
        ({"safe_offline_s": 1_500.0}, RunStanding.SENDING, "Sending. 40 of 100 to go, 10 at the service."),
    ],
)  # fmt: skip
def test_a_run_that_has_work_left(changes: dict[str, object], standing: RunStanding, sentence: str) -> None:
    found = of(**changes)
    assert (found.standing, found.sentence) == (standing, sentence)
    assert not found.is_over


def test_while_batches_wait_no_pace_tells_when_it_is_over() -> None:
    waits = BatchesOutlook(waiting=1, waiting_rows=10, waits_since=NOON - 5 * MINUTE_US)
    found = of(batches=waits, jobs_per_s=40 / 600, counts={"outstanding": 10, "succeeded": 3})
    assert found.eta_at is None
    assert found.sentence == f"All is sent. 10 of 13 to go; {waits.sentence(NOON)}."
    runs = BatchesOutlook(running=1, running_rows=10, ended_rows=5, ends_at=NOON + 10 * MINUTE_US)
    found = of(batches=runs, jobs_per_s=0.0, counts={"outstanding": 10, "succeeded": 3})
    assert found.sentence == f"All is sent. 10 of 13 to go; {runs.sentence(NOON)}; done about 12:10 UTC."
    assert of(batches=runs, is_worked_on=False).sentence == of(is_worked_on=False).sentence


def test_when_it_will_be_over_and_whether_that_is_in_time() -> None:
    ten_minutes = of(jobs_per_s=40 / 600)
    assert ten_minutes.eta_at == NOON + 10 * MINUTE_US
    assert ten_minutes.is_late is None
    assert ten_minutes.sentence.endswith("; done about 12:10 UTC.")
    in_time = of(jobs_per_s=40 / 600, finish_by=NOON + HOUR_US)
    assert in_time.is_late is False
    assert in_time.sentence.endswith("; done about 12:10 UTC, in time for finish-by 13:00 UTC.")
    too_late = of(jobs_per_s=40 / 600, finish_by=NOON + 7 * MINUTE_US)
    assert too_late.is_late is True
    assert too_late.sentence.endswith("; done about 12:10 UTC, 3 min after finish-by 12:07 UTC.")
    over = of(jobs_per_s=40 / 600, finish_by=NOON - HOUR_US)
    assert over.is_late is True
    assert over.sentence.endswith("; finish-by 11:00 UTC is over; done about 12:10 UTC.")


def test_a_run_that_is_held_goes_at_the_pace_of_single_jobs_or_has_no_end() -> None:
    assert of(stopped="no", jobs_per_s=2.0).eta_at is None
    assert of(is_paused=True, jobs_per_s=2.0).eta_at is None
    single = of(stopped="no", are_singles_sent=True, jobs_per_s=2.0, crawl_s=60.0)
    assert single.eta_at == NOON + 40 * MINUTE_US
    assert "; done about 12:40 UTC; no." in single.sentence
    assert of(stopped="no", are_singles_sent=True, jobs_per_s=2.0, crawl_s=0.0).eta_at is None
    collected = {"counts": {"outstanding": 10}, "is_paused": True}
    assert of(jobs_per_s=1.0, **collected).eta_at == NOON + 10 * SECOND_US, "what is sent is still collected"


def test_without_a_rate_there_is_no_end() -> None:
    assert of(finish_by=NOON + 1).is_late is None
    still = of(jobs_per_s=0.0)
    assert still.eta_at is None
    assert still.sentence.endswith("; none has ended of late.")
    assert of(jobs_per_s=1e-9).eta_at is None, "in a thousand years"
    unattended = of(jobs_per_s=1.0, is_worked_on=False)
    assert unattended.eta_at is None


def test_a_moment_of_another_day_has_its_day() -> None:
    assert utc_minute(NOON + 11 * HOUR_US, NOON) == "23:00 UTC"
    assert utc_minute(NOON + 13 * HOUR_US, NOON) == "2026-01-02 01:00 UTC"


def test_each_standing_has_a_mark_and_those_that_are_over_say_so() -> None:
    assert MARKS.keys() == set(RunStanding)
    assert {each for each in RunStanding if each not in OVER} == {
        RunStanding.CANCELLING, RunStanding.WAITING, RunStanding.PAUSED, RunStanding.ON_HOLD, RunStanding.SENDING,
        RunStanding.COLLECTING,
    }  # fmt: skip


def test_in_brief_nothing_is_said_that_workers_may_have_said() -> None:
    found = of(stopped="20 of 20 failed: KeyError: bob@example.com", hindrance="the rate limit of /run binds")
    assert found.brief == "Held: nothing more is sent. 40 of 100 to go, 10 at the service."
    assert "bob@example.com" in found.sentence


def test_the_counts_of_a_verdict() -> None:
    found = of()
    assert (found.total, found.done, found.failed, found.left) == (100, 60, 2, 40)
    assert found.mark == "running"
