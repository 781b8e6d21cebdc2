"""Results that come late, cancellations, and what may be paid again."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a result whose chunks were lost on their way is an empty one",
        path="orchestrator/engine/collecting/finished_jobs.py::FinishedJobs.step",
        old="if whole is record and record.output is None and streams.gathers(job.run):",
        new="if False:",
        tests=("tests/engine/endpoint/test_output_streams.py::test_chunks_that_were_lost_on_their_way_are_no_result",),
    ),
    Fault(
        name="chunks that came before an answer was refused are thrown away",
        path="orchestrator/engine/endpoint/output_streams.py::OutputStreams.gathered",
        old="if not is_whole and gathers:",
        new="if not is_whole and gathers and not self._kept.clear():",
        tests=(
            "tests/engine/endpoint/test_output_streams.py::test_what_came_before_an_answer_was_refused_is_not_lost",
        ),
    ),
    Fault(
        name="that a worker yields is told after twenty empty results only",
        path="orchestrator/engine/endpoint/output_streams.py::OutputStreams.wants",
        old="return self.gathers(run) or (run not in",
        new="return self.gathers(run) or (run in",
        tests=(
            "tests/engine/endpoint/test_output_streams.py::test_the_first_empty_output_of_a_worker_that_yields_is_told_at_once",
        ),
    ),
    Fault(
        name="the error of an execution that is tried again is thrown away",
        path="orchestrator/ledger/transitions/execution_writes.py::executions_add",
        old="if failed:\n    await failed_keep(connection, failed)",
        new="",
        tests=(
            "tests/api/inspect/test_failed_executions.py::test_what_failed_and_succeeded_later_is_told_by_job_and_kind",
        ),
    ),
    Fault(
        name="of a run that goes on nothing says what its executions fail of",
        path="orchestrator/api/inspect/status.py::runs_now",
        old="await with_retried(ledger, run, status, is_counted=is_counted)",
        new="status",
        tests=(
            "tests/api/inspect/test_failed_executions.py::test_what_will_still_be_tried_is_among_the_failures_at_once",
        ),
    ),
    Fault(
        name="what failed executions said is kept for ever",
        path="orchestrator/ledger/reports/event_pruning.py::Pruning.forget_events",
        old="await transaction.connection.execute(_FAILED_DELETE, batch_of(ids))",
        new="",
        tests=(
            "tests/conformance/test_pruning.py::test_what_failed_executions_said_goes_with_the_events_of_their_job",
        ),
    ),
    Fault(
        name="a result that comes after its job was given up is thrown away",
        path="orchestrator/engine/collecting/notice_steps.py::on_notice",
        old="return _of_given_up(",
        new="return Instead.NOTHING if is_terminal(job) else _of_given_up(",
        tests=(
            "tests/api/outcomes/test_late_results.py::test_a_result_counts_however_its_job_was_given_up_before",
            "tests/api/outcomes/test_late_results.py::test_what_was_noted_as_a_run_ended_is_taken_up_by_the_next_process_before_it_sends_anything",
        ),
    ),
    Fault(
        name="failed jobs are reopened before what was noted of them is looked at",
        path="orchestrator/engine/engine.py::Engine.collect",
        old="await self.inbox.catch_up()",
        new="",
        tests=(
            "tests/api/outcomes/test_late_results.py::test_who_begins_goes_through_all_notices_before_anything_else",
        ),
    ),
    Fault(
        name="a repetition on its way is not cancelled when the result comes",
        path="orchestrator/core/jobs/transition_type.py::leaves_extra",
        old="return not is_of_latest(step) or (before.state is State.SUBMITTING and before.by_retry)",
        new="return not is_of_latest(step)",
        tests=(
            "tests/api/outcomes/test_late_results.py::test_a_repetition_that_is_being_sent_when_the_result_comes_is_cancelled",
        ),
    ),
    Fault(
        name="submissions that never ran count as paid twice",
        path="orchestrator/ledger/jobs/submissions.py::_BESIDE",
        old='_other.c.ended.is_(None) | literal_column(values_check("other.ended", HAS_RUN)),',
        new="",
        tests=(
            "tests/api/outcomes/test_late_results.py::test_a_submission_is_paid_twice_only_where_another_one_is_known_to_have_run",
        ),
    ),
    Fault(
        name="to continue leaves the cancels owed",
        path="orchestrator/ledger/transactions/run_controls.py::control_set",
        old='if action is ControlAction.CONTINUE:\n    await connection.execute(_TAKE_BACK, {"run": run})',
        new="",
        tests=("tests/engine/maintenance/test_canceller.py::test_continue_takes_back_every_cancel_that_has_not_left",),
    ),
    Fault(
        name="a cancel that waits for its turn is sent though it was taken back",
        path="orchestrator/engine/maintenance/canceller.py::Canceller._cancel",
        old="if not await self._ledger.jobs.cancels.is_owed(submission=owed.submission):",
        new="if False:",
        tests=("tests/engine/maintenance/test_canceller.py::test_continue_takes_back_every_cancel_that_has_not_left",),
    ),
    Fault(
        name="cancels are owed anew by a process that has not heard of the continue",
        path="orchestrator/ledger/jobs/cancels.py::_latest",
        old="        _is_cancelled,\n",
        new="",
        tests=(
            "tests/engine/maintenance/test_canceller.py::test_a_run_that_goes_on_after_all_loses_no_job_to_a_cancelling_that_has_not_heard_of_it",
        ),
    ),
    Fault(
        name="uncertain jobs of a cancelled run wait for their time",
        path="orchestrator/ledger/jobs/cancels.py::_not_there",
        old="if len(found) < most:",
        new="if False:",
        tests=(
            "tests/engine/hosting/test_run_control.py::test_an_uncertain_submission_of_a_cancelled_run_ends_at_once_and_is_not_made_anew",
        ),
    ),
    Fault(
        name="an uncertain submission of a cancelled run is forgotten",
        path="orchestrator/core/jobs/transition_type.py::leaves_in_doubt",
        old="return before is State.UNCERTAIN",
        new="return False",
        tests=(
            "tests/engine/maintenance/test_canceller.py::test_a_cancelled_run_cancels_an_uncertain_submission_once_a_webhook_names_it",
        ),
    ),
    Fault(
        name="cancelled jobs can never be opened again",
        path="orchestrator/engine/commands/retry_jobs.py::GIVEN_UP",
        old="Or((StateIs(State.FAILED), StateIs(State.CANCELLED)))",
        new="Or((StateIs(State.FAILED),))",
        tests=(
            "tests/engine/commands/test_command_inbox.py::test_cancelled_jobs_are_queued_again_when_that_is_asked_and_the_run_goes_on",
            "tests/engine/commands/test_retry_jobs.py::test_failed_and_cancelled_jobs_are_opened_again_unless_the_run_is_to_be_cancelled",
        ),
    ),
    Fault(
        name="a run that stops after failures stops its whole endpoint",
        path="orchestrator/engine/endpoint/run_stops.py::RunStops.stop",
        old="if self._run(run).stop(reason):\n    self._changes.wake()",
        new="self.stop_submitting(reason)",
        tests=(
            "tests/engine/endpoint/test_run_stops.py::test_a_run_that_stops_after_failures_stops_no_other_run_at_its_endpoint",
        ),
    ),
    Fault(
        name="a variable that one run lacks stops its whole endpoint",
        path="orchestrator/engine/sending/request_sender.py::RequestSender.send",
        old="self._endpoint.runs.lack(job.run, error.with_advice, error.names)",
        new="self._endpoint.health.stop_submitting(str(error))",
        tests=(
            "tests/engine/sending/test_dispatcher.py::test_a_vanished_secret_stops_sending_and_is_not_called_a_failure_of_the_job",
        ),
    ),
    Fault(
        name="forgetting old rows goes through all jobs of a run for each page",
        path="orchestrator/ledger/reports/event_pruning.py::_is_old",
        old="unindexed(jobs.c.run_id) == field(0)",
        new="jobs.c.run_id == field(0)",
        tests=(
            "tests/ledger/transactions/test_plans.py::test_no_question_of_the_hot_paths_walks_through_all_jobs_or_sorts_them",
        ),
    ),
    Fault(
        name="the submission that brought a result is forgotten for its age",
        path="orchestrator/ledger/reports/event_pruning.py::_SUBMISSIONS_DOOMED",
        old="outcomes.c.submission_id == submissions.c.id)",
        new="outcomes.c.submission_id < 0)",
        tests=(
            "tests/engine/maintenance/test_pruning.py::test_the_submission_that_brought_the_result_and_those_owed_a_cancel_are_kept",
        ),
    ),
    Fault(
        name="submissions are forgotten while their webhooks may still come",
        path="orchestrator/engine/maintenance/pruning.py::Pruner.run_once",
        old="now - LATE_US - kept_us",
        new="now + LATE_US - kept_us",
        tests=(
            "tests/engine/maintenance/test_pruning.py::test_submissions_that_can_bring_nothing_more_are_forgotten_some_days_after_their_ttl",
        ),
    ),
    Fault(
        name="what was not finished when it was passed over keeps its history",
        path="orchestrator/engine/maintenance/pruning.py::Pruner.run_once",
        old="if now >= self._begun_at + FULL_PASS_EVERY_US:",
        new="if now < self._begun_at:",
        tests=(
            "tests/engine/maintenance/test_pruning.py::test_what_was_not_finished_when_it_was_passed_over_is_gone_through_again_a_day_later",
        ),
    ),
    Fault(
        name="jobs whose TTL is over are paid again without a word",
        path="orchestrator/engine/maintenance/janitor.py::_GONE",
        old="Absence.TTL: FailureClass.TIMED_OUT,",
        new="Absence.TTL: None,",
        tests=(
            "tests/engine/maintenance/test_janitor.py::test_an_absence_longer_than_the_ttl_is_said_to_cost_what_it_costs",
        ),
    ),
    Fault(
        name="submissions whose answer never came count as attempts",
        path="orchestrator/ledger/jobs/results.py::_finished_of",
        old="attempts=row[14] + (row[3] == State.SUCCEEDED and row[17] is None)",
        new="attempts=row[4]",
        tests=(
            "tests/engine/collecting/test_attempts.py::test_executions_that_ended_are_told_from_those_that_may_have_been_paid",
        ),
    ),
    Fault(
        name="a block of the ledger's leaves something outside",
        path="orchestrator/ledger/jobs/claims.py::Claims.take",
        old="async def block(transaction: Transaction) -> tuple[Claimed, frozenset[str]]:",
        new=(
            "now = 0\n\nasync def block(transaction: Transaction) -> tuple[Claimed, frozenset[str]]:\n    nonlocal now"
        ),
        tests=("tests/test_architecture.py::test_what_a_block_of_the_ledger_s_returns_is_built_inside",),
    ),
)
