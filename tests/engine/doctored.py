"""A run at work on virtual time, and what `doctor` says of it from outside."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx

from orchestrator.api.foreground.run import run
from orchestrator.api.foreground.serve import serve
from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs.process_commands import control
from orchestrator.client import Service
from orchestrator.core.diagnosis.causes import Cause, Diagnosis
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.heartbeat import BEAT_S
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import StoppedError
from orchestrator.ledger import holder, read_ledger
from orchestrator.settings.command_requests import ControlAction, DoctorRequest, ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import SAMPLE_EVERY_S, Listener
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL


class Patient:
    """A ledger, and what people do beside the process that works on it."""

    def __init__(self, folder: Path, clock: VirtualClock, transport: httpx.AsyncBaseTransport) -> None:
        self.path = empty_ledger(folder / "ledger.db")
        self.folder, self.clock = folder, clock
        self.around = Dependencies(
            clock=clock,
            environ={},
            service=lambda connection, clock: Service(
                connection.serverless_url, "key", clock, limits=connection.limits, transport=transport
            ),
            connect=async_creator,
            sample_every_s=SAMPLE_EVERY_S,
            say_every_s=BEAT_S,  # seldom, or each test would take a second more
            watch_every_s=BEAT_S,
            listener=lambda _app, _address: Listener(),
        )

    async def diagnosis(self, name: str | None = None) -> Diagnosis:
        connection = ConnectionSettings(api_key="key")
        return await doctor(DoctorRequest(ledger=self.path, name=name, connection=connection), self.around)

    async def causes(self) -> list[Cause]:
        """The causes that are found, in their order."""
        return [finding.cause for finding in (await self.diagnosis()).findings]

    async def shown(self) -> str | None:
        """What `status` says of the first run."""
        async with read_ledger(self.path, clock=self.clock, connect=async_creator(self.path)) as ledger:
            return (await runs_now(ledger, holder(self.path)))[0].finding

    async def action(self, action: ControlAction) -> None:
        await control(self.path, "in", action, self.around)

    @asynccontextmanager
    async def at_work(
        self,
        *,
        jobs: int = 50,
        settings: RunSettings | None = None,
        limits: dict[Operation, Limit] | None = None,
        webhooks: bool = False,
    ) -> AsyncIterator[None]:
        """While the block runs, a process works on the run `in`; it is killed at the end."""
        source = self.folder / "in.jsonl"
        source.write_text("".join(json.dumps({"input": {"n": n}}) + "\n" for n in range(jobs)))
        connection = ConnectionSettings(
            serverless_url=URL,
            api_key="key",
            listen="127.0.0.1:0" if webhooks else None,
            webhook_url="http://listener" if webhooks else None,
            limits={**CONTRACT_LIMITS, **(limits or {})},
        )
        request = RunRequest(
            name="in",
            source=str(source),
            endpoint=ENDPOINT,
            ledger=self.path,
            connection=connection,
            settings=settings or RunSettings(),
        )

        async def work() -> None:
            with suppress(StoppedError):  # what stopped it is what is looked for
                await run(request, SilentConsole(), self.around)

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def served(self, connection: ConnectionSettings) -> AsyncIterator[None]:
        """While the block runs, a process serves all runs of the ledger; it is killed at the end."""
        async with anyio.create_task_group() as group:
            group.start_soon(serve, ServeRequest(ledger=self.path, connection=connection), SilentConsole(), self.around)
            yield
            group.cancel_scope.cancel()
