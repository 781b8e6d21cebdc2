"""Jobs whose request is answered with their result."""

from tests.planted.faults.fault import Fault

_HERE = "tests/engine/lanes/test_direct_responses.py::"
_URLS = "tests/engine/lanes/test_url_endpoints.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a request past the queue whose answer was lost waits for a webhook",
        path="orchestrator/engine/endpoint/endpoint.py::Endpoint.settle_at",
        old="webhooks=self.webhooks and settings.via.has_queue,",
        new="webhooks=self.webhooks,",
        tests=(f"{_HERE}test_an_answer_that_was_lost_is_settled_by_the_policy_and_no_webhook_is_waited_for",),
    ),
    Fault(
        name="a request past the queue is given up like any other, after half a minute",
        path="orchestrator/client/jobs/serverless.py::ServerlessEndpoint.openai",
        old="return await self.send(permit, Operation.OPENAI, request, within_s=within_s)",
        new="return await self.send(permit, Operation.OPENAI, request)",
        tests=(f"{_HERE}test_an_answer_may_take_as_long_as_an_execution",),
    ),
    Fault(
        name="what failed past the queue counts as a lost answer",
        path="orchestrator/core/lanes/openai.py::of_openai",
        old="if result.status == _FAILED:",
        new="if result.status == _FAILED + 1:",
        tests=("tests/core/lanes/test_openai.py::test_a_500_is_an_execution_that_failed",),
    ),
    Fault(
        name="a request past the queue whose answer was lost is sent again as if it had not left",
        path="orchestrator/core/lanes/openai.py::of_openai",
        old="outcome = run_outcome(result)",
        new="outcome = run_outcome(result if isinstance(result, Answer) else NotSent(str(result)))",
        tests=(f"{_HERE}test_an_answer_that_was_lost_is_settled_by_the_policy_and_no_webhook_is_waited_for",),
        worlds=("direct", 0, 12),
    ),
    Fault(
        name="past the queue a machine that sleeps pays for the time",
        path="orchestrator/engine/lanes/direct_lanes.py::DirectLane.send",
        old="return msgspec.structs.replace(answer, answered_at=min(answer.answered_at, latest_at))",
        new="return answer",
        tests=(f"{_HERE}test_what_a_machine_sleeps_through_is_not_counted_as_paid",),
        worlds=("swarm", 316, 1),
    ),
    Fault(
        name="past the queue nobody judges outputs",
        path="orchestrator/engine/lanes/lane.py::ResultLane._on_end",
        old='if record.status == "COMPLETED":',
        new='if record.status == "TIMED_OUT":',
        tests=(f"{_HERE}test_outputs_are_judged_as_everywhere",),
    ),
    Fault(
        name="requests past the queue take the places of those into it",
        path="orchestrator/core/lanes/via.py::_OPERATIONS",
        old="Via.OPENAI: (Operation.OPENAI,),",
        new="Via.OPENAI: (Operation.RUN,),",
        tests=(f"{_HERE}test_the_limits_of_that_operation_bind",),
    ),
    Fault(
        name="a model that a worker does not have is an endpoint that is not there",
        path="orchestrator/core/lanes/openai.py::of_openai",
        old="if result.status == _UNKNOWN and is_of_worker:",
        new="if False:",
        tests=("tests/core/lanes/test_openai.py::test_everything_else_means_what_it_means_of_a_run",),
    ),
    Fault(
        name="a request past the queue may lead anywhere",
        path="orchestrator/core/lanes/openai.py::direct_request",
        old="if ROUTE.fullmatch(found.openai_route) is None:",
        new='if not found.openai_route.startswith("/"):',
        tests=("tests/core/lanes/test_openai.py::test_what_is_no_request_is_told_to_its_author",),
    ),
    Fault(
        name="what a worker past the queue says is kept with the secrets in it",
        path="orchestrator/engine/lanes/direct_lanes.py::DirectLane.step",
        old="result = self._scrubbed(result)",
        new="result = self._scrubbed_if_refused(result)",
        tests=(f"{_HERE}test_a_secret_in_an_answer_is_not_kept",),
    ),
    Fault(
        name="the key of the service is sent to whoever is at a URL",
        path="orchestrator/client/jobs/service.py::Service._key_of",
        old="if key and belongs_to_service(url, service)",
        new="if key",
        tests=("tests/client/jobs/test_url_endpoint.py::test_the_services_key_goes_to_the_service_only",),
    ),
    Fault(
        name="whoever's name ends as the service's does gets its key",
        path="orchestrator/core/service/url_endpoints.py::belongs_to_service",
        old='host.endswith(f".{of}")',
        new="host.endswith(of)",
        tests=("tests/core/service/test_url_endpoints.py::test_only_what_is_the_services_may_see_its_key",),
    ),
    Fault(
        name="what took too long for a proxy counts as not executed",
        path="orchestrator/core/lanes/http.py::of_http",
        old="if result.status == TOO_LONG:",
        new='if result.status == TOO_LONG:\n    return Deferred(FailureClass.SERVER, "524")\nif result.status == TOO_LONG:',
        tests=(
            "tests/core/lanes/test_http.py::test_what_was_executed_is_over_and_took_no_longer_than_its_request",
            f"{_URLS}test_what_was_not_executed_costs_nothing_and_all_else_may_have",
        ),
    ),
    Fault(
        name="a request to a URL whose answer was lost is sent again as if it had not left",
        path="orchestrator/core/lanes/http.py::of_http",
        old="return Uncertain(str(result))",
        new="return Deferred(FailureClass.TRANSPORT, str(result))",
        tests=(f"{_URLS}test_what_was_not_executed_costs_nothing_and_all_else_may_have",),
        worlds=("urls", 0, 12),
    ),
    Fault(
        name="of an emulator that runs fast executions past the queue are taken for as long as they are there",
        path="orchestrator/engine/endpoint/estimates.py::EndpointEstimates.remember",
        old="self._here_ms(sane_ms(took.execution_ms))",
        new="sane_ms(took.execution_ms)",
        tests=(
            "tests/engine/lanes/test_direct_responses.py::test_where_the_service_runs_fast_an_execution_is_known_to_take_as_long_as_it_does_here",
        ),
    ),
    Fault(
        name="no worker of a load balancing endpoint was free, and the job is refused for good",
        path="orchestrator/core/lanes/http.py::_not_begun",
        old="if status == NO_WORKER and NO_WORKER_TEXT.fullmatch(_text(answer.body)):",
        new="if False:",
        tests=(f"{_URLS}test_while_workers_start_jobs_wait_and_go_once_the_server_says_that_it_is_well",),
    ),
)
