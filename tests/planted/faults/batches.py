"""The service's own Batch: what the emulator does of it, what our client believes, and what a lane may not do."""

from tests.planted.faults.fault import Fault

WORLD = "tests/emulator/batches/test_batches.py::"
ROUTES = "tests/emulator/job_api/test_batch_routes.py::"
CLIENT = "tests/client/test_batches_emulated.py::"
MEANT = "tests/core/lanes/test_batch_outcomes.py::"
LOST = "tests/engine/batches/test_lost_answers.py::"
ENDS = "tests/engine/batches/test_ends.py::"
WORK = "tests/engine/batches/test_batch_work.py::"
EPISODES = "tests/engine/flows/test_run_episodes.py::"
HIDDEN = "tests/engine/batches/test_hidden_endpoint.py::"
LEFT = "tests/engine/batches/test_left_drafts.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what waits of a batch that is cancelled is executed all the same",
        path="orchestrator/emulator/batches/batch_table.py::BatchTable.end",
        old="if job.status is ServiceStatus.IN_QUEUE:",
        new="if False:",
        tests=(WORLD + "test_what_waits_is_cancelled_and_what_runs_ends_and_is_paid",),
    ),
    Fault(
        name="the answer to a change of a batch is never lost",
        path="orchestrator/emulator/job_api/batch_routes.py::BatchApi._answer",
        old="return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(reply), changes=changes)",
        new="return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(reply))",
        tests=(ROUTES + "test_an_answer_is_lost_after_the_change_was_made",),
    ),
    Fault(
        name="the workers of an endpoint's batches are an endpoint",
        path="orchestrator/emulator/http/gate.py::Gate._is_known",
        old=(
            "if endpoint in self._hidden or endpoint != endpoint_of(endpoint)"
            " or self._endpoints.propagates(endpoint, now):"
        ),
        new="if endpoint in self._hidden or self._endpoints.propagates(endpoint, now):",
        tests=(ROUTES + "test_the_workers_of_batches_are_no_endpoint",),
    ),
    Fault(
        name="a change of a batch is repeated where it is not answered",
        path="orchestrator/client/jobs/endpoint_batches.py::EndpointBatches._change",
        old="return await self._checked.sent(doing, Operation.BATCH, send, read)",
        new="return await self._checked.asked_by(doing, Operation.BATCH, send, read)",
        tests=(CLIENT + "test_a_change_whose_answer_is_lost_is_not_made_twice",),
    ),
    Fault(
        name="another page than was asked for is believed",
        path="orchestrator/core/service/batches.py::read_batch_page",
        old="if counts.offset not in (None, offset):",
        new="if False:",
        tests=(MEANT + "test_another_page_than_was_asked_for_is_none",),
    ),
    Fault(
        name="ids are taken for those of rows though there are fewer, or one stands twice",
        path="orchestrator/core/service/batches.py::_request_ids",
        old="return ids if requests and len(named) == len(set(ids)) == requests else None",
        new="return ids or None",
        tests=(MEANT + "test_ids_that_are_not_one_for_each_request_are_none",),
    ),
    Fault(
        name="a draft is finalized whatever is in it",
        path="orchestrator/engine/batches/drafts.py::Drafts.finalize",
        old="if said.total != rows:",
        new="if False:",
        tests=(LOST + "test_requests_that_are_taken_twice_are_never_finalized",),
    ),
    Fault(
        name="places within an append tell which row is which before anything has shown that they do",
        path="orchestrator/core/batches/appends.py::what_is_in",
        old=("return Matched(tuple(new)) if pending == 1 or len(known) >= PROVEN_BY else Mixed(Why.UNTOLD)"),
        new="return Matched(tuple(new))",
        tests=(LOST + "test_before_that_the_draft_is_dropped_unpaid_and_its_rows_go_into_another_one",),
    ),
    Fault(
        name="what a process that is gone was adding to a draft is taken for lost before it may have arrived",
        path="orchestrator/engine/batches/appends.py::Appends.settle",
        old="if len(listed) < len(known) + len(left) and self.endpoint.clock.now() < found.late_until:",
        new="if False:",
        tests=(LEFT + "test_what_a_killed_process_was_adding_may_arrive_before_it_is_taken_for_lost",),
    ),
    Fault(
        name="what a deposed process was adding to a draft is taken for lost as soon as where one let go",
        path="orchestrator/engine/batches/open_batch.py::OpenBatch.doubt_left",
        old="self.late_until = now + (SETTLED_US_MIN if is_successor else SETTLE_US)",
        new="self.late_until = now + SETTLE_US",
        tests=(LEFT + "test_what_a_deposed_one_was_adding_may_arrive_as_late_as_anything_of_it",),
    ),
    Fault(
        name="a batch is taken for gone while its endpoint is unknown",
        path="orchestrator/engine/batches/batch_requests.py::BatchRequests._is_gone",
        old="if not isinstance(listed, BatchList) or remote_id is None:\n    return False",
        new="if not isinstance(listed, BatchList) or remote_id is None:\n    return True",
        tests=(HIDDEN + "test_while_an_endpoint_is_unknown_none_of_its_batches_is_taken_for_gone",),
        worlds=("batches", 100, 60),
    ),
    Fault(
        name="a row that people have cancelled in its batch is sent again",
        path="orchestrator/engine/batches/page_reader.py::PageReader._step_of_rest",
        old="if said.is_cancelled and job.id in cancelled:",
        new="if False:",
        tests=(ENDS + "test_a_row_that_people_cancel_stays_in_its_batch_and_is_never_sent_again",),
    ),
    Fault(
        name="what a batch has executed costs as much as by /run",
        path="orchestrator/core/gates/ended_executions.py::is_in_batch",
        old="return step.before.batch is not None and by in (None, step.before.submission)",
        new="return False",
        tests=(WORK + "test_what_batches_have_executed_costs_less_and_the_rest_does_not",),
    ),
    Fault(
        name="when a run ends is told by its pace though its batches wait",
        path="orchestrator/core/diagnosis/verdict.py::_eta_at",
        old="if run.batches is not None:",
        new="if False:",
        tests=("tests/core/diagnosis/test_verdict.py::test_while_batches_wait_no_pace_tells_when_it_is_over",),
    ),
    Fault(
        name="that batches wait is told as a standstill",
        path="orchestrator/api/inspect/standstill.py::_look",
        old="is_expected=found is not None and found.cause is Cause.BATCH_WAITS,",
        new="is_expected=False,",
        tests=(EPISODES + "test_that_batches_wait_is_told_to_nobody_and_that_one_is_stuck_once",),
    ),
)
