"""Outputs that are judged, and what becomes of those that cannot be."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="an output that is rejected is thrown away",
        path="orchestrator/core/jobs/job.py::outcome_from",
        old="output=record.output if trouble in (None, FailureClass.INVALID_OUTPUT) else None,",
        new="output=record.output if trouble is None else None,",
        tests=(
            "tests/engine/collecting/test_validation_pool.py::test_the_last_one_is_kept_with_what_is_wrong_with_it",
        ),
    ),
    Fault(
        name="what a webhook brings is not judged",
        path="orchestrator/engine/collecting/webhook_inbox.py::WebhookInbox._is_to_be_validated",
        old="return is_legal(job.state, Event.COMPLETED) and self._validators.is_needed(job.run)",
        new="return False",
        tests=(
            "tests/engine/collecting/test_validation_pool.py::test_what_a_webhook_brings_is_judged_while_others_go_on",
        ),
    ),
    Fault(
        name="whoever judges for an engine stays once that has ended",
        path="orchestrator/engine/hosting/endpoint_registry.py::EndpointRegistry.leave",
        old="self.validators.leave()",
        new="pass",
        tests=("tests/engine/collecting/test_validation_pool.py::test_with_its_engine_ends_who_judged_for_it",),
    ),
    Fault(
        name="a function that judged is kept for good",
        path="orchestrator/engine/collecting/validation_pool.py::ValidationPool.leave",
        old="validator.leave()",
        new="pass",
        tests=("tests/engine/collecting/test_validation_pool.py::test_the_functions_that_judged_are_let_go_of",),
    ),
    Fault(
        name="a thread in which a check hung waits for another call once that has come to its end",
        path="orchestrator/engine/collecting/validation_pool.py::ValidationPool._leave_thread",
        old="self._thread.shutdown()",
        new="pass",
        tests=(
            "tests/engine/collecting/test_hanging_check.py::test_it_is_left_behind_in_bounded_time_and_others_go_on",
        ),
    ),
    Fault(
        name="a run goes on though nobody can judge its outputs",
        path="orchestrator/engine/collecting/result_steps.py::on_completed",
        old="if judged.unjudged is not None:",
        new="if False:",
        tests=(
            "tests/engine/collecting/test_validation_pool.py::test_a_check_that_dies_costs_no_result_and_holds_the_run",
        ),
    ),
    Fault(
        name="a check that ends its thread is a verdict",
        path="orchestrator/engine/user_code/functions.py::UserFunctions._judged",
        old='return TaskResult(died=f"it ended with {error}") if error.is_exit else TaskResult(error=str(error))',
        new="return Answer(error=str(error))",
        tests=(
            "tests/engine/collecting/test_validation_pool.py::test_a_check_that_dies_costs_no_result_and_holds_the_run",
        ),
    ),
    Fault(
        name="a file that has changed judges as if it were the one that was named",
        path="orchestrator/engine/collecting/output_validator.py::_check_unchanged",
        old="if now.sha256 != pinned.sha256:",
        new="if False:",
        tests=(
            "tests/engine/collecting/test_validation_pool.py::test_another_process_holds_the_run_where_the_file_has_changed",
        ),
    ),
    Fault(
        name="a result that is revoked is tried again without end",
        path="orchestrator/core/jobs/revalidation.py::tried_again",
        old="if left <= 0:",
        new="if False:",
        tests=("tests/core/jobs/test_revalidation.py::test_a_job_is_tried_again_with_the_attempts_that_it_has_left",),
    ),
    Fault(
        name="what fails for another reason by now still tells the old one",
        path="orchestrator/core/jobs/revalidation.py::other_reason",
        old="return why if job.state is State.FAILED and why != outcome.message else None",
        new="return None",
        tests=("tests/engine/commands/test_revalidate.py::test_what_fails_for_another_reason_by_now_tells_that_one",),
    ),
    Fault(
        name="what is only looked at is changed",
        path="orchestrator/engine/commands/revalidate.py::Revalidator.recheck",
        old=(
            "if command is not None and (steps or restated):\n    done = await self.ledger.commands.apply(\n        command.id, steps,"
        ),
        new=(
            "if steps or restated:\n    done = await self.ledger.commands.apply(\n        command.id if command else 0, steps,"
        ),
        tests=(
            "tests/engine/commands/test_revalidate.py::test_results_that_are_none_any_more_are_tried_again_by_policy",
        ),
    ),
    Fault(
        name="an output that is good after all counts as a failed execution",
        path="orchestrator/core/jobs/revalidation.py::step_of",
        old="failures=max(0, job.failures - 1))",
        new="failures=job.failures)",
        tests=(
            "tests/core/jobs/test_revalidation.py::test_an_output_that_is_good_by_now_is_a_result_and_no_failed_execution",
        ),
    ),
    Fault(
        name="a cancelled run whose outputs are judged anew goes on",
        path="orchestrator/engine/commands/revalidate.py::Revalidator.recheck",
        old="max_attempts=0 if is_cancelled else settings.max_attempts)",
        new="max_attempts=settings.max_attempts)",
        tests=("tests/engine/commands/test_revalidate.py::test_of_a_cancelled_run_nothing_is_tried_again",),
    ),
    Fault(
        name="what comes after outputs were judged anew is judged by the old rules",
        path="orchestrator/engine/commands/revalidate.py::Revalidator.recheck_asked",
        old="self.settings_of[run.id] = settings",
        new="",
        tests=(
            "tests/engine/commands/test_revalidate.py::test_who_works_on_the_ledger_carries_it_out_and_goes_by_it_from_then_on",
        ),
    ),
    Fault(
        name="outputs are judged anew that are in the next stage already",
        path="orchestrator/api/admin/revalidate.py::wanted_of",
        old="if await ledger.flows.handovers.is_handed_on(run.id):",
        new="if False:",
        tests=("tests/api/flows/test_stages.py::test_rows_go_from_stage_to_stage_and_each_leads_back_to_the_input",),
    ),
)
