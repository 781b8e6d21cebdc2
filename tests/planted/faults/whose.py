"""Whose a run is, and which endpoint a name means."""

from tests.planted.faults.fault import Fault

_ENGINE = "tests/api/foreground/test_profiles.py::"
_CLI = "tests/cli/framework/test_profiles.py::"
_NAMING = "tests/account/test_name_lookup.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a function of somebody's is left to those that serve a ledger, who have it not",
        path="orchestrator/api/runs/run_identity.py::check_not_local",
        old="if run.service_url == LOCAL:",
        new="if False:",
        tests=(
            "tests/api/hosting/test_run_share.py::test_a_function_of_somebody_s_is_not_run_where_others_serve_the_ledger",
        ),
    ),
    Fault(
        name="the key of one account is used for the runs of another",
        path="orchestrator/engine/ports/service_registry.py::ServiceRegistry.use_key_for",
        old="if is_service and is_same_account(service_url, self._connection.serverless_url):",
        new="if is_service:",
        tests=(_ENGINE + "test_a_key_is_for_another_address_of_its_account_but_for_no_other_account",),
    ),
    Fault(
        name="a program begins the runs of another account with its own key",
        path="orchestrator/api/python/submission_target.py::check_reachable",
        old="if not is_same_account(url, session.connection.serverless_url):",
        new="if False:",
        tests=(_ENGINE + "test_a_run_stays_with_its_account_whatever_others_ask_for",),
    ),
    Fault(
        name="doctor asks about the runs of another account with its own key",
        path="orchestrator/api/inspect/doctor.py::_Round._connection_to",
        old="is_only = is_only and is_same_account(url, self._connection.serverless_url)",
        new="",
        tests=(_ENGINE + "test_a_run_stays_with_its_account_whatever_others_ask_for",),
    ),
    Fault(
        name="a profile whose key is missing has that of nobody",
        path="orchestrator/api/runs/service_connection.py::service_key",
        old="key = api_key(environment, needed=False, variables=(variable,))",
        new="key = api_key(environment, needed=False, variables=(variable, *API_KEY_VARIABLES))",
        tests=(_CLI + "test_what_is_wrong_with_a_profile_is_said_with_its_place_and_without_its_key",),
    ),
    Fault(
        name="a name that is given twice means the first of them",
        path="orchestrator/account/name_lookup.py::id_of",
        old="if given in named or len(named) == 1:",
        new="if given in named or named:",
        tests=(_NAMING + "test_a_name_of_none_or_of_several_is_an_error",),
    ),
    Fault(
        name="a name that looks like an id is none",
        path="orchestrator/account/name_lookup.py::by_name",
        old="if error.status != _NOT_FOUND:\n    raise",
        new="raise",
        tests=(_NAMING + "test_an_id_needs_no_list_and_a_name_that_looks_like_one_is_found_in_the_end",),
    ),
    Fault(
        name="an id that is also a name means the one of that name",
        path="orchestrator/account/name_lookup.py::id_of",
        old="return given if given in named else named[0]",
        new="return named[0]",
        tests=(_NAMING + "test_a_name_leads_to_its_id_and_an_id_to_itself",),
    ),
)
