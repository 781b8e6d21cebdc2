"""Brakes: what trips them, what they let go, and what they cost."""

from tests.planted.faults.fault import Fault

BREAKER = "tests/core/gates/test_failure_breaker.py::"
BRAKES = "tests/core/gates/test_brake_gates.py::"
COSTS = "tests/core/gates/test_costs.py::"
DIAGNOSIS = "tests/core/diagnosis/test_run_rules.py::"
COMMAND = "tests/api/inspect/test_brakes_command.py::"
FLOWS = "tests/api/flows/test_braked_flows.py::"
STALLED = "tests/api/foreground/test_stall_timeout.py::"
ENGINE = "tests/engine/sending/test_served_brakes.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a flow of which a brake stops a run is said to be running",
        path="orchestrator/engine/flows/flow_executor.py::FlowExecutor._look",
        old="await self._look_at_brakes()",
        new="",
        tests=(
            FLOWS + "test_a_breaker_that_opens_holds_the_flow_is_told_once_and_lets_it_go_on_by_itself",
            FLOWS + "test_whatever_brake_stops_a_run_holds_its_flow_until_people_go_on",
        ),
    ),
    Fault(
        name="a flow that a brake has held stays held though the brake lets it go on",
        path="orchestrator/engine/flows/flow_executor.py::FlowExecutor._look_at_brakes",
        old="elif why is None and self.flow.is_braked:",
        new="elif False:",
        tests=(FLOWS + "test_a_flow_goes_on_once_the_brake_lets_its_run_go_on",),
    ),
    Fault(
        name="where a brake has stopped a run and nobody works, resume is advised alone",
        path="orchestrator/core/diagnosis/ledger_rules.py::process",
        old="and run.hold is None):",
        new="):",
        tests=(
            DIAGNOSIS + "test_what_a_brake_stopped_is_told_with_what_lifts_it_and_not_as_work_for_a_process",
            COMMAND + "test_after_a_brake_has_stopped_a_run_and_nobody_works_it_is_named_with_what_lifts_it",
        ),
    ),
    Fault(
        name="what people have lifted is still said to hold the run",
        path="orchestrator/ledger/transactions/run_controls.py::continue_write",
        old='{"run_id": run, "continued_at": at, "held_by": None}',
        new='{"run_id": run, "continued_at": at, "held_by": b\'{"brake":"breaker","why":"it is open"}\'}',
        tests=("tests/conformance/test_brakes.py::test_what_holds_a_run_is_kept_until_people_lift_it",),
    ),
    Fault(
        name="what people retry meets a breaker that failures of before have tripped",
        path="orchestrator/engine/sending/run_brakes.py::RunBrakes.on_step",
        old="self._breaker.try_again()",
        new="",
        tests=(ENGINE + "test_what_people_retry_is_judged_by_itself_and_ends_soon",),
    ),
    Fault(
        name="the last few jobs are executed one a minute though none has ever succeeded",
        path="orchestrator/core/gates/failure_breaker.py::Breaker._waits_for_people",
        old="are_few, are_tried = left <= rules.first, self.state.probes >= PROBES_MAX",
        new="are_few, are_tried = False, self.state.probes >= PROBES_MAX",
        tests=(
            BREAKER + "test_where_few_are_left_that_never_worked_it_waits_for_people_at_once",
            ENGINE + "test_what_people_retry_is_judged_by_itself_and_ends_soon",
        ),
    ),
    Fault(
        name="before the first results any number is out, however few may fail",
        path="orchestrator/core/gates/brake_gates.py::failures_gate",
        old="if brakes.succeeded or at_first is None:",
        new="if True:",
        tests=(
            BRAKES + "test_before_the_first_success_no_more_are_out_than_have_to_fail",
            ENGINE + "test_no_more_are_out_before_the_first_success_than_may_fail",
        ),
    ),
    Fault(
        name="before the first success as many go as there is room for",
        path="orchestrator/core/gates/failure_breaker.py::Breaker._first",
        old="if more > 0:\n    self._bound_since = None\n    return Open(more)",
        new="if more > 0:\n    self._bound_since = None\n    return ANY",
        tests=(
            BREAKER + "test_before_the_first_success_no_more_go_than_have_to_fail",
            ENGINE + "test_a_broken_handler_costs_25_executions_and_not_900",
        ),
    ),
    Fault(
        name="jobs that are claimed at this moment are not counted",
        path="orchestrator/core/gates/failure_breaker.py::Breaker.gate_result",
        old="more = rules.first - at_service - claiming",
        new="more = rules.first - at_service",
        tests=(BREAKER + "test_before_the_first_success_no_more_go_than_have_to_fail",),
    ),
    Fault(
        name="a breaker that has never seen a success tries for ever",
        path="orchestrator/core/gates/failure_breaker.py::Breaker._waits_for_people",
        old="are_few, are_tried = left <= rules.first, self.state.probes >= PROBES_MAX",
        new="are_few, are_tried = left <= rules.first, False",
        tests=(
            BREAKER + "test_what_never_worked_waits_for_people_after_some_single_jobs",
            ENGINE + "test_a_broken_handler_costs_25_executions_and_not_900",
        ),
    ),
    Fault(
        name="single jobs follow each other at once",
        path="orchestrator/core/gates/failure_breaker.py::Breaker.claimed",
        old="self._set(probe_at=now + PROBE_EVERY_US, probes=self.state.probes + 1, may_try=False)",
        new="self._set(probes=self.state.probes + 1, may_try=False)",
        tests=(BREAKER + "test_one_a_minute_goes_and_the_next_one_waits_for_its_minute",),
    ),
    Fault(
        name="a half open breaker refills what has failed",
        path="orchestrator/core/gates/failure_breaker.py::Breaker.gate_result",
        old="return Open(max(0, more - self.state.tried),",
        new="return Open(max(0, more),",
        tests=(BREAKER + "test_the_first_success_half_opens_it_and_as_many_as_at_first_go",),
    ),
    Fault(
        name="failures of many kinds trip the breaker",
        path="orchestrator/core/gates/failure_breaker.py::Breaker._judge",
        old="each.kind is None for each in failures)) * 2 <= len(failures):\n    return None",
        new="each.kind is None for each in failures)) * 2 <= len(failures):\n    pass",
        tests=(
            BREAKER + "test_later_it_trips_by_most_of_the_latest_and_one_kind",
            ENGINE + "test_failures_of_many_kinds_are_no_reason_for_it",
        ),
    ),
    Fault(
        name="a canary lets any row go in the place of its own",
        path="orchestrator/ledger/jobs/claim_queue.py::_BY_RUN_ONLY",
        old="_BY_RUN_ONLY = _ONLY.where(_TO_RUN)",
        new="_BY_RUN_ONLY = _BY_RUN.params(due_at=-1)",
        tests=(ENGINE + "test_a_canary_goes_first_is_spread_and_lets_the_rest_go",),
    ),
    Fault(
        name="a canary passes before its last row is over",
        path="orchestrator/core/gates/brake_gates.py::CanaryFacts.has_passed",
        old="return self.succeeded >= self.needed and self.succeeded + self.failed >= self.chosen",
        new="return self.succeeded >= self.needed",
        tests=(BRAKES + "test_a_canary_has_passed_once_enough_succeeded_and_all_are_over",),
    ),
    Fault(
        name="a budget forgets what is outstanding",
        path="orchestrator/core/gates/costs.py::Costs.more",
        old="left = budget - self.spent.amount - self.expected(outstanding).amount",
        new="left = budget - self.spent.amount",
        tests=(
            COSTS + "test_so_many_more_fit_into_a_budget",
            ENGINE + "test_a_budget_is_kept_and_a_larger_one_lets_it_go_on",
        ),
    ),
    Fault(
        name="of two budgets the first one counts",
        path="orchestrator/core/gates/brake_gates.py::budget_gate",
        old="return narrowest(_budget(each, brakes, now) for each in brakes.budgets)",
        new="return next((_budget(each, brakes, now) for each in brakes.budgets), ANY)",
        tests=(BRAKES + "test_of_two_budgets_the_narrower_counts",),
    ),
    Fault(
        name="executions that are tried again cost nothing",
        path="orchestrator/ledger/transitions/execution_writes.py::executions_add",
        old="if ended is not None:",
        new="if ended is not None and step.previous_outcome is None:",
        tests=("tests/conformance/test_brakes.py::test_every_execution_counts_also_one_that_is_tried_again",),
    ),
    Fault(
        name="a run that may go on by itself is given up",
        path="orchestrator/core/gates/brake_gates.py::stops",
        old="if at_service:\n    return None",
        new="",
        tests=(BRAKES + "test_a_run_is_stopped_where_nothing_changes_by_itself",),
    ),
    Fault(
        name="what people said while nobody was at work is taken for heeded",
        path="orchestrator/engine/sending/run_brakes.py::RunBrakes.choose",
        old="self.go_on(self._asked_at)",
        new="",
        tests=(
            "tests/engine/sending/test_served_brakes.py::test_continue_is_heeded_that_was_said_while_nobody_was_at_work",
        ),
    ),
    Fault(
        name="a run whose rows are yet to come has had its canary",
        path="orchestrator/engine/sending/canary_jobs.py::CanaryJobs.choose",
        old="self.is_known = bool(self._jobs)",
        new="self.is_known = True",
        tests=("tests/api/flows/test_stages.py::test_of_a_later_stage_some_rows_go_first_as_soon_as_it_has_any",),
    ),
    Fault(
        name="rows that go first are waited for though another process has removed them",
        path="orchestrator/engine/sending/canary_jobs.py::CanaryJobs.choose",
        old="if self.is_known and self.facts(share).has_passed:",
        new="if self.is_known:",
        tests=(
            "tests/engine/sending/test_canary_jobs.py::test_what_another_process_has_removed_of_a_canary_is_waited_for_no_more",
        ),
    ),
    Fault(
        name="rows are not chosen anew where those that were are gone by the time it is asked how they stand",
        path="orchestrator/engine/sending/canary_jobs.py::CanaryJobs.choose",
        old="while not known and (fresh := await self._ledger.jobs.brakes.choose(self._run, rows)):\n    known = await self._go_first(fresh)",
        new="if not self.chosen:\n    known = await self._go_first(await self._ledger.jobs.brakes.choose(self._run, rows))",
        tests=(
            "tests/engine/sending/test_canary_jobs.py::test_rows_are_chosen_anew_where_all_of_them_were_removed_as_it_was_asked_how_they_stand",
        ),
    ),
    Fault(
        name="rows that are handed over go without a canary",
        path="orchestrator/engine/hosting/run_session.py::RunSession.jobs_came",
        old="if self._is_sending:\n    await self.brakes.choose()\nself.wake()",
        new="self.wake()",
        tests=("tests/api/flows/test_stages.py::test_of_a_later_stage_some_rows_go_first_as_soon_as_it_has_any",),
    ),
    Fault(
        name="nobody counts what others have corrected, since as many jobs came as went",
        path="orchestrator/engine/hosting/run_registry.py::RunRegistry.count_what_came",
        old="if is_other or (of_run != session.progress.counts and not is_sending):",
        new="if is_other:",
        tests=(
            "tests/engine/hosting/test_several_engines.py::test_rows_that_another_process_has_corrected_go_and_count_though_it_died_before_it_said_so",
        ),
    ),
    Fault(
        name="rows that go first are waited for though others stand in their place",
        path="orchestrator/engine/hosting/run_registry.py::RunRegistry.count_what_came",
        old="elif session.brakes.awaits_canary:",
        new="elif False:",
        tests=(
            "tests/engine/hosting/test_several_engines.py::test_rows_that_go_first_are_others_where_they_were_corrected_before_they_went",
        ),
    ),
    Fault(
        name="that no rows could be chosen is kept as the choice",
        path="orchestrator/ledger/jobs/brake_state.py::Brakes.choose",
        old="if chosen:\n    await",
        new="if True:\n    await",
        tests=("tests/conformance/test_brakes.py::test_rows_that_go_first_are_spread_over_the_input",),
    ),
    Fault(
        name="nobody hears that time alone has stopped a run",
        path="orchestrator/engine/sending/run_brakes.py::RunBrakes._tell_whether_stopped",
        old="self._progress.nudge()",
        new="pass",
        tests=("tests/engine/sending/test_served_brakes.py::test_a_run_that_only_time_has_stopped_comes_to_its_end",),
    ),
    Fault(
        name="out of a day's budget comes what was spent on any day",
        path="orchestrator/engine/sending/spending.py::Spending.budgets",
        old="today = self.of_day(endpoint, now // DAY_US)",
        new="today = like",
        tests=(ENGINE + "test_the_days_budget_of_an_endpoint_ends_at_midnight",),
    ),
    Fault(
        name="a day's budget that is used up waits for people",
        path="orchestrator/core/gates/brake_gates.py::_budget",
        old='a day, until 00:00 UTC", midnight)',
        new='a day, until 00:00 UTC")',
        tests=(BRAKES + "test_a_days_budget_is_over_at_midnight",),
    ),
    Fault(
        name="what was executed counts for the day on which it was sent",
        path="orchestrator/ledger/transitions/execution_writes.py::place_of",
        old="step.before.endpoint, step.at // DAY_US",
        new="step.before.endpoint, (step.before.sent_at or step.at) // DAY_US",
        tests=("tests/conformance/test_brakes.py::test_every_execution_counts_also_one_that_is_tried_again",),
    ),
    Fault(
        name="a job is sent in time if it would end in time without a queue",
        path="orchestrator/core/gates/brake_gates.py::DeadlineFacts.next_ends_at",
        old="return now + max(in_line_us, self.typical_us or 0)",
        new="return now + (self.typical_us or 0)",
        tests=(BRAKES + "test_what_would_be_late_is_not_sent_where_that_is_wanted",),
    ),
    Fault(
        name="before it is known how fast a run goes all of it is sent, in time or not",
        path="orchestrator/core/gates/brake_gates.py::deadline_gate",
        old="return Open(max(0, UNRATED_MAX - facts.at_service))",
        new="return ANY",
        tests=(
            BRAKES + "test_before_it_is_known_how_fast_it_goes_few_go_where_none_may_be_late",
            ENGINE + "test_what_would_end_too_late_is_not_sent",
        ),
    ),
    Fault(
        name="a success among the failures that tripped a breaker lets the run go on at once",
        path="orchestrator/core/gates/failure_breaker.py::Breaker.observe",
        old="case BreakerPhase.OPEN if not execution.is_failed and self._has_paused(now):",
        new="case BreakerPhase.OPEN if not execution.is_failed:",
        tests=(
            BREAKER + "test_a_success_half_opens_it_once_it_has_paused_and_none_of_before",
            ENGINE + "test_where_most_rows_fail_it_pauses_each_time_it_trips",
        ),
    ),
    Fault(
        name="a run is given up for the time in which nobody knew how it stood",
        path="orchestrator/api/hosting/follower.py::FollowedRun.refreshed_at",
        old="return self._refreshed_at",
        new="return self.ledger.now()",
        tests=(STALLED + "test_a_run_that_goes_well_elsewhere_is_not_given_up_by_who_was_cut_off_meanwhile",),
    ),
    Fault(
        name="a run is given up for the time in which the machine was asleep",
        path="orchestrator/api/foreground/stall_timeout.py::StallTimeout.is_over",
        old="self._stalled_us += min(standing.refreshed_at - self._refreshed_at, self._at_once_us_max)",
        new="self._stalled_us += standing.refreshed_at - self._refreshed_at",
        tests=(STALLED + "test_what_a_machine_slept_through_does_not_count_for_a_run_that_it_serves",),
    ),
    Fault(
        name="a run that is followed counts as seen only where something was written",
        path="orchestrator/api/hosting/follower.py::FollowedRun.serve",
        old="if version != known:\n    known = version\n    await self.look()\nself._refreshed_at = asked_at",
        new="if version != known:\n    known = version\n    await self.look()\n    self._refreshed_at = asked_at",
        tests=(STALLED + "test_a_run_that_gets_nowhere_elsewhere_is_given_up_although_nobody_writes_anything",),
    ),
    Fault(
        name="how the rest will go is said only where the rows that go first are sent from",
        path="orchestrator/api/foreground/foreground_run.py::Foreground._under_way",
        old="if settings.canary.rows:",
        new="if settings.canary.rows and self._host.engine is not None:",
        tests=(
            "tests/api/hosting/test_run_share.py::test_it_says_how_the_rest_will_go_once_the_rows_are_back_that_went_first",
        ),
    ),
)
