"""What a second of a worker costs, as the account's catalog says: of the GPU that its endpoint asks for first."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.client import Service
from orchestrator.core.gates.costs import Price
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.gpu_catalog import gpu_type_records
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from orchestrator.errors import OrchestratorError
from tests.emulator.accounts import TEMPLATE
from tests.simulation.clock import VirtualClock
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOUR_S = 3_600
[EACH] = {each["price"]["serverless"] for each in gpu_type_records()}  # type: ignore[index]  # all cost the same there


async def price_of(wanted: Mapping[str, Any] | None, key: str = "key") -> Price | None:
    clock = VirtualClock()
    emulator = Emulator(
        EmulatorSettings(endpoints={"*": lambda job: job}, keys=("key",), propagation_s=0),
        clock=clock,
        rng=random.Random(1),
    )
    endpoint = "unknown"
    if wanted is not None:
        template = emulator.account.templates.save(TEMPLATE)
        endpoint = emulator.account.endpoints.create({"templateId": template.id, **wanted}, clock.now()).id
    service = Service(URL, key, clock, transport=SimulatedTransport(emulator.app, cut=ConnectionCut))
    return await RunEndpoints(service, URL).price(endpoint)


async def test_it_is_the_hour_of_the_first_pool_s_gpu_times_how_many_a_worker_has() -> None:
    one = await price_of({"gpuTypeIds": ("ADA_24", "AMPERE_80")})
    assert one is not None
    assert one.per_s == pytest.approx(EACH / HOUR_S)
    assert one.source == "as the catalog says of NVIDIA GeForce RTX 4090"
    two = await price_of({"gpuTypeIds": ("NVIDIA L4",), "gpuCount": 2})
    assert two is not None
    assert two.per_s == pytest.approx(2 * EACH / HOUR_S)
    assert two.source == "as the catalog says of 2 NVIDIA L4"


async def test_of_a_gpu_that_the_catalog_does_not_have_nothing_is_said() -> None:
    assert await price_of({"gpuTypeIds": ("NVIDIA T9",)}) is None


@pytest.mark.parametrize(("wanted", "key"), [(None, "key"), ({}, "other")])
async def test_what_may_not_be_read_or_is_not_there_is_an_error_that_a_plan_does_without(
    wanted: Mapping[str, Any] | None, key: str
) -> None:
    with pytest.raises(OrchestratorError):
        await price_of(wanted, key)
