"""What an account has beside its jobs, and the interfaces by which it is spoken of."""

from tests.planted.faults.fault import Fault

_TESTS = "tests/account/transport/test_fallback.py"
_LOGS = "tests/account/transport/test_logs.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a template that GraphQL saves loses what nobody spoke of",
        path="orchestrator/account/templates/templates_graphql.py::TemplatesGraphQL._merged",
        old="return {**_UNSAID, **present, **wanted}",
        new="return {**_UNSAID, **wanted}",
        tests=(f"{_TESTS}::test_what_graphql_does_not_show_of_what_it_saves_is_said_first",),
    ),
    Fault(
        name="an endpoint that GraphQL saves loses what nobody spoke of",
        path="orchestrator/account/endpoints/endpoints_graphql.py::EndpointsGraphQL.update",
        old="return await self._save(doing, {**kept, **wanted})",
        new='return await self._save(doing, {"id": endpoint_id, "name": kept["name"], **wanted})',
        tests=(f"{_TESTS}::test_an_endpoint_that_graphql_saves_keeps_what_nobody_spoke_of",),
    ),
    Fault(
        name="what is not found leads to the older interface",
        path="orchestrator/account/transport/fallback.py::InterfaceFallback.ask",
        old="or await is_there(form):",
        new=":",
        tests=(f"{_TESTS}::test_a_thing_that_is_not_there_is_no_interface_that_is_not_there",),
    ),
    Fault(
        name="the public service is asked though another address was set",
        path="orchestrator/core/service/account_interfaces.py::tried",
        old="return tuple(each for each in known if each in elsewhere) or known",
        new="return known",
        tests=(f"{_TESTS}::test_where_one_address_was_set_nothing_goes_to_the_public_service",),
    ),
    Fault(
        name="a list ends with its first page",
        path="orchestrator/account/transport/rest_client.py::Rest.all",
        old="if page.cursor is None or (limit is not None and len(found) >= limit):",
        new="if True:",
        tests=(
            "tests/account/transport/test_one_script.py::test_one_script_has_the_same_result_by_each_interface_and_with_the_older_ones_gone",
        ),
    ),
    Fault(
        name="a secret that REST quotes is shown",
        path="orchestrator/account/transport/rest_client.py::Rest._request",
        old="redactor = Redactor({HIDDEN: self._key}, sent=hidden)",
        new="redactor = Redactor({HIDDEN: self._key})",
        tests=(f"{_TESTS}::test_a_value_that_v2_quotes_is_hidden",),
    ),
    Fault(
        name="a line of a log that the service sends again is told again",
        path="orchestrator/account/transport/logs.py::LogReading._take",
        old="if event.id in self._known:",
        new="if False:",
        tests=(f"{_LOGS}::test_a_stream_that_was_cut_goes_on_behind_its_last_line_and_tells_each_line_once",),
    ),
    Fault(
        name="an endless answer is given up for its length",
        path="orchestrator/client/http/transport.py::Transport.send",
        old="self._watch.begin(limit_s, is_endless=request.is_endless)",
        new="self._watch.begin(limit_s)",
        tests=(f"{_LOGS}::test_a_stream_lasts_as_long_as_anything_comes_and_is_dropped_by_a_minute_of_silence",),
    ),
    Fault(
        name="what a pod has printed moves the cursor",
        path="orchestrator/cli/account/logs.py::_put",
        old='text = " ".join(plain(part) for part in',
        new='text = " ".join(part for part in',
        tests=("tests/cli/framework/test_pod_logs.py::test_each_line_is_printed_on_a_line_that_moves_no_cursor",),
    ),
)
