"""Two accounts at one service: whatever is asked for, no request goes out with a key that is not the run's."""

import json
from pathlib import Path
from typing import Final

import anyio
import httpx
import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.run import run
from orchestrator.api.foreground.serve import serve
from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.api.runs.process_commands import control
from orchestrator.client import Service
from orchestrator.clock import Clock
from orchestrator.core.service.profiles import address_of, place
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.service_registry import ServiceRegistry
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.ledger import read_ledger
from orchestrator.settings.command_requests import ControlAction, DoctorRequest, ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEYS: Final = {"work": "key-of-work", "home": "key-of-home", None: "key-of-nobody"}
FOREIGN: Final = ("home", None)
"""Who is not `work`."""


class Accounts:
    """One service with an account for each key; what was asked of it, by key."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        self.folder, self.clock = folder, clock
        self.ledger = empty_ledger(folder / "ledger.db")
        self.asked: list[str] = []
        self.service = SimulatedService(clock, workers=5, seconds=lambda _: 30.0)
        (folder / "in.jsonl").write_text("".join(json.dumps({"input": {"n": n}}) + "\n" for n in range(3)))

    @property
    def around(self) -> Dependencies:
        return Dependencies(clock=self.clock, environ={}, service=self._service, connect=async_creator)

    def connection(self, profile: str | None) -> ConnectionSettings:
        return ConnectionSettings(serverless_url=place(URL, profile), api_key=KEYS[profile])

    def request(self, profile: str | None, *, resumes: bool = False) -> RunRequest:
        return RunRequest(
            name="night",
            source=None if resumes else str(self.folder / "in.jsonl"),
            endpoint=None if resumes else ENDPOINT,
            ledger=self.ledger,
            connection=self.connection(profile),
            settings=None if resumes else RunSettings(),
        )

    async def begun_by_work(self) -> None:
        """A run that `work` has begun, whose jobs are at the service."""
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run, self.request("work"), SilentConsole(), self.around, stop)
            await anyio.sleep(10)
            stop.set()
        assert set(self.asked) == {KEYS["work"]}
        self.asked.clear()

    async def places(self) -> list[tuple[str, str]]:
        async with read_ledger(self.ledger, clock=self.clock, connect=async_creator(self.ledger)) as ledger:
            return [(each.service_url, each.endpoint) for each in await ledger.runs.all()]

    def _service(self, connection: ConnectionSettings, clock: Clock) -> Service:
        inner, asked = self.service.transport(), self.asked

        class Noting(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                assert "#" not in str(request.url)
                asked.append(request.headers["authorization"].removeprefix("Bearer "))
                return await inner.handle_async_request(request)

        return Service(address_of(connection.serverless_url), connection.api_key, clock, transport=Noting())


@pytest.mark.slow
async def test_a_run_stays_with_its_account_whatever_others_ask_for(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path, VirtualClock())
    async with accounts.service.serving():
        await accounts.begun_by_work()
        assert await accounts.places() == [(f"{URL}#work", ENDPOINT)]
        for profile in FOREIGN:
            for resumes in (True, False):
                with pytest.raises(
                    UsageError, match="belongs to the profile work: add --profile work; nothing was sent"
                ):
                    await run(accounts.request(profile, resumes=resumes), SilentConsole(), accounts.around)
            connection = accounts.connection(profile)
            found = await doctor(DoctorRequest(ledger=accounts.ledger, connection=connection), accounts.around)
            assert "give --profile work" in str(found.not_asked)
            assert found.findings[0].advice.startswith("orchestrator resume night --profile work")
            found = await doctor(DoctorRequest(ledger=accounts.ledger, no_account="no such profile"), accounts.around)
            assert found.not_asked == ("what the services say: no such profile",)
            with anyio.move_on_after(60):
                await serve(ServeRequest(ledger=accounts.ledger, connection=connection), None, accounts.around)
            async with Orchestrator(
                accounts.ledger,
                serverless_url=URL,
                api_key=KEYS[profile],
                _dependencies=accounts.around,
            ) as orc:
                with pytest.raises(OrchestratorError, match="belongs to the profile work"):
                    await orc.run("night")
        await control(accounts.ledger, "night", ControlAction.PAUSE, accounts.around)
        await control(accounts.ledger, "night", ControlAction.CONTINUE, accounts.around)
        assert accounts.asked == []
        summary = await run(accounts.request("work", resumes=True), SilentConsole(), accounts.around)
        assert summary.jobs["succeeded"] == 3
        assert set(accounts.asked) == {KEYS["work"]}


async def test_a_cancel_waits_for_a_process_of_its_account(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path, VirtualClock())
    async with accounts.service.serving():
        await accounts.begun_by_work()
        connection = accounts.connection("home")
        async with anyio.create_task_group() as group:
            stop = anyio.Event()
            group.start_soon(
                serve, ServeRequest(ledger=accounts.ledger, connection=connection), None, accounts.around, stop
            )
            await anyio.sleep(5)
            await control(accounts.ledger, "night", ControlAction.CANCEL, accounts.around)
            await anyio.sleep(60)
            stop.set()
        assert accounts.asked == []
        await run(accounts.request("work", resumes=True), SilentConsole(), accounts.around)
        assert set(accounts.asked) == {KEYS["work"]}


async def test_a_run_without_a_profile_is_not_for_a_profile(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path, VirtualClock())
    async with accounts.service.serving():
        await run(accounts.request(None), SilentConsole(), accounts.around)
        accounts.asked.clear()
        for resumes in (True, False):
            with pytest.raises(UsageError, match="was begun without a profile: leave --profile and its variable out"):
                await run(accounts.request("work", resumes=resumes), SilentConsole(), accounts.around)
        assert accounts.asked == []
        other = replace(accounts.request("work"), name="other")
        assert (await run(other, SilentConsole(), accounts.around)).jobs["succeeded"] == 3
        assert await accounts.places() == [(URL, ENDPOINT), (f"{URL}#work", ENDPOINT)]


async def test_a_key_is_for_another_address_of_its_account_but_for_no_other_account(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path, VirtualClock())
    async with anyio.create_task_group() as outer:
        services = ServiceRegistry(accounts.connection("home"), accounts.around, SilentConsole(), outer)
        services.use_key_for(place(URL, "work"))
        assert services.at(place(URL, "work")) is None
        services.use_key_for(elsewhere := place("https://elsewhere.example", "home"))
        assert services.at(elsewhere) is not None
        await services.aclose()
