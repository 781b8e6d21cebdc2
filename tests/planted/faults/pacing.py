"""Small limits, when to ask, and which job goes next."""

from tests.planted.faults.fault import Fault

ADMISSION = "tests/engine/sending/test_ttl_filter.py"
LOW_LIMIT = "tests/core/limits/test_rate_pacer_low_limit.py"
CLAIMS = "tests/conformance/test_claims.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="round trips are given no room at small limits",
        path="orchestrator/core/limits/rate_pacer.py::Pacer._set_share",
        old="full_ns = 1000 * max(gap_us, window_us / (EVEN_SHARE * requests))",
        new="full_ns = 1000 * window_us / (EVEN_SHARE * requests)",
        tests=(
            "tests/core/limits/test_rate_pacer.py::test_in_virtual_hours_small_limits_draw_no_429_by_any_way_of_counting",
        ),
    ),
    Fault(
        name="of a low limit nearly nothing is left where many are refused",
        path="orchestrator/core/limits/rate_pacer.py::Pacer._set_share",
        old="min(full_ns / used, max(full_ns, 1000 * window_us))",
        new="full_ns / used",
        tests=(f"{LOW_LIMIT}::test_under_a_low_limit_one_request_leaves_in_each_window_whatever_is_refused",),
    ),
    Fault(
        name="round trips are not measured",
        path="orchestrator/core/limits/rate_pacer.py::Pacer._took",
        old="self._trip_us = trip_us",
        new="pass",
        tests=("tests/core/limits/test_rate_pacer.py::test_the_spacing_follows_the_longest_round_trip_of_late",),
    ),
    Fault(
        name="a window may be quite full",
        path="orchestrator/core/limits/request_spacing.py::least_gap_us",
        old="return 2 * window_us + spread_us",
        new="return window_us + spread_us",
        tests=(
            "tests/core/limits/test_rate_pacer.py::test_in_virtual_hours_small_limits_draw_no_429_by_any_way_of_counting",
        ),
    ),
    Fault(
        name="questions to spare are not used",
        path="orchestrator/core/polling/poll_budget.py::PollBudget._weighed",
        old="if self.is_free(outstanding):\n    return True",
        new="return False",
        tests=(
            "tests/simulation/test_questions.py::test_a_lone_job_that_takes_half_as_long_as_the_two_before_it_is_collected_soon",
        ),
    ),
    Fault(
        name="two durations are taken for all there can be",
        path="orchestrator/core/polling/latency.py::DurationHistogram._over_by_us",
        old="min(1.0, (FEW_OBSERVED / longer) ** 4)",
        new="0.0",
        tests=(
            "tests/simulation/test_questions.py::test_a_lone_job_that_takes_half_as_long_as_the_two_before_it_is_collected_soon",
            "tests/engine/collecting/test_question_turns.py::test_a_lone_job_is_collected_soon_although_the_two_before_it_took_twice_as_long",
        ),
    ),
    Fault(
        name="a thousand jobs are asked for as closely as one",
        path="orchestrator/core/polling/poll_budget.py::PollBudget.is_free",
        old="return outstanding <= max(1.0, self._per_s * FREE_SHARE)",
        new="return outstanding >= 0",
        tests=(
            "tests/simulation/test_questions.py::test_however_long_executions_take_and_jobs_queue_two_questions_suffice_at_full_speed",
        ),
    ),
    Fault(
        name="when an execution began is not looked at",
        path="orchestrator/core/polling/remote_queue.py::begun_at_of",
        old="return begun_at if begun_at <= now else None",
        new="return None",
        tests=(
            "tests/engine/collecting/test_question_turns.py::test_a_job_that_has_waited_in_a_queue_is_asked_for_by_when_the_service_says_that_it_began",
        ),
    ),
    Fault(
        name="everybody in a queue is asked for, not only the first",
        path="orchestrator/core/polling/remote_queue.py::RemoteQueue.waits",
        old="self._waiting, self._waiting_at = number, now",
        new="",
        tests=(
            "tests/core/polling/test_poll_plan.py::test_while_one_waits_in_the_queue_those_behind_it_are_not_asked_for",
        ),
    ),
    Fault(
        name="times that were planned for many jobs stay when few are left",
        path="orchestrator/core/polling/ask_times.py::AskTimes.are_outdated",
        old="return is_news or self.budget.has_changed(outstanding)",
        new="return is_news",
        tests=("tests/core/polling/test_poll_plan.py::test_when_questions_are_to_spare_again_all_are_planned_anew",),
    ),
    Fault(
        name="what is missing at its deadline takes all questions",
        path="orchestrator/core/polling/poll_deadlines.py::Deadlines.put_in",
        old="max(entry.deadline, entry.safe_second * SECOND_US) if entry.is_missing else entry.deadline",
        new="entry.deadline",
        tests=(
            "tests/core/polling/test_poll_plan_missing.py::test_a_job_missing_at_its_deadline_lets_those_go_first_that_had_no_question",
        ),
    ),
    Fault(
        name="what is missing is planned anew as if it were there",
        path="orchestrator/core/polling/poll_plan.py::PollPlan._plan_timeless",
        old="if entry is None or entry.is_asked or entry.troubles or entry.is_missing:",
        new="if entry is None or entry.is_asked or entry.troubles or entry.gone_at is not None:",
        tests=("tests/core/polling/test_poll_plan_missing.py::test_planning_anew_leaves_what_is_missing_alone",),
    ),
    Fault(
        name="a TTL of the run that is too late holds back rows with a longer one",
        path="orchestrator/engine/sending/claim_turns.py::ClaimTurns.admissible",
        old="room = self._room(run, operation, are_in_turns=are_in_turns)",
        new=(
            "ttl_us = self._endpoint.settings_of[run.run].ttl_us\nif run._prospects.outlook().of(ttl_us).name == 'LATE':\n    return 0\nroom = self._room(run, operation, are_in_turns=are_in_turns)"
        ),
        tests=(
            f"{ADMISSION}::test_a_ttl_of_the_whole_run_that_would_end_in_the_queue_holds_nobody_back_who_has_a_longer_one",
        ),
    ),
    Fault(
        name="what was good once is sent however long it waits",
        path="orchestrator/engine/sending/lane_sender.py::LaneSender._send",
        old="good = None  # while we wait anything may change",
        new="",
        tests=(
            "tests/engine/sending/test_dispatcher.py::test_claimed_jobs_are_given_back_where_going_on_has_become_pointless_while_they_waited",
        ),
    ),
    Fault(
        name="jobs whose TTL is too short for the queue are claimed",
        path="orchestrator/core/polling/admission.py::TtlOutlook.is_late",
        old="return self.of(ttl_us) is TtlVerdict.LATE",
        new="return False",
        tests=(
            f"{ADMISSION}::test_while_their_ttl_would_end_in_the_queue_jobs_leave_no_trace_in_the_ledger_and_then_they_go",
        ),
    ),
    Fault(
        name="jobs that were passed over do not go when the queue is short",
        path="orchestrator/engine/sending/run_sender.py::RunSender.none_s",
        old="return 0.0 if self._prospects.have_changed() else",
        new="return",
        tests=(
            f"{ADMISSION}::test_while_their_ttl_would_end_in_the_queue_jobs_leave_no_trace_in_the_ledger_and_then_they_go",
        ),
    ),
    Fault(
        name="nobody is looked for among those that were passed over",
        path="orchestrator/engine/sending/ttl_filter.py::TtlFilter._is_due_again",
        old="return self._passed.due_at > 0 and self._clock.now() >= self._again_at",
        new="return False",
        tests=(f"{ADMISSION}::test_who_turns_up_among_those_that_were_passed_over_goes_within_a_minute",),
    ),
    Fault(
        name="a look along the line meets the same late jobs again",
        path="orchestrator/ledger/jobs/claim_queue.py::queue_walk",
        old="replace(line, behind=passed)",
        new="line",
        tests=(f"{CLAIMS}::test_a_look_meets_a_bounded_number_of_late_jobs_and_never_the_same_ones_again",),
    ),
    Fault(
        name="who is due at the same time as one that was passed over is forgotten",
        path="orchestrator/ledger/jobs/claim_queue.py::jobs_claimable",
        old="if behind.due_at:",
        new="if False:",
        tests=(f"{CLAIMS}::test_those_who_waited_for_a_time_are_passed_over_by_their_times_and_numbers",),
    ),
    Fault(
        name="a look along the line meets as many late jobs as there are",
        path="orchestrator/ledger/jobs/claim_queue.py::queue_walk",
        old="max(most, LOOK_MAX) - met",
        new="10**6",
        tests=(f"{CLAIMS}::test_a_look_meets_a_bounded_number_of_late_jobs_and_never_the_same_ones_again",),
    ),
    Fault(
        name="nobody asks whether a silent endpoint is back for the sake of jobs that were passed over",
        path="orchestrator/engine/sending/run_sender.py::RunSender.none_s",
        old="return 0.0 if self._prospects.have_changed() else min(none_s, AHEAD_US / SECOND_US)",
        new="return min(none_s, AHEAD_US / SECOND_US)",
        tests=(f"{ADMISSION}::test_jobs_that_were_passed_over_go_to_an_idle_endpoint_that_was_silent",),
    ),
)
