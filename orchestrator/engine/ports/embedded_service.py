"""The emulator as a part of this process, for `local:` endpoints."""

import random

import anyio
from anyio.abc import TaskStatus

from orchestrator.client import Deliverer, InProcess, Service
from orchestrator.clock import Clock
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.limits import JobOperation, OperationLimit
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import Handler, load_handler
from orchestrator.engine.ports.local_endpoints import (
    LOCAL_ENDPOINT,
    LOCAL_KEY,
    LOCAL_URL,
    LOCAL_WORKERS,
    absolute_endpoint,
)
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.units import SECOND_US


class EmbeddedService:
    """An emulator that serves the function which `endpoint` names, or `function`, within the limits that the client
    keeps.

    Raises `UsageError` where the function cannot be loaded.
    """

    def __init__(
        self,
        endpoint: str,
        connection: ConnectionSettings,
        settings: RunSettings,
        clock: Clock,
        function: Handler | None = None,
    ) -> None:
        handler = function or load_handler(absolute_endpoint(endpoint).removeprefix(LOCAL))
        self._deliverer = Deliverer(clock)
        self._emulator = Emulator(
            EmulatorSettings(
                endpoints={LOCAL_ENDPOINT: handler},
                workers=LOCAL_WORKERS,
                keys=(LOCAL_KEY,),
                limits=_limits(connection),
                retention_s=settings.retention_us / SECOND_US,
            ),
            clock=clock,
            rng=random.Random(clock.now()),  # noqa: S311  else every process would give out the same ids
            deliver=self._deliverer.deliver,
        )
        self.service = Service(
            LOCAL_URL,
            LOCAL_KEY,
            clock,
            limits=connection.limits,
            pacing=connection.pacing,
            transport=InProcess(self._emulator.app, cut=ConnectionCut),
        )
        """The service that the emulator is, reached without a network."""

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Executes jobs until cancelled."""
        try:
            await self._emulator.serve(task_status=task_status)
        finally:
            with anyio.CancelScope(shield=True):  # closes idle connections, which takes no time
                await self._deliverer.aclose()


def _limits(connection: ConnectionSettings) -> dict[JobOperation, OperationLimit]:
    known = {operation.value: operation for operation in JobOperation}
    return {
        known[operation.value]: OperationLimit(
            requests=limit.requests, window_us=int(limit.window_s * SECOND_US), concurrent=limit.concurrent
        )
        for operation, limit in connection.limits.items()
        if operation.value in known
    }
