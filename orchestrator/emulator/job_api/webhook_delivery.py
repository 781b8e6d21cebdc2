"""Delivers webhooks: a few attempts with pauses between them, then never again (contract, Events; as observed).

The HTTP call is handed in (`http.webhook_post.post` does it for an emulator on a port), so that a simulation can call
the receiver directly.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.emulator.jobs.webhook_schedule import WebhookCall

log = logging.getLogger(__name__)

Deliver = Callable[[str, bytes, Mapping[str, str]], Awaitable[int]]
"""POSTs a body with headers to a URL; returns the HTTP status, raises whatever it likes if there was none."""

HEADERS: Mapping[str, str] = {"content-type": "application/json", "user-agent": "Go-http-client/2.0"}

WAITING_MAX = 100_000
"""Webhooks that wait for an attempt; more are dropped and counted, lest a dead receiver fill the memory."""

CONTRACT_SUCCESS = (200,)
"""With what a receiver takes a webhook (contract, Webhook 1)."""


class WebhookDelivery:
    """Tries each webhook at once and after each of `delays_s`, until an attempt is answered with a status of `success`
    within `timeout_s`. Each attempt has a `traceparent` (W3C) that tells it from others, in the trace of its webhook.

    At most `concurrency` attempts are under way at a time.
    """

    def __init__(
        self,
        deliver: Deliver | None,
        *,
        delays_s: Sequence[float],
        timeout_s: float,
        concurrency: int,
        success: Container[int] = CONTRACT_SUCCESS,
    ) -> None:
        self._deliver = deliver
        self._pauses_s = (0.0, *delays_s)
        self._timeout_s = timeout_s
        self._success = success
        self._limiter = anyio.CapacityLimiter(concurrency)
        self._tasks: TaskGroup | None = None
        self._waiting = self._sent = 0
        self.attempts = 0
        self.delivered = 0
        self.dropped = 0
        """Webhooks that no attempt has brought home, or that nothing was there to bring."""

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Deliver what is sent, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def send(self, webhook: WebhookCall) -> None:
        """Deliver one webhook in the background."""
        if self._deliver is None or self._tasks is None or self._waiting >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting += 1
        self._sent += 1
        self._tasks.start_soon(self._bring, self._deliver, webhook, self._sent)

    async def _bring(self, deliver: Deliver, webhook: WebhookCall, number: int) -> None:
        trace = hashlib.sha256(f"{number} {webhook.url}".encode()).hexdigest()
        for n, pause_s in enumerate(self._pauses_s):
            await anyio.sleep(pause_s)
            span = hashlib.sha256(f"{trace}{n}".encode()).hexdigest()
            if await self._attempt(deliver, webhook, f"00-{trace[:32]}-{span[:16]}-01"):
                self.delivered += 1
                break
        else:
            self.dropped += 1
        self._waiting -= 1

    async def _attempt(self, deliver: Deliver, webhook: WebhookCall, traceparent: str) -> bool:
        async with self._limiter:
            self.attempts += 1
            with anyio.move_on_after(self._timeout_s):
                try:
                    headers = {**HEADERS, "traceparent": traceparent}
                    return await deliver(webhook.url, webhook.body, headers) in self._success
                except Exception as error:  # noqa: BLE001  # a receiver that cannot be reached may fail in any way
                    log.debug("a webhook could not be delivered: %s", type(error).__name__)
        return False
