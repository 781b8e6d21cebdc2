"""The Batch API of a simulated world: whichever process serves it, and the way of programs there."""

import os
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import httpx
from msgspec.structs import replace
from starlette.types import ASGIApp

from orchestrator.api.batch_api.batch_service import batch_service
from orchestrator.api.foreground.serve import serve
from orchestrator.api.hosting.host import Host
from orchestrator.batch_api.application import batch_api_application
from orchestrator.engine.engine import Engine
from orchestrator.settings.batch_api.batch_api_settings import BatchApiSettings
from orchestrator.settings.batch_api.served_models import read_models
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.words_and_defaults import REST_URL_DEFAULT
from orchestrator.units import SECOND_US
from tests.simulation.console import Console
from tests.simulation.facts import Facts
from tests.simulation.network import Side
from tests.simulation.plan import Plan
from tests.simulation.posted_plan import TEAMS
from tests.simulation.process import SECRETS, Process
from tests.simulation.run_command import connection_of
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import ENDPOINT

MODEL: Final = "org/small"
FILES: Final = "ledger.db.files"
ANSWERED_S_MAX: Final = 10.0
"""So long a program waits for an answer of a process that may be dead."""

AN_HOUR_S: Final = 3_600.0


class _Site(NamedTuple):
    process: Process
    side: Side
    app: SimulatedTransport


class Front(httpx.AsyncBaseTransport):
    """The address of the Batch API, at which one process after the other listens."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._site: _Site | None = None
        self._models = facts.folder / "orchestrator.toml"
        self._models.write_text(_models(facts.plan))
        self.ages = False
        """Whether all that lies in the folder of files is to be old as the next process begins."""

    async def serve(self, process: Process) -> None:
        """What a process does that was given the command."""

        async def alongside(host: Host, engine: Engine) -> None:
            service = batch_service(host, engine, BatchApiSettings(), read_models(str(self._models), {}))
            keys = {team: SECRETS[_variable(team)] for team in TEAMS}
            app: ASGIApp = batch_api_application(service.store, [MODEL], keys)
            if self.ages:
                self._age(service.store.files.folder, engine.ledger.now() / SECOND_US)
            await service.upkeep.run_once()
            async with anyio.create_task_group() as tasks:
                self._site = site = _Site(process, Side(tasks), SimulatedTransport(app))
                try:
                    await service.serve()
                finally:
                    if self._site is site:
                        self._site = None

        facts = self._facts
        connection = replace(
            connection_of(facts.plan, facts.runs[0].plan), rest_url=REST_URL_DEFAULT
        )  # no account of that service
        request = ServeRequest(ledger=facts.ledger, connection=connection)
        console = Console(facts, facts.runs[0])
        await serve(request, console, process.dependencies(), process.stop, alongside=alongside)

    def _age(self, folder: Path, now_s: float) -> None:
        for each in folder.iterdir():
            os.utime(each, (now_s - AN_HOUR_S, now_s - AN_HOUR_S))

    @property
    def is_open(self) -> bool:
        """Whether a process answers there."""
        return self._site is not None and not self._site.process.is_dead

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carries one request of a program there, and its answer back. Raises as a network does."""
        await request.aread()
        await anyio.sleep(0.01)
        site = self._site
        if site is None or site.process.is_dead:
            raise httpx.ConnectError("nobody listens there")
        with anyio.move_on_after(ANSWERED_S_MAX):
            return await site.side.ask(site.app.handle_async_request, request)
        raise httpx.ReadTimeout("no answer")

    def client(self, team: str) -> httpx.AsyncClient:
        """What a program of that team asks by."""
        headers = {"authorization": f"Bearer {SECRETS[_variable(team)]}"}
        return httpx.AsyncClient(transport=self, base_url="http://127.0.0.1:8800/v1", headers=headers)


def _variable(team: str) -> str:
    return team.upper().replace("-", "_")


def _models(plan: Plan) -> str:
    """What the configuration file says of the model that is served."""
    said = {
        "endpoint": ENDPOINT,
        "max-attempts": plan.max_attempts,
        "result-retention": f"{plan.retention_s:g}s",
        "execution-timeout": f"{plan.execution_timeout_s:g}s",
        "ttl": f"{plan.ttl_s:g}s",
        "on-uncertain": str(plan.on_uncertain),
        "on-expired": str(plan.on_expired),
        "require-output": True,
        "breaker": "off",
    }
    values = (
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in said.items()
    )
    return "\n".join([f'[models."{MODEL}"]', *values, ""]).replace("'", '"')
