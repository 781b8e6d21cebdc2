"""Resumable jobs: which checkpoint is newer, what a segment is given, and what its end becomes."""

from tests.planted.faults.fault import Fault

RESUMABLE = "tests/engine/collecting/test_segment_tracker.py::"
SEGMENTS = "tests/conformance/test_segments.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a segment that comes no further counts as progress",
        path="orchestrator/core/jobs/segments.py::segment_end",
        old="has_progressed=standing.newest > standing.given or is_newer,",
        new="has_progressed=standing.newest >= standing.given or is_newer,",
        tests=(RESUMABLE + "test_a_job_that_is_given_back_without_progress_has_failed_and_says_so",),
    ),
    Fault(
        name="a report that is known is taken for news",
        path="orchestrator/ledger/transitions/segment_writes.py::report_write",
        old="if seq <= known:",
        new="if seq < known:",
        tests=(SEGMENTS + "test_a_report_that_is_known_or_older_changes_nothing",),
    ),
    Fault(
        name="the checkpoint of an earlier segment that comes late takes the place of a newer one",
        path="orchestrator/ledger/transitions/segment_writes.py::_checkpoint_write",
        old="if mark <= known.newest or is_same(checkpoint, known.checkpoint):",
        new="if mark.seq <= known.newest.seq or is_same(checkpoint, known.checkpoint):",
        tests=(SEGMENTS + "test_whatever_the_order_of_reports_the_newest_checkpoint_stands",),
    ),
    Fault(
        name="a segment that failed is begun again by /retry",
        path="orchestrator/engine/collecting/result_steps.py::on_failed",
        old="and end is None\nand other",
        new="and other",
        tests=(RESUMABLE + "test_with_each_newer_checkpoint_attempts_are_counted_anew",),
    ),
    Fault(
        name="two submissions of a job are the same segment",
        path="orchestrator/core/jobs/transitions.py::claimed",
        old="segment=job.segment + 1 if is_resumable else job.segment,",
        new="segment=max(job.segment, 1) if is_resumable else job.segment,",
        tests=(
            SEGMENTS + "test_each_run_of_a_resumable_job_is_a_segment_with_the_newest_checkpoint",
            SEGMENTS + "test_a_request_that_had_no_effect_costs_the_number_of_its_segment_and_no_attempt",
        ),
    ),
    Fault(
        name="a late output of a job that was given back is taken for its result",
        path="orchestrator/engine/collecting/notice_steps.py::on_notice",
        old="if in_chunk or (end is not None and end.report is not None):\n    return Instead.NOTHING",
        new="",
        tests=(
            RESUMABLE + "test_a_late_result_of_an_earlier_segment_counts_and_of_one_given_back_only_its_checkpoint",
        ),
    ),
    Fault(
        name="a worker returns before its reports have left",
        path="orchestrator/worker.py::LongJob.__exit__",
        old="self.wait()",
        new="pass",
        tests=("tests/test_worker.py::test_the_end_waits_for_the_reports_under_way",),
    ),
    Fault(
        name="after a restart a stall is counted from the restart",
        path="orchestrator/engine/collecting/segment_tracker.py::SegmentTracker._keep",
        old="self.endpoint.stuck_detector.moved(job, latest.reported_at)",
        new="self.endpoint.stuck_detector.moved(job, sent_at)",
        tests=(RESUMABLE + "test_after_a_restart_a_stall_counts_from_the_last_report",),
    ),
)
