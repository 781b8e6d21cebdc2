"""What an `Orchestrator` does with runs of other services, and how it leaves."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.client import Service
from orchestrator.clock import Clock
from orchestrator.emulator.contract.faults import Faults
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.api.desk import desk, numbers
from tests.simulation.loop import running_loop
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_run_at_another_service_goes_on_with_the_key_that_is_named_for_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        async with d.orchestrator() as orc:
            await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions")
        keys: list[tuple[str, str]] = []

        def service(connection: ConnectionSettings, clock: Clock) -> Service:
            keys.append((connection.serverless_url, connection.api_key))
            return d.dependencies.service(connection, clock)

        there = replace(d.dependencies, service=service, environ={"THERE": "its-key"})
        keys_of = {URL: "env:THERE"}
        async with Orchestrator(
            d.ledger, serverless_url="http://elsewhere", service_keys=keys_of, api_key="key", _dependencies=there
        ) as orc:
            run = await orc.run("captions")
            assert [result.output async for result in run.results()] == [{"n": 0}]
        assert (URL, "its-key") in keys


async def test_whoever_hurries_waits_for_no_answer_on_leaving(tmp_path: Path) -> None:
    async with desk(tmp_path, faults=Faults(slow_answer=1.0, slow_answer_s=20.0)) as d:
        lasted_s = []
        for is_hurried in (False, True):
            async with d.orchestrator() as orc:
                await orc.submit(numbers(1), endpoint=ENDPOINT)
                await anyio.sleep(1)
                if is_hurried:
                    orc.hurry()
                left_at = running_loop().time()
            lasted_s.append(running_loop().time() - left_at)
        waited_s, hurried_s = lasted_s
        assert hurried_s < 1 < waited_s
