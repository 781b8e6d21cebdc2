"""What pages can ask for: once, as it was confirmed, by those who may, and written down."""

from typing import Final

from tests.planted.faults.fault import Fault

_FORM: Final = "tests/dashboard/actions/test_confirmed_form.py::"
_ROWS: Final = "tests/conformance/test_actions.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a form acts with each click",
        path="orchestrator/ledger/actions/action_rows.py::action_add",
        old='"form": asked.form',
        new='"form": None',
        tests=(
            _FORM + "test_a_form_acts_once_in_two_tabs_at_once_and_after_a_restart_of_the_dashboard",
            _ROWS + "test_a_form_acts_once_whatever_it_asks_for",
        ),
    ),
    Fault(
        name="a form acts on another count than was confirmed, and without the name that is to be typed",
        path="orchestrator/dashboard/actions/confirmed_form.py::ConfirmedForm.answer",
        old="proposal.problem or _objection(proposal, fields, form)",
        new="proposal.problem",
        tests=(
            _FORM + "test_another_count_than_was_confirmed_asks_again_and_does_nothing",
            _FORM + "test_a_run_is_cancelled_only_by_who_types_its_name",
        ),
    ),
    Fault(
        name="a viewer acts",
        path="orchestrator/dashboard/access/access_middleware.py::AccessMiddleware._refusal",
        old="not self.visitors.may_act(person)",
        new="False",
        tests=(_FORM + "test_no_form_acts_for_viewers_or_strangers_or_from_elsewhere_or_where_all_is_read_only",),
    ),
    Fault(
        name="what fails after the count is tried again, too",
        path="orchestrator/api/actions/job_proposals.py::retry_jobs",
        old="choice = RetryChoice(where=counted_where, **own)",
        new="choice = RetryChoice(where=where, **own)",
        tests=(_FORM + "test_what_fails_after_the_count_is_not_among_those_that_were_confirmed",),
    ),
    Fault(
        name="a form may lead to another site",
        path="orchestrator/dashboard/actions/confirmed_form.py::ConfirmedForm._from",
        old="if _OUR_PATH.fullmatch(back):\n    return back",
        new="if back:\n    return back",
        tests=(_FORM + "test_who_is_signed_in_stands_there_and_where_to_go_back_is_ours",),
    ),
    Fault(
        name="a count tells what is hidden",
        path="orchestrator/api/pages/runs/payload_policy.py::check_filter",
        old="if tells_texts or (shows.are_hidden and named) or not shows.may_search(named):",
        new="if False:",
        tests=(_FORM + "test_what_is_hidden_is_found_out_by_no_count_and_shown_by_no_sample_or_action",),
    ),
    Fault(
        name="what came of a command stands nowhere",
        path="orchestrator/ledger/commands/command_repository.py::Commands.change_ledger",
        old="await actions_carried_out(connection, command.id)",
        new="",
        tests=(_ROWS + "test_a_command_that_somebody_asks_for_stands_there_with_what_came_of_it",),
    ),
    Fault(
        name="what was refused stands nowhere",
        path="orchestrator/api/runs/process_commands.py::refusals_noted",
        old="await ledger.actions.note(asked, act, Ended(error.message, is_refused=True))",
        new="",
        tests=("tests/api/flows/test_asked_flows.py",),
    ),
)
