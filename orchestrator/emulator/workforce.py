"""All workers of an emulator: handlers, processes, workers from elsewhere, servers of load balancers and of pods."""

import subprocess
from collections.abc import Callable, Mapping

from anyio.abc import TaskGroup
from starlette.routing import Route

from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.endpoint_kinds import EndpointKinds
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.job_api.load_balancer import LoadBalancer
from orchestrator.emulator.job_api.pod_proxy import PodProxy, ProxiedPods
from orchestrator.emulator.job_api.worker_routes import WorkerApi
from orchestrator.emulator.jobs.world import Due
from orchestrator.emulator.workers.worker_processes import WorkerEnvironment, WorkerProcesses
from orchestrator.emulator.workers.workers import HandlerWorkers


class Workforce:
    """The workers of all endpoints.

    Worker processes sign with `key`, find in their environment what the `template` of an endpoint adds, and print to
    `output`.
    """

    def __init__(
        self,
        settings: EmulatorSettings,
        live: LiveWorld,
        *,
        kinds: EndpointKinds,
        gate: Gate,
        pods: ProxiedPods,
        key: str,
        template: Callable[[str], Mapping[str, str]],
        output: int = subprocess.DEVNULL,
    ) -> None:
        self._live = live
        self._kinds = kinds
        self._handlers = HandlerWorkers(live, settings.endpoints, settings.handler_processes)
        self.api = WorkerApi(
            live,
            gate,
            changed=self.operated,
            hold_s=settings.take_hold_s,
            repeated_done_status=settings.repeated_done_status,
        )
        self._balancer = LoadBalancer(settings.http_endpoints, live, gate)
        self._pod_proxy = PodProxy(settings.pod_servers, pods, live, gate)
        self.processes: WorkerProcesses | None = None
        if settings.command:
            self.processes = WorkerProcesses(
                settings.command,
                live,
                api=self.api,
                environment=WorkerEnvironment(key=key, ping_interval_s=settings.ping_interval_s, template=template),
                listen_grace_s=settings.listen_grace_s,
                output=output,
            )

    def routes(self) -> list[Route]:
        """The routes to load balancing endpoints and to pods, and those that workers call."""
        return [*self._balancer.routes(), *self._pod_proxy.routes(), *self.api.routes()]

    async def start(self, tasks: TaskGroup) -> None:
        """Work in `tasks` until it is cancelled. Raises UsageError for an application that cannot begin."""
        await tasks.start(self._handlers.serve)
        await tasks.start(self._balancer.serve)
        await tasks.start(self._pod_proxy.serve)
        if self.processes is not None:
            await tasks.start(self.processes.serve)

    def wake(self, endpoint: str) -> None:
        """A job may have been queued, or a worker have become free."""
        self._handlers.wake(endpoint)
        self.api.wake(endpoint)
        self._balancer.wake(endpoint)

    def operated(self, endpoint: str) -> None:
        """An operation may have queued a job, or changed what the world is due to do."""
        self.wake(endpoint)
        self._live.ring()

    def carry_out(self, due: Due) -> None:
        """Start and stop what the world says."""
        for execution in due.stopped:
            self._handlers.stop(execution)
            stopping = self.api.stop(execution)
            if stopping is not None and self.processes is not None:
                self.processes.expect_to_listen(*stopping)
        if self.processes is not None:
            for endpoint, worker_id in due.started:
                if self._kinds.runs_processes(endpoint):
                    self.processes.start(endpoint, worker_id)
            for endpoint, worker_id in due.stopping:
                self.processes.stop(endpoint, worker_id)
        for endpoint in due.queued:
            self.wake(endpoint)
