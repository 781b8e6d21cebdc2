"""Answers that are held until their jobs have ended: `/runsync`."""

from tests.planted.faults.fault import Fault

_LANE = "tests/engine/lanes/test_sync_lane.py::"
_RULES = "tests/core/lanes/test_sync_requests.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what left by /runsync is asked for as if it were kept for half an hour",
        path="orchestrator/core/jobs/transitions.py::claimed",
        old="retention_us=SYNC_RETENTION_US if is_sync else None,",
        new="retention_us=None,",
        tests=(f"{_LANE}test_a_job_that_outlives_the_wait_is_asked_for_within_the_minute_that_it_is_kept",),
    ),
    Fault(
        name="a job whose answer was held counts as unfinished only as it was sent",
        path="orchestrator/core/lanes/sync_requests.py::unfinished_at",
        old="return sent_at + wait_us if answered_at - sent_at >= wait_us else sent_at",
        new="return sent_at",
        tests=(f"{_RULES}test_a_job_was_unfinished_as_its_wait_was_over_and_not_later",),
    ),
    Fault(
        name="a held request that was given up is sent again as if the service did not have it",
        path="orchestrator/core/lanes/sync_requests.py::sync_outcome",
        old="if result.status == 408:",
        new="if result.status == 499:",
        tests=(f"{_RULES}test_everything_else_means_what_it_means_of_a_run_but_a_408_is_no_proof",),
    ),
    Fault(
        name="a job that failed within the wait has no id in the ledger for its retry",
        path="orchestrator/engine/lanes/sync_lane.py::SyncLane._is_result",
        old='return record.status == "COMPLETED" and not self._endpoint.output_streams.wants(job.run, record)',
        new="return not self._endpoint.output_streams.wants(job.run, record)",
        tests=(f"{_LANE}test_a_failure_goes_on_by_retry_as_the_ledger_has_its_id",),
    ),
    Fault(
        name="places are held for long jobs beside /run",
        path="orchestrator/engine/sending/run_sender.py::RunSender.is_lane_open",
        old="return self._endpoint.sync_places.are_worth",
        new="return True",
        tests=(f"{_LANE}test_beside_run_no_place_is_held_for_long_jobs_and_that_is_said",),
    ),
    Fault(
        name="an answer that is no result leaves no id behind",
        path="orchestrator/ledger/transitions/submission_writes.py::_settled",
        old='"b_remote_id": over.remote_id if over is not None and is_told else None,',
        new='"b_remote_id": None,',
        tests=(f"{_LANE}test_the_id_of_an_answer_that_was_no_result_is_kept",),
    ),
)
