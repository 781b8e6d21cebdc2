"""All workers of an emulator: handlers, processes, workers from elsewhere, servers behind load balancers."""

import subprocess
from collections.abc import Callable, Mapping

from anyio.abc import TaskGroup
from starlette.routing import Route

from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.endpoint_kinds import EndpointKinds
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.job_api.load_balancer import LoadBalancer
from orchestrator.emulator.job_api.worker_routes import WorkerApi
from orchestrator.emulator.jobs.world import Due
from orchestrator.emulator.workers.worker_processes import WorkerProcesses
from orchestrator.emulator.workers.workers import HandlerWorkers
from orchestrator.emulator.world_clock import WorldClock


class Workforce:
    """The workers of all endpoints.

    `key` is what worker processes sign with, `environment` what an endpoint's template adds to theirs, `output` where
    they print. `world_clock` is rung when the world may be due earlier.
    """

    def __init__(
        self,
        settings: EmulatorSettings,
        *,
        kinds: EndpointKinds,
        world_clock: WorldClock,
        gate: Gate,
        key: str,
        environment: Callable[[str], Mapping[str, str]],
        output: int = subprocess.DEVNULL,
    ) -> None:
        world, clock, changed = world_clock.world, world_clock.clock, world_clock.ring
        self._kinds = kinds
        self._changed = changed
        self._handlers = HandlerWorkers(
            world=world,
            clock=clock,
            handlers=settings.endpoints,
            changed=changed,
            processes=settings.handler_processes,
        )
        self.api = WorkerApi(
            world=world,
            gate=gate,
            clock=clock,
            changed=self.operated,
            hold_s=settings.take_hold_s,
            repeated_done_status=settings.repeated_done_status,
        )
        self._balancer = LoadBalancer(
            settings.http_endpoints,
            fleet=world.fleet,
            gate=gate,
            clock=clock,
            changed=changed,
            scale=settings.time_scale,
        )
        self.processes: WorkerProcesses | None = None
        if settings.command:
            self.processes = WorkerProcesses(
                settings.command,
                world=world,
                api=self.api,
                clock=clock,
                scale=settings.time_scale,
                key=key,
                ping_interval_s=settings.ping_interval_s,
                environment=environment,
                changed=changed,
                listen_grace_s=settings.listen_grace_s,
                output=output,
            )

    def routes(self) -> list[Route]:
        """The routes to load balancing endpoints, and those that workers call."""
        return [*self._balancer.routes(), *self.api.routes()]

    async def start(self, tasks: TaskGroup) -> None:
        """Work in `tasks` until it is cancelled. Raises UsageError for an application that cannot begin."""
        await tasks.start(self._handlers.serve)
        await tasks.start(self._balancer.serve)
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
        self._changed()

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
