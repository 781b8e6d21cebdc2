"""Pauses that others impose, and who is asked for meanwhile."""

from tests.planted.faults.fault import Fault

INSTEAD = "tests/engine/sending/test_run_sender.py::"
IMPOSED = "tests/api/inspect/test_imposed_pauses.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a wish of the service is obeyed past the time of results",
        path="orchestrator/core/polling/imposed_pause.py::ImposedPause.wait_us",
        old="at = until if until <= respite.until else max(",
        new="at = until if until < math.inf else max(",
        tests=(
            "tests/core/polling/test_imposed_pause.py::test_a_pause_that_would_cost_one_is_obeyed_until_its_deadline",
            IMPOSED + "test_a_wish_for_an_hour_s_rest_loses_no_result",
            IMPOSED + "test_a_rate_limit_header_that_leaves_nothing_for_an_hour_loses_no_result",
        ),
        worlds=("wishful", 0, 4),
    ),
    Fault(
        name="nobody is told that the service wants no question for an hour",
        path="orchestrator/engine/hosting/run_reports.py::_at",
        old="unwanted_until=unwanted_until if unwanted_until - now > UNWANTED_US else None",
        new="unwanted_until=None",
        tests=(IMPOSED + "test_while_it_lasts_status_says_that_no_question_is_wanted",),
    ),
    Fault(
        name="where questions are refused nobody asks shortly before results are gone",
        path="orchestrator/engine/collecting/question_turns.py::QuestionTurns.answered",
        old="self.endpoint.health.go_on()",
        new="pass",
        tests=(IMPOSED + "test_a_key_that_is_refused_until_shortly_before_results_are_gone_loses_none",),
    ),
    Fault(
        name="single questions past a wish cut the rate",
        path="orchestrator/core/limits/service_pauses.py::ServicePauses.refuse",
        old="if sent_at > self._shut_at and not is_past_throttle:",
        new="if sent_at > self._shut_at:",
        tests=(
            "tests/core/limits/test_service_pauses.py::test_one_that_is_refused_lets_the_pause_stand_and_cuts_nothing",
        ),
    ),
    Fault(
        name="a wish stands although what left past it was answered",
        path="orchestrator/core/limits/service_pauses.py::ServicePauses.accept",
        old="self.until = min(self.until, now)",
        new="pass",
        tests=("tests/core/limits/test_service_pauses.py::test_one_that_is_answered_ends_the_pause",),
    ),
    Fault(
        name="a cancel waits as long as the service wants",
        path="orchestrator/engine/maintenance/canceller.py::TURN_S_MAX",
        old="TURN_S_MAX: Final = 30.0",
        new="TURN_S_MAX: Final = 86_400.0",
        tests=(IMPOSED + "test_a_cancel_that_is_to_wait_an_hour_does_not_hold_up_the_end_of_a_run",),
    ),
    Fault(
        name="retries wait for their turn while run has nothing to do",
        path="orchestrator/engine/sending/run_sender.py::RunSender._claim_along",
        old="if (room := most - len(claims)) and self._retries_are_due:",
        new="if (room := most - len(claims)) and False:",
        tests=(INSTEAD + "test_many_retries_go_by_a_new_run_where_that_is_sooner",),
    ),
    Fault(
        name="a retry that is to wait for long is not made by a new run",
        path="orchestrator/engine/lanes/response_steps.py::_deferred",
        old="if job.by_retry and trouble is FailureClass.THROTTLED and asked_s > BACKOFF_S_MAX:",
        new="if False:",
        tests=(INSTEAD + "test_where_no_retry_is_wanted_for_long_a_new_run_is_made",),
    ),
    Fault(
        name="what a retry has not done for certain is done by a new run",
        path="orchestrator/ledger/jobs/claims.py::Claims.take",
        old="[left_to_retry:] if not found.job.deferrals]",
        new="[left_to_retry:]]",
        tests=("tests/conformance/test_claims.py::test_what_retry_has_no_room_for_may_be_claimed_for_a_new_run",),
    ),
    Fault(
        name="a retry that a clock that was ahead has left is taken for sent now",
        path="orchestrator/engine/maintenance/janitor.py::left_submitting",
        old="sent_at = now if job.unfinished_at is None else job.unfinished_at",
        new="sent_at = job.unfinished_at or now",
        tests=("tests/engine/maintenance/test_clocks.py::test_a_job_whose_retry_was_on_its_way_is_asked_for_at_once",),
    ),
    Fault(
        name="what has happened may lie in the future",
        path="orchestrator/ledger/runs/clock_repair.py::bring_back",
        old="for statement in (*_WAITS, *_HAPPENED):",
        new="for statement in _WAITS:",
        tests=(
            "tests/ledger/runs/test_clock_repair.py::test_every_stored_time_that_lies_in_the_future_is_brought_back_or_may_lie_there",
        ),
    ),
    Fault(
        name="the story of a job is rewritten by whoever has another clock",
        path="orchestrator/ledger/runs/clock_repair.py::_happened",
        old="if str(column) not in KEPT and str(column) not in BROUGHT_BACK:",
        new="if (str(column) not in KEPT or column.table is events) and str(column) not in BROUGHT_BACK:",
        tests=(
            "tests/ledger/runs/test_clock_repair.py::test_every_stored_time_that_lies_in_the_future_is_brought_back_or_may_lie_there",
        ),
    ),
    Fault(
        name="the heartbeat tells of each run that was ever served",
        path="orchestrator/engine/hosting/run_reports.py::run_reports",
        old="if lately:",
        new="if False:",
        tests=("tests/engine/runtime/test_last_word.py::test_of_a_run_that_ended_long_ago_nothing_is_said_any_more",),
    ),
    Fault(
        name="jobs that are missing have all the questions",
        path="orchestrator/core/polling/poll_deadlines.py::Deadlines.pressing",
        old="turn = self._turns",
        new="return self._most_urgent(self._missing, among_missing=True)\nturn = self._turns",
        tests=(
            "tests/core/polling/test_poll_plan_missing.py::test_thousands_that_are_missing_leave_half_of_the_questions_to_what_else_there_is_to_ask",
            "tests/core/polling/test_poll_plan_missing.py::test_thousands_that_are_missing_leave_most_questions_to_deadlines_of_others",
        ),
    ),
)
