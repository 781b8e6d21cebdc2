"""Jobs that go elsewhere, or are given more, after trouble."""

from tests.planted.faults.fault import Fault

_HERE = "tests/engine/test_escalation.py::"
_IN_TIME = f"{_HERE}test_jobs_that_time_out_are_tried_with_more_time_and_then_at_the_other_endpoint"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a job that goes elsewhere is still asked for where it was",
        path="orchestrator/engine/collecting/collector.py",
        old="            if step.before.endpoint != self._endpoint.id:",
        new="            if step.after.endpoint != self._endpoint.id:",
        tests=(f"{_HERE}test_what_left_an_endpoint_is_not_asked_for_there_any_more",),
    ),
    Fault(
        name="where a job goes after trouble is not written down",
        path="orchestrator/ledger/transactions/step_writes.py",
        old="_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED})\n",
        new="_GIVING: Final = frozenset({Event.REOPENED})\n",
        tests=(_IN_TIME,),
    ),
    Fault(
        name="where a job is tried again by a person is not written down",
        path="orchestrator/ledger/transactions/step_writes.py",
        old="_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED})\n",
        new="_GIVING: Final = frozenset({Event.RETRIED})\n",
        tests=(
            "tests/api/inspect/test_elsewhere.py::test_jobs_tried_again_elsewhere_stay_in_their_run_with_settings_of_their_own",
        ),
    ),
    Fault(
        name="the next execution is a repetition of what was sent, whatever it was to be given",
        path="orchestrator/engine/collecting/result_steps.py",
        old="        retry_until=None if escalation is not None and escalation.told else decision.retry_until,\n",
        new="        retry_until=decision.retry_until,\n",
        tests=(_IN_TIME,),
    ),
    Fault(
        name="more time is promised and not asked for",
        path="orchestrator/engine/sending/request_builder.py",
        old="        policy = policy_with(policy, given)\n",
        new="",
        tests=(f"{_HERE}test_more_time_is_asked_for_at_the_service",),
    ),
    Fault(
        name="a worker that was taken away is the handler's failure",
        path="orchestrator/core/jobs/escalation.py",
        old="    ordered = sorted((*rules, *BUILT_IN), key",
        new="    ordered = sorted(rules, key",
        tests=(f"{_HERE}test_a_worker_that_was_taken_away_costs_no_attempt_and_nothing_of_the_budget",),
    ),
    Fault(
        name="a job that ends its workers is executed for ever",
        path="orchestrator/core/jobs/escalation.py",
        old="    if step is not None and step.is_free and before.free >= FREE_MAX:\n",
        new="    if False:\n",
        tests=(
            "tests/core/jobs/test_escalation.py::test_a_worker_taken_away_by_the_service_costs_no_attempt_and_that_is_bounded",
        ),
    ),
    Fault(
        name="what costs no attempt is of the budget for retries",
        path="orchestrator/engine/collecting/result_steps.py",
        old="    if not is_free and (spent := ",
        new="    if (spent := ",
        tests=(f"{_HERE}test_a_worker_that_was_taken_away_costs_no_attempt_and_nothing_of_the_budget",),
    ),
    Fault(
        name="a step is taken again and again",
        path="orchestrator/core/jobs/escalation.py",
        old="        taken={**before.taken, taken.name: before.taken.get(taken.name, 0) + 1},\n",
        new="        taken={**before.taken, taken.name: before.taken.get(taken.name, 0)},\n",
        tests=(
            "tests/core/jobs/test_escalation.py::test_each_trouble_of_a_class_leads_to_the_next_step_and_then_all_stays",
        ),
    ),
    Fault(
        name="the budget for retries is one for each moment",
        path="orchestrator/engine/runtime/retry_budget.py",
        old="        self._promised[run] += 1\n",
        new="",
        tests=(
            "tests/api/outcomes/test_parts.py::test_what_was_granted_counts_against_the_budget_before_it_is_written",
        ),
    ),
    Fault(
        name="what was granted is counted twice against the budget",
        path="orchestrator/engine/runtime/retry_budget.py",
        old="            self._promised -= Counter(kept)",
        new="            self._promised -= Counter()",
        tests=(f"{_HERE}test_no_more_is_repeated_than_the_budget_of_the_run_wherever_it_is",),
    ),
    Fault(
        name="what is to be given up is tried again",
        path="orchestrator/engine/collecting/result_steps.py",
        old="    if taken is not None and taken.step.gives_up:\n",
        new="    if False and step is not None:\n",
        tests=(f"{_HERE}test_what_is_given_up_is_not_tried_again",),
    ),
    Fault(
        name="a person who tries a job again finds the steps taken already",
        path="orchestrator/core/jobs/job.py",
        old="policy=afresh.policy, escalated=None,\n",
        new="policy=afresh.policy, escalated=job.escalated,\n",
        tests=(f"{_HERE}test_what_a_person_tries_again_is_given_the_same_steps_once_more",),
    ),
    Fault(
        name="the other fields of an input are lost as one is made anew",
        path="orchestrator/formats/templates/templates.py",
        old="{**_members.decode(given), name: made}",
        new="{name: made}",
        tests=(f"{_HERE}test_the_input_is_made_anew_and_its_other_fields_stay",),
    ),
    Fault(
        name="the endpoints that rules lead to are not served until a job is there",
        path="orchestrator/engine/engine.py",
        old="        await self.serving.reach_escalation(run)\n",
        new="",
        tests=(_IN_TIME,),
    ),
)
