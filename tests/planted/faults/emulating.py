"""What the emulator does as the service does it, and how our client reads it."""

from tests.planted.faults.fault import Fault

ACCOUNTS = "tests/emulator/account_api/test_callers_file.py::"
STREAMS = "tests/client/jobs/test_streams.py::"
UNSERVED = "tests/emulator/http/test_not_found.py::"
STRICT = "tests/emulator/contract/test_strict.py::"
SERVING = "tests/emulator/test_serving.py::"
DOCUMENTS = "tests/emulator/test_tool_documents.py::"
WORKERS = "tests/emulator/workers/test_workers.py::"
BALANCED = "tests/emulator/job_api/test_load_balancer.py::"
WORLD = "tests/emulator/jobs/test_world_faults.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="an endpoint without a queue takes jobs",
        path="orchestrator/emulator/http/gate.py::Gate.enter",
        old="if self._endpoints.balances(endpoint) is not (operation is JobOperation.HTTP):",
        new="if False:",
        tests=(BALANCED + "test_it_has_no_queue_and_an_endpoint_with_a_queue_no_paths_of_its_own",),
    ),
    Fault(
        name="requests that go straight to workers start none",
        path="orchestrator/emulator/jobs/endpoint_table.py::EndpointState.under_way",
        old="return self.in_progress + self.connections",
        new="return self.in_progress",
        tests=(BALANCED + "test_one_that_is_created_says_where_it_is_asked_and_scales_by_its_requests",),
    ),
    Fault(
        name="an empty input is executed",
        path="orchestrator/emulator/jobs/executions.py::Executions._start",
        old="dead = self._dice.strikes(Fault.DEAD_WORKER) or job.is_empty",
        new="dead = self._dice.strikes(Fault.DEAD_WORKER)",
        tests=(WORLD + "test_an_empty_input_never_reaches_its_worker_and_its_job_fails_after_a_retry",),
    ),
    Fault(
        name="a key may do everything with jobs, whatever its permissions",
        path="orchestrator/emulator/http/gate.py::Gate._check_key",
        old="if not self._access.takes(key) or (scope is not None and not self._access.permits(key, scope)):",
        new="if not self._access.takes(key):",
        tests=(ACCOUNTS + "test_a_key_without_the_permission_is_refused_by_every_interface",),
    ),
    Fault(
        name="a stream whose end comes with chunks is asked for once more",
        path="orchestrator/client/jobs/streams.py::JobStream.__aiter__",
        old="if self.finished and (part.status or was_over):",
        new="if self.finished and not part.chunks:",
        tests=(STREAMS + "test_an_answer_that_says_that_the_job_is_over_ends_the_stream_whatever_its_chunks",),
    ),
    Fault(
        name="a job that is tried again goes to whoever asks first",
        path="orchestrator/emulator/jobs/endpoint_table.py::EndpointState.pop",
        old="if job.avoids != worker_id or not self.fleet.has_free_beside(worker_id):",
        new="if True:",
        tests=(WORKERS + "test_a_job_that_is_tried_again_goes_to_another_worker_if_there_is_one",),
    ),
    Fault(
        name="a path whose method is wrong is an unknown one",
        path="orchestrator/emulator/job_api/routes.py::RouteTable.app",
        old="allowed.update(route.methods or ())",
        new="pass",
        tests=(UNSERVED + "test_each_interface_has_one_form_of_errors",),
    ),
    Fault(
        name="a body is measured once its key is known",
        path="orchestrator/emulator/account_api/rest_v2.py::RestV2._decide",
        old="if bytes_max is not None:",
        new="if False:",
        tests=(STRICT + "test_a_new_pod_is_refused_as_by_the_service",),
    ),
    Fault(
        name="emulate ends well whatever its command does",
        path="orchestrator/api/emulation/child_environment.py::run_command",
        old="return code if code >= 0 else KILLED - code",
        new="return 0",
        tests=(SERVING + "test_a_command_has_the_variables_and_its_exit_code_is_ours",),
    ),
    Fault(
        name="who has no key may ask for everything by GraphQL",
        path="orchestrator/emulator/account_api/graphql.py::_guarded",
        old="if caller is None or (scope is not None and scope not in caller.scopes):",
        new="if sender.scopes is not None and scope is not None and scope not in sender.scopes:",
        tests=(DOCUMENTS + "test_what_everybody_may_know_takes_no_key_and_nothing_else_does",),
    ),
)
