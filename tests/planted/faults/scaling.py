"""Workers that follow what runs need, and turns by deadlines."""

from tests.planted.faults.fault import Fault

NEED = "tests/engine/hosting/test_worker_need.py"
SCALING = "tests/engine/hosting/test_worker_scaling.py"
BEGINS = f"{NEED}::test_it_begins_in_the_middle_and_has_more_once_it_is_known_that_they_are_needed"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="workers are changed twice within five minutes",
        path="orchestrator/core/planning/worker_steps.py::next_bound",
        old="if at.changed_at is not None and now < at.changed_at + STEP_US:",
        new="if at.changed_at is None and now < STEP_US:",
        tests=(BEGINS, "tests/core/planning/test_worker_steps.py::test_there_are_five_minutes_between_two_changes"),
    ),
    Fault(
        name="a step forgets since when the workers are as they are",
        path="orchestrator/engine/hosting/worker_scaling.py::WorkerScaling._need",
        old="changed_at = None if known is None else known.lent_at",
        new="changed_at = None",
        tests=(BEGINS,),
    ),
    Fault(
        name="workers are put back as an engine begins, and raised again as it comes to serve their run",
        path="orchestrator/engine/hosting/worker_scaling.py::WorkerScaling._is_awaited",
        old="run not in served and endpoint in at.get(run, ()) and self._runs.may_come(run)",
        new="False",
        tests=(f"{SCALING}::test_after_a_kill_serve_goes_on_and_puts_them_back",),
    ),
    Fault(
        name="workers of a run that nobody comes to serve stay raised until others end",
        path="orchestrator/engine/hosting/worker_scaling.py::WorkerScaling._is_awaited",
        old="run not in served and endpoint in at.get(run, ()) and self._runs.may_come(run)",
        new="run not in served and endpoint in at.get(run, ())",
        tests=(f"{SCALING}::test_after_a_kill_another_run_puts_them_back",),
    ),
    Fault(
        name="bounds of workers are not put back",
        path="orchestrator/engine/hosting/lent_bounds.py::LentBounds.put_back",
        old="then = restored(loan, now)",
        new="then = now",
        tests=(BEGINS, "tests/engine/hosting/test_worker_scaling.py::test_they_are_put_back_after_failures"),
    ),
    Fault(
        name="a step does not write down what there was until then",
        path="orchestrator/engine/hosting/lent_bounds.py::LentBounds.change",
        old="former=None if known is None else now",
        new="former=None",
        tests=(f"{NEED}::test_after_a_kill_within_a_step_tidy_puts_back_what_there_was_before",),
    ),
    Fault(
        name="a run by need takes workers from one that did not ask for it",
        path="orchestrator/core/gates/scaling_override.py::raised",
        old="most = needed if may_be_fewer else max(most, needed)",
        new="most = needed",
        tests=(
            "tests/core/gates/test_scaling_override.py::test_as_many_as_are_needed_and_fewer_only_where_all_want_that",
        ),
    ),
    Fault(
        name="the first executions to end decide that fewer workers do",
        path="orchestrator/core/planning/worker_steps.py::_is_worth",
        old="return is_known and wanted",
        new="return wanted",
        tests=("tests/core/planning/test_worker_steps.py::test_fewer_stay_once_far_fewer_do_for_long",),
    ),
    Fault(
        name="what somebody else has made of the workers is changed again",
        path="orchestrator/core/gates/scaling_override.py::is_changed_by_hand",
        old="now.least not in {each.least for each in ours} or now.most not in {each.most for each in ours}",
        new="False",
        tests=(f"{NEED}::test_what_a_person_changes_is_left_alone_and_said_once",),
    ),
    Fault(
        name="a run that goes first by its deadline leaves nothing to the others",
        path="orchestrator/core/planning/deadline_turns.py::_weights",
        old="after * (1 - OTHERS_SHARE) / OTHERS_SHARE",
        new="after * 1e12",
        tests=(
            "tests/core/planning/test_deadline_turns.py::test_what_weight_alone_would_miss_goes_first_and_the_others_keep_a_part",
        ),
    ),
    Fault(
        name="turns go by weight whatever the deadlines",
        path="orchestrator/engine/sending/claim_turns.py::ClaimTurns._look_at_deadlines",
        old="found = self._by_deadlines(now) if self._are_in_turns else Turns(weights={})",
        new="found = Turns(weights={})",
        tests=(
            "tests/engine/sending/test_deadline_turns.py::test_what_weight_alone_would_miss_goes_first_and_the_other_run_goes_on",
        ),
    ),
)
