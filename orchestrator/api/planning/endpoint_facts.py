"""What is asked of an endpoint and its account before a run is planned: health, workers and price."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import anyio

from orchestrator.api.foreground.forecast_line import Place
from orchestrator.api.inspect.service_probe import service_state
from orchestrator.client import Service
from orchestrator.core.diagnosis.facts import ServiceState
from orchestrator.core.gates.costs import Price
from orchestrator.core.pools.member_health import UNREACHABLE, trouble_of_workers
from orchestrator.core.service.profiles import is_by_url
from orchestrator.engine.hosting.worker_scaling import knows_account
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import OrchestratorError
from orchestrator.settings.connection_settings import ConnectionSettings

ASK_S_MAX: Final = 5.0
"""How long the service may take to say how it is: without that, a plan is made all the same."""


T = TypeVar("T")


async def endpoint_state(
    connection: ConnectionSettings, given: Dependencies, place: Place
) -> tuple[ServiceState | None, int | None]:
    """How the endpoint is, and how long that took to ask; None where it cannot be asked, or did not tell."""
    if place.is_local or not (connection.api_key or is_by_url(place.service_url)):
        return None, None
    async with given.service(connection, given.clock) as service:
        asked_at = given.clock.now()
        state = await service_state(service, place.service_url, place.endpoint, within_s=ASK_S_MAX)
        trip_us = given.clock.now() - asked_at
    return state, trip_us if state.health is not None else None


def unwell(state: ServiceState | None) -> str | None:
    """Why nothing should be expected of an endpoint, by its answer; None where nothing speaks against it."""
    if state is None:
        return None
    if state.failure is not None:
        return UNREACHABLE
    if state.health is not None:
        return trouble_of_workers(state.health)
    return f"asked how it is, it answers {state.status}" if state.is_of_service else None


async def workers_in_account(connection: ConnectionSettings, given: Dependencies, place: Place) -> int | None:
    """How many workers the endpoint may have, as its settings in the account say; None where they cannot be seen."""

    async def ask(service: Service) -> int | None:
        return (await given.account(service, connection.rest_url).bounds(place.endpoint)).most

    return await _of_account(connection, given, place, ask)


async def price_in_account(connection: ConnectionSettings, given: Dependencies, place: Place) -> Price | None:
    """What a second of a worker costs, as the account's catalog says; None where that cannot be seen."""

    async def ask(service: Service) -> Price | None:
        return await given.account(service, connection.rest_url).price(place.endpoint)

    return await _of_account(connection, given, place, ask)


async def _of_account(
    connection: ConnectionSettings, given: Dependencies, place: Place, ask: Callable[[Service], Awaitable[T | None]]
) -> T | None:
    """What the account that goes with the service says; None where there is none, or it says nothing in time."""
    if place.is_local or not connection.api_key or not knows_account(connection.rest_url, place.service_url):
        return None
    with anyio.move_on_after(ASK_S_MAX), suppress(OrchestratorError):
        async with given.service(connection, given.clock) as service:
            return await ask(service)
    return None
