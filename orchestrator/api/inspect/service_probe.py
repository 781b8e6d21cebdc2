"""Asks a service, once and harmlessly, how an endpoint is, and the webhook URL whether the listener answers there: for
`doctor`, which has to tell what is in the way.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from orchestrator.client import ServerlessEndpoint, Service
from orchestrator.client.http.posts import post_without_key
from orchestrator.clock import Clock
from orchestrator.core.diagnosis.facts import ServiceState, WebhookState
from orchestrator.core.diagnosis.service_rules import COLD_START, TELLS_NO_HEALTH, is_starting
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.health import Health, health_of, is_of_service
from orchestrator.core.service.http_answers import Answer, clock_ahead_us
from orchestrator.core.service.webhook_token import SELF_TESTS, hook_url, self_test_answer, token
from orchestrator.engine.hosting.worker_scaling import knows_account
from orchestrator.engine.ports.account_endpoints import AccountEndpoints
from orchestrator.errors import Hurdle, NotSent, OrchestratorError, Unanswered, UsageError

ASK_S_MAX: Final = 10.0
"""How long nothing may come of a question."""

SECOND_LOOK_S: Final = 5.0
"""An endpoint that has scaled to zero starts a worker within this time for a job that was just queued."""


async def service_state(service: Service, service_url: str, endpoint: str, *, within_s: float) -> ServiceState:
    """How `endpoint` is. One that has no workers for what waits is looked at twice: the first may be starting."""
    state = await _asked(service, service_url, endpoint, within_s)
    if state.health is None or not _waits_in_vain(state.health):
        return state
    await anyio.sleep(SECOND_LOOK_S)
    return await _asked(service, service_url, endpoint, within_s)


def _waits_in_vain(health: Health) -> bool:
    workers = (health.workers.idle, health.workers.running, health.workers.initializing)
    return bool(health.jobs.in_queue) and not any(workers)


async def _asked(service: Service, service_url: str, endpoint: str, within_s: float) -> ServiceState:
    def failed(error: Exception, hurdle: Hurdle | None) -> ServiceState:
        return ServiceState(endpoint=endpoint, service_url=service_url, failure=str(error), hurdle=hurdle)

    try:
        api = service.endpoint(endpoint).api
    except UsageError as error:  # the id was found good before: it is the environment's proxy that cannot be used
        return failed(error, Hurdle.PROXY)
    try:
        answer = await _health(api, within_s)
    except (NotSent, Unanswered) as error:
        return failed(error, error.hurdle)
    health = health_of(answer.status, answer.body)
    return ServiceState(
        endpoint=endpoint,
        service_url=service_url,
        status=answer.status,
        is_of_service=is_of_service(answer.status, answer.body),
        health=health,
        tells_health=api.tells_health,
        ahead_us=clock_ahead_us(answer),
    )


async def _health(api: ServerlessEndpoint, within_s: float) -> Answer:
    return await api.health(await api.limiter.permit(Operation.HEALTH), within_s=within_s)


async def timeout_there(
    account: Callable[[], AccountEndpoints], rest_url: str, state: ServiceState, *, within_s: float
) -> int | None:
    """How long an execution may take at the endpoint of `state` whose job does not say, by the `account` at `rest_url`;
    0: as long as the service allows. None where that is another account's, or is not told in time.
    """
    if not knows_account(rest_url, state.service_url):
        return None
    with anyio.move_on_after(within_s), suppress(OrchestratorError):
        return await account().timeout_ms(state.endpoint)
    return None


async def webhook_state(url: str, key: bytes, clock: Clock, *, within_s: float) -> WebhookState:
    """Who answers at the webhook URL `url`: the listener that has `key`, by a token of its own, or somebody else."""
    number = SELF_TESTS.start + clock.now() % (SELF_TESTS.stop - SELF_TESTS.start)
    try:
        answer = await post_without_key(hook_url(url, token(key, number)), clock, within_s=within_s)
    except (NotSent, Unanswered, UsageError) as error:
        return WebhookState(url=url, failure=str(error))
    is_ours = answer.body == self_test_answer(key, number).encode()
    return WebhookState(url=url, status=answer.status, is_ours=is_ours)


def how_it_is(service: ServiceState) -> str:
    """An endpoint that said how it is, and what of that is worth a word."""
    if not service.tells_health:
        return f"{service.name} ({TELLS_NO_HEALTH})"
    starting = service.health is not None and is_starting(service.health)
    return f"{service.name} ({COLD_START})" if starting else service.name
