"""Rows that travel together: what happens to one happens to all, until each has its own end."""

from tests.planted.faults.fault import Fault

STEPS = "tests/core/chunks/test_chunk_steps.py::"
FORM = "tests/core/chunks/test_chunk_form.py::"
LEDGER = "tests/conformance/test_chunks.py::"
ENGINE = "tests/engine/chunks/test_chunks.py::"
TROUBLES = "tests/engine/chunks/test_troubles.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a row that rides in a chunk is asked for",
        path="orchestrator/engine/endpoint/outstanding_jobs.py::OutstandingJobs.on_steps",
        old="if step.after.is_carried and step.before.is_carried:",
        new="if step.after.batch is not None and step.before.batch is not None:",
        tests=(ENGINE + "test_while_they_are_at_the_service_their_first_is_asked_for_and_none_of_the_others",),
        worlds=("chunks", 0, 1),
    ),
    Fault(
        name="riders are left behind when their lead takes a step",
        path="orchestrator/ledger/transitions/apply_transitions.py::transitions_apply",
        old="if led:",
        new="if False:",
        tests=(LEDGER + "test_a_step_of_the_first_is_one_of_all_and_a_stale_one_of_none",),
        worlds=("chunks", 0, 1),
    ),
    Fault(
        name="a row of which a chunk that ended told nothing is lost",
        path="orchestrator/core/chunks/chunk_steps.py::riders_steps",
        old="return [own[rider.id] if rider.id in own else _ridden(step, rider) for rider in there]",
        new="return list(step.riders) or [_ridden(step, rider) for rider in there]",
        tests=(STEPS + "test_where_the_chunk_has_ended_each_has_a_step_of_its_own_and_one_without_goes_again",),
    ),
    Fault(
        name="a chunk that failed is sent again as it was",
        path="orchestrator/core/chunks/chunk_steps.py::_half",
        old="return max(1, job.chunk_rows // 2)",
        new="return job.chunk_rows",
        tests=(STEPS + "test_a_chunk_that_failed_goes_again_in_halves_and_costs_no_attempt",),
        worlds=("chunks", 0, 1),
    ),
    Fault(
        name="with how many a row may travel is not written down",
        path="orchestrator/ledger/transitions/apply_transitions.py::_GIVING",
        old="_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED, Event.DEFERRED})",
        new="_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED})",
        tests=(TROUBLES + "test_a_chunk_that_the_service_will_not_have_is_halved_and_nothing_is_counted",),
    ),
    Fault(
        name="a chunk is tried again by /retry",
        path="orchestrator/engine/collecting/result_steps.py::on_failed",
        old="and job.chunk is None\n",
        new="",
        tests=(ENGINE + "test_a_row_of_which_the_handler_says_that_it_failed_is_tried_again_by_itself",),
    ),
    Fault(
        name="rows of different troubles travel together",
        path="orchestrator/ledger/jobs/claims.py::_packed",
        old="*(each.payload.policy, each.payload.s3_config, each.ttl_us),",
        new="",
        tests=(LEDGER + "test_rows_with_other_settings_do_not_travel_together",),
    ),
    Fault(
        name="one row of a chunk that is cancelled takes the others with it",
        path="orchestrator/ledger/jobs/cancels.py::_DUE",
        old="_IS_WHOLE,",
        new="",
        tests=(
            LEDGER + "test_a_chunk_is_cancelled_when_people_want_none_of_it_any_more",
            TROUBLES + "test_one_row_of_a_chunk_is_not_cancelled_and_all_of_them_are",
        ),
    ),
    Fault(
        name="parts that name their rows are taken by place",
        path="orchestrator/core/chunks/chunk_form.py::_parts_by_id",
        old="return [found[each] for each in ids]",
        new="return list(found.values())",
        tests=(
            FORM + "test_parts_may_name_their_rows",
            ENGINE + "test_parts_that_name_their_rows_may_come_in_any_order",
        ),
        worlds=("chunks", 4, 1),
    ),
    Fault(
        name="an output of too few parts is taken as far as it goes",
        path="orchestrator/core/chunks/chunk_form.py::ChunkForm.split",
        old="if len(elements) != len(ids):",
        new="if len(elements) > len(ids):",
        tests=(FORM + "test_what_is_no_output_of_these_rows",),
        worlds=("chunks", 7, 1),
    ),
    Fault(
        name="the output of a whole chunk is taken from a webhook for that of its first row",
        path="orchestrator/engine/collecting/notice_steps.py::_of_latest",
        old="is_told_by_status = job.chunk is not None or endpoint",
        new="is_told_by_status = endpoint",
        tests=(TROUBLES + "test_where_a_webhook_has_not_all_of_a_chunk_status_is_asked",),
        worlds=("chunks", 1, 1),
    ),
    Fault(
        name="what a webhook brings of a chunk is asked for once more, and lost where that comes to nothing",
        path="orchestrator/engine/collecting/chunk_results.py::ChunkResults.steps_by_webhook",
        old="if not parts:",
        new="if True:",
        tests=(TROUBLES + "test_a_webhook_brings_what_is_in_a_chunk_and_nobody_else_is_asked",),
        worlds=("saves", 135, 1),
    ),
    Fault(
        name="rows whose chunk was given up are executed again though its result has come",
        path="orchestrator/engine/collecting/chunk_results.py::ChunkResults.steps_by_webhook",
        old="and job.state not in AT_SERVICE",
        new="and job.state not in {*AT_SERVICE, State.QUEUED}",
        tests=(TROUBLES + "test_what_was_given_up_and_ends_all_the_same_is_not_executed_again",),
    ),
    Fault(
        name="rows that wait take no late result of their chunk while its first one is on its way again",
        path="orchestrator/engine/collecting/webhook_inbox.py::WebhookInbox._is_to_be_validated",
        old="job.state is not State.UNCERTAIN or job.submission != notice.submission",
        new="job.state is not State.UNCERTAIN",
        tests=(TROUBLES + "test_rows_that_wait_take_a_late_result_also_while_the_first_of_them_is_on_its_way_again",),
    ),
    Fault(
        name="the time of a chunk counts for each of its rows",
        path="orchestrator/core/chunks/chunk_steps.py::share_of",
        old="return replace(record, execution_ms=whole * (place + 1) // rows - whole * place // rows)",
        new="return record",
        tests=(
            STEPS + "test_the_time_of_a_chunk_is_shared_out_to_the_last_millisecond",
            ENGINE + "test_rows_travel_together_and_have_their_own_results",
        ),
    ),
    Fault(
        name="chunks are cut short by what one claim takes",
        path="orchestrator/ledger/jobs/claims.py::_chunks_in",
        old="has_more=not seen.is_at_end",
        new="has_more=False",
        tests=(
            "tests/conformance/test_chunks.py::test_a_chunk_is_as_large_as_it_may_be_however_much_is_claimed_at_once",
        ),
    ),
)
