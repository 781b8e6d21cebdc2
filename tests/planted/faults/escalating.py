"""Jobs that go elsewhere, or are given more, after trouble."""

from tests.planted.faults.fault import Fault

_HERE = "tests/engine/sending/test_escalation.py::"
_IN_TIME = f"{_HERE}test_jobs_that_time_out_are_tried_with_more_time_and_then_at_the_other_endpoint"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a job that goes elsewhere is still asked for where it was",
        path="orchestrator/engine/endpoint/outstanding_jobs.py::OutstandingJobs.on_steps",
        old="if step.before.endpoint != self._endpoint:",
        new="if step.after.endpoint != self._endpoint:",
        tests=(f"{_HERE}test_what_left_an_endpoint_is_not_asked_for_there_any_more",),
    ),
    Fault(
        name="where a job goes after trouble is not written down",
        path="orchestrator/ledger/transitions/apply_transitions.py::_GIVING",
        old="_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED, Event.DEFERRED})",
        new="_GIVING: Final = frozenset({Event.REOPENED, Event.DEFERRED})",
        tests=(_IN_TIME,),
    ),
    Fault(
        name="where a job is tried again by a person is not written down",
        path="orchestrator/ledger/transitions/apply_transitions.py::_GIVING",
        old="_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED, Event.DEFERRED})",
        new="_GIVING: Final = frozenset({Event.RETRIED, Event.DEFERRED})",
        tests=(
            "tests/api/inspect/test_elsewhere.py::test_jobs_tried_again_elsewhere_stay_in_their_run_with_settings_of_their_own",
        ),
    ),
    Fault(
        name="the next execution is a repetition of what was sent, whatever it was to be given",
        path="orchestrator/engine/collecting/result_steps.py::on_failed",
        old="retry_until=None if escalation is not None and escalation.description else decision.retry_until,",
        new="retry_until=decision.retry_until,",
        tests=(_IN_TIME,),
    ),
    Fault(
        name="more time is promised and not asked for",
        path="orchestrator/engine/lanes/request_builder.py::RequestBuilder._policy",
        old="policy = policy_with(policy, given)",
        new="",
        tests=(f"{_HERE}test_more_time_is_asked_for_at_the_service",),
    ),
    Fault(
        name="a worker that was taken away is the handler's failure",
        path="orchestrator/core/jobs/escalation.py::next_step",
        old="ordered = sorted((*rules, *BUILT_IN), key",
        new="ordered = sorted(rules, key",
        tests=(f"{_HERE}test_a_worker_that_was_taken_away_costs_no_attempt_and_nothing_of_the_budget",),
    ),
    Fault(
        name="a job that ends its workers is executed for ever",
        path="orchestrator/core/jobs/escalation.py::next_step",
        old="if step is not None and step.is_free and before.free >= FREE_MAX:",
        new="if False:",
        tests=(
            "tests/core/jobs/test_escalation.py::test_a_worker_taken_away_by_the_service_costs_no_attempt_and_that_is_bounded",
        ),
    ),
    Fault(
        name="what costs no attempt is of the budget for retries",
        path="orchestrator/engine/collecting/result_steps.py::on_failed",
        old="if not is_free and (spent :=",
        new="if (spent :=",
        tests=(f"{_HERE}test_a_worker_that_was_taken_away_costs_no_attempt_and_nothing_of_the_budget",),
    ),
    Fault(
        name="a step is taken again and again",
        path="orchestrator/core/jobs/escalation.py::with_step",
        old="taken={**before.taken, taken.name: before.taken.get(taken.name, 0) + 1},",
        new="taken={**before.taken, taken.name: before.taken.get(taken.name, 0)},",
        tests=(
            "tests/core/jobs/test_escalation.py::test_each_trouble_of_a_class_leads_to_the_next_step_and_then_all_stays",
        ),
    ),
    Fault(
        name="the budget for retries is one for each moment",
        path="orchestrator/engine/runtime/retry_budget.py::RetryBudgets.why_spent",
        old="self._promised[run] += 1",
        new="",
        tests=(
            "tests/api/outcomes/test_outcome_pages.py::test_what_was_granted_counts_against_the_budget_before_it_is_written",
        ),
    ),
    Fault(
        name="what was granted is counted twice against the budget",
        path="orchestrator/engine/runtime/retry_budget.py::RetryBudgets.on_steps",
        old="self._promised -= Counter(kept)",
        new="self._promised -= Counter()",
        tests=(f"{_HERE}test_no_more_is_repeated_than_the_budget_of_the_run_wherever_it_is",),
    ),
    Fault(
        name="what is to be given up is tried again",
        path="orchestrator/engine/collecting/result_steps.py::on_failed",
        old="if taken is not None and taken.step.gives_up:",
        new="if False and step is not None:",
        tests=(f"{_HERE}test_what_is_given_up_is_not_tried_again",),
    ),
    Fault(
        name="a person who tries a job again finds the steps taken already",
        path="orchestrator/core/jobs/transitions.py::reopened",
        old="policy=overrides.policy, escalated=None,",
        new="policy=overrides.policy, escalated=job.escalated,",
        tests=(f"{_HERE}test_what_a_person_tries_again_is_given_the_same_steps_once_more",),
    ),
    Fault(
        name="the other fields of an input are lost as one is made anew",
        path="orchestrator/formats/templates/field_templates.py::remade",
        old="{**_members.decode(given), name: made}",
        new="{name: made}",
        tests=(f"{_HERE}test_the_input_is_made_anew_and_its_other_fields_stay",),
    ),
    Fault(
        name="the endpoints that rules lead to are not served until a job is there",
        path="orchestrator/engine/hosting/run_host.py::RunHost.take_on",
        old="await self.reach_escalation(run, session)",
        new="",
        tests=(_IN_TIME,),
    ),
)
