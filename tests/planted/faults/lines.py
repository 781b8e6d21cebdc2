"""Narrow lines, large bodies, and time-outs."""

from typing import Final

from tests.planted.faults.fault import Fault

HOOKS: Final = "tests/web/test_webhook_routes.py"
CLAIMS: Final = "tests/conformance/test_claims.py"
NARROW: Final = "tests/engine/sending/test_claimed_jobs.py"
LARGE: Final = "tests/client/http/test_large_bodies.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="whoever was asleep gives up before it has read what came",
        path="orchestrator/client/http/idle_timeout.py::IdleWatch._tick",
        old="is_late = slept or self._ticked_s > self._next_s + LATE_S",
        new="is_late = False",
        tests=(
            "tests/client/http/test_idle_timeout.py::test_answers_that_came_while_the_process_was_stopped_are_read",
        ),
    ),
    Fault(
        name="time in which the process was stopped counts",
        path="orchestrator/client/http/idle_timeout.py::IdleWatch.awake_s",
        old="return self._awake_s + min(self._loop.time() - self._ticked_s, TICK_S)",
        new="return self._awake_s + self._loop.time() - self._ticked_s",
        tests=("tests/client/http/test_idle_timeout.py::test_time_in_which_the_process_was_stopped_does_not_count",),
    ),
    Fault(
        name="the listener closes on waking what it has not read yet",
        path="orchestrator/web/listener_connection.py::_was_asleep",
        old="return loop.time() > timer.when() + LATE_S",
        new="return False",
        tests=("tests/web/test_listener_connection.py::test_a_head_that_came_while_the_process_was_stopped_is_read",),
    ),
    Fault(
        name="a body of which some is still to come is read as if it were whole",
        path="orchestrator/web/listener_connection.py::WebhookConnection.on_headers_complete",
        old="super().on_headers_complete()",
        new='super().on_headers_complete()\nself.scope["state"][WHOLE_BODY] = True',
        tests=("tests/web/test_listener_connection.py::test_it_is_told_of_each_request_whether_its_body_has_come",),
    ),
    Fault(
        name="a request leads back to itself, and outlives its answer",
        path="orchestrator/web/listener_connection.py::WebhookConnection.on_message_complete",
        old='self.scope["state"][WHOLE_BODY] = True  #',
        new='self.scope["state"][WHOLE_BODY] = self.cycle  #',
        tests=("tests/web/test_listener_connection.py::test_nothing_of_a_request_is_left_for_the_collector_of_cycles",),
    ),
    Fault(
        name="bytes that come are no reason to wait on",
        path="orchestrator/client/http/idle_timeout.py::IdleTimeout.left_s",
        old="self._seen, self._quiet_since_s = self.moved, now_s",
        new="self._seen = self.moved",
        tests=("tests/client/http/test_idle_timeout.py::test_a_long_answer_has_its_time_as_long_as_it_comes",),
    ),
    Fault(
        name="a byte now and then is enough to be waited for",
        path="orchestrator/client/http/idle_timeout.py::IdleTimeout.left_s",
        old="in_all_s = self._limit_s + self.moved / self._rate_min",
        new="in_all_s = 1e9",
        tests=("tests/client/http/test_idle_timeout.py::test_whoever_sends_a_byte_now_and_then_is_given_up",),
    ),
    Fault(
        name="all large bodies share the line at once",
        path="orchestrator/core/limits/transfer_slots.py::SharedLine.has_room",
        old="(self.bodies < self.at_once and self._held + size <= self._bytes_max)",
        new="True",
        tests=(
            f"{LARGE}::test_small_answers_do_not_wait_for_large_ones",
            "tests/core/limits/test_transfer_slots.py::test_all_together_hold_no_more_than_memory_allows_but_one_may_always_go",
        ),
    ),
    Fault(
        name="answers that wait for their place are given up",
        path="orchestrator/client/http/idle_timeout.py::IdleTimeout.paused",
        old="self._began_s += now_s - self._paused_s\nself._quiet_since_s = now_s",
        new="",
        tests=("tests/client/http/test_idle_timeout.py::test_nothing_is_waited_for_while_it_is_paused",),
    ),
    Fault(
        name="a request that was cut before it had left counts as unanswered",
        path="orchestrator/client/http/backends.py::AiohttpCarrier.carry",
        old="idle_timeout.is_cut = upload.cut()",
        new="upload.cut()",
        tests=(f"{LARGE}::test_a_request_cut_before_all_of_it_had_left_counts_as_not_sent",),
    ),
    Fault(
        name="what the transport holds of a request that was given up leaves all the same",
        path="orchestrator/client/http/bodies.py::Upload.cut",
        old="transport.abort()",
        new="",
        tests=(f"{LARGE}::test_a_request_that_stands_still_counts_as_not_sent_and_the_rest_of_it_never_arrives",),
    ),
    Fault(
        name="claims take as many large inputs as there are turns",
        path="orchestrator/ledger/jobs/payloads.py::payloads_of",
        old="if room < 0 and (found or not at_least_one):\n    break",
        new="",
        tests=(f"{CLAIMS}::test_the_inputs_of_a_claim_come_to_no_more_than_it_may_hold_but_one_may_always_go",),
    ),
    Fault(
        name="jobs are claimed however much their inputs hold already",
        path="orchestrator/core/gates/gates.py::memory",
        old="Open(0) if room.input_bytes <= 0 else ANY",
        new="ANY",
        tests=(f"{NARROW}::test_the_inputs_of_jobs_that_are_claimed_or_in_flight_are_bounded_in_memory",),
    ),
    Fault(
        name="jobs are claimed while others wait for the line",
        path="orchestrator/core/gates/gates.py::line",
        old="Open(0) if room.line_is_full else ANY",
        new="ANY",
        tests=(f"{NARROW}::test_nothing_is_claimed_while_large_inputs_wait_for_the_line",),
    ),
    Fault(
        name="questions go while large answers wait for the line",
        path="orchestrator/engine/collecting/collector.py::Collector._poll",
        old="await self._endpoint.api.down.clear()",
        new="pass",
        tests=(f"{NARROW}::test_no_question_is_asked_while_large_answers_wait_for_the_line",),
    ),
    Fault(
        name="jobs are sent as if the line brought every answer at once",
        path="orchestrator/engine/endpoint/estimates.py::EndpointEstimates.status_per_s",
        old="return allowed if brought is None else min(allowed, brought)",
        new="return allowed",
        tests=(f"{NARROW}::test_no_more_jobs_are_at_the_service_than_the_line_brings_back_in_time",),
    ),
    Fault(
        name="large webhooks wait for the line until their sender gives up",
        path="orchestrator/web/webhook_routes.py::_Download.finds_place",
        old="with anyio.move_on_after(within_s):\n    self._place",
        new="with anyio.CancelScope():\n    self._place",
        tests=(f"{HOOKS}::test_a_large_body_that_finds_no_place_on_the_line_is_soon_a_hint",),
    ),
    Fault(
        name="a request that left in part gives its slot back at once",
        path="orchestrator/client/jobs/serverless.py::ServerlessEndpoint.send",
        old="may have counted it by its head\n    permit.given_up(self._clock.now())",
        new="may have counted it by its head\n    permit.not_sent()",
        tests=("tests/client/jobs/test_serverless.py::test_a_request_that_left_in_part_may_have_been_counted",),
    ),
    Fault(
        name="however many large webhooks wait for the line, another one waits too",
        path="orchestrator/web/webhook_routes.py::_Download.finds_place",
        old="self._places.waiting < WAITING_MAX",
        new="True",
        tests=(f"{HOOKS}::test_where_many_large_bodies_wait_for_the_line_another_one_is_a_hint_at_once",),
    ),
    Fault(
        name="the answer of a large request is waited for from its beginning",
        path="orchestrator/client/http/bodies.py::Upload._write",
        old="self._idle_timeout.moved += len(piece)\nself.slot.moved(len(piece))",
        new="self.slot.moved(len(piece))",
        tests=(f"{LARGE}::test_one_request_may_take_longer_than_our_patience_as_long_as_it_leaves",),
    ),
)
