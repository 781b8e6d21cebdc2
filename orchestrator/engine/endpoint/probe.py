"""What asks `/health` of one endpoint, with growing pauses, to find out whether it answers, is shut, or was mended."""

from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.client import ServerlessEndpoint
from orchestrator.clock import Clock
from orchestrator.core.gates.probe_backoff import PAUSE_US_MAX
from orchestrator.core.service.health import is_of_service
from orchestrator.core.service.http_answers import POINTLESS, Pointless
from orchestrator.core.service.outcomes import run_outcome
from orchestrator.engine.endpoint.health import EndpointHealth
from orchestrator.engine.runtime.poll_loop import Wakeup, keep_polling
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US

PAUSE_S_MAX: Final = PAUSE_US_MAX / SECOND_US


class EndpointProbe:
    """Of one endpoint. What it finds out is kept in its `health`, whose `changes` wake it."""

    def __init__(self, api: ServerlessEndpoint, clock: Clock, health: EndpointHealth, changes: Subscribers) -> None:
        self._api = api
        self._clock = clock
        self._health = health
        self._wakeup = Wakeup()
        self._is_looking = False
        changes.add(self._wakeup.wake)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """While the endpoint is stopped, asks `/health` at growing pauses; a good answer lets everything go on."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=PAUSE_S_MAX)

    async def _poll(self) -> float:
        due_at, now = self._health.probing.due_at, self._clock.now()
        if due_at is None or now < due_at:
            return (PAUSE_US_MAX if due_at is None else due_at - now) / SECOND_US
        if await self._api.ask_health() is None:
            self._health.probing.wait(self._clock.now())
        else:
            self._health.go_on()
        return 0.0

    async def stop_if_shut(self, refusal: Pointless) -> None:
        """Where nothing was ever accepted, and the endpoint refuses to say even how it is, the key is wrong, or the
        address: nobody need wait a minute for that.
        """
        if self._health.has_worked or self._health.stopped is not None or self._is_looking:
            return
        self._is_looking = True
        try:
            answer = await self._api.health_answer()  # without one the minute tells
        finally:
            self._is_looking = False
        if answer is not None and answer.status in POINTLESS and not self._health.has_worked:
            self._health.stop_submitting(refusal)

    async def is_answering(self) -> bool:
        """Whether the service answers a question that costs nothing; else the breaker stays tripped."""
        permit = await self._api.health_permit()
        sent_at = self._clock.now()
        if permit is None:  # it is not to be asked for a while: then single submissions find out
            return not self._health.questions.breaker.is_tripped
        if self._health.submissions.breaker.wait_us(sent_at):  # somebody else has found out meanwhile
            permit.give_back()
            return False
        try:
            answer = await self._api.health(permit)
        except (NotSent, Unanswered):
            answer = None
            self._health.connectivity.record_failure(sent_at=sent_at, now=self._clock.now())
        else:
            self._health.connectivity.record_success(self._clock.now())
        if answer is not None and is_of_service(answer.status, answer.body):
            return True
        self._health.submissions.breaker.record_failure(sent_at=sent_at, now=self._clock.now())
        return False


async def refusal(api: ServerlessEndpoint) -> str | None:
    """Why nothing can be sent to an endpoint, as far as its `/health` tells; None where nothing speaks against it."""
    answer = await api.health_answer()
    found = None if answer is None else run_outcome(answer)
    return found.reason if isinstance(found, Pointless) else None
