"""The rate limits in force at one endpoint, and what changes them while a run goes on.

They begin as the settings' (contract, file, flags). What a person sets by a command replaces them until it is reset;
the row is read when another process has committed something. Where `requests_per_worker` is known, running workers
raise those that are the contract's (`core.limits.worker_limits`); a limit of somebody's own is kept.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

import anyio
from anyio.abc import TaskStatus

from orchestrator.client import ServerlessEndpoint
from orchestrator.clock import Clock
from orchestrator.core.limits.limit_text import format_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Meter, Operation
from orchestrator.core.limits.worker_limits import LOOK_EVERY_S, RULED, WorkerLimits, is_throttled
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import MeterReading

log = logging.getLogger(__name__)

Share = Callable[[Mapping[Operation, Limit]], Mapping[Operation, Limit]]
"""What of an endpoint's limits is for this process."""


class EndpointLimits:
    """The limits of one endpoint, as this process keeps them.

    `share` is applied to the limits that a person sets and that workers raise; those that `api` begins with have it
    behind them. `changed` is called with the limits, without what workers add, when they have become others.
    """

    def __init__(
        self,
        *,
        api: ServerlessEndpoint,
        share: Share,
        clock: Clock,
        requests_per_worker: int | None = None,
        changed: Callable[[Mapping[Operation, Limit]], None],
    ) -> None:
        self.api = api
        self._share = share
        self._clock = clock
        self._configured = {operation: api.limiter.limit(operation) for operation in Operation}
        self._base = self._configured
        self._changed = changed
        self._contract = share(CONTRACT_LIMITS)
        self._workers = None if requests_per_worker is None else WorkerLimits(requests_per_worker)
        self._seen: dict[Operation, Meter] = {}

    def choose(self, chosen: Mapping[Operation, Limit]) -> list[Operation]:
        """What people have set is `chosen`, everything else is as configured; returns what is another limit now."""
        base = {**self._configured, **self._share(chosen)}
        others = [operation for operation in Operation if base[operation] != self._base[operation]]
        if others:
            self._base = base
            self._apply()
            self._changed(base)
        return others

    def _apply(self) -> None:
        raised = {} if self._workers is None else self._share(self._workers.limits)
        for operation, base in self._base.items():
            limit = raised.get(operation, base) if base == self._contract[operation] else base
            if limit != self.api.limiter.limit(operation):
                self.api.limiter.change(operation, limit)

    async def follow_workers(self) -> None:
        """Reads `/health` and lets the limits follow the running workers, until cancelled; returns if they do not."""
        while self._workers is not None:
            health = await self.api.ask_health()
            busy = None if health is None else health.workers.running
            idle = 0 if health is None else health.workers.idle or 0
            throttled = [operation for operation in RULED if self._is_throttled(operation)]
            self._workers.observe(self._clock.now(), busy, idle=idle, throttled=bool(throttled))
            self._apply()
            await anyio.sleep(LOOK_EVERY_S)

    def _is_throttled(self, operation: Operation) -> bool:
        """Since the latest look, and by what we send: a stray 429 must not take away what the workers allow."""
        meter = self.api.limiter.figures(operation)
        before = self._seen.get(operation)
        self._seen[operation] = meter
        sent, throttled = (0, 0) if before is None else (before.sent, before.throttled)
        return is_throttled(meter.sent - sent, meter.throttled - throttled, meter.stray)


class LimitKeeper:
    """Keeps the limits of all endpoints that this process serves, by the ledger's numbers of them."""

    def __init__(self, *, ledger: Ledger, say: Callable[[str], None], word: Wording) -> None:
        self._ledger = ledger
        self._say = say
        self._word = word
        self._endpoints: dict[int, tuple[str, EndpointLimits]] = {}
        self._wakeup = Wakeup()

    def add(self, number: int, name: str, limits: EndpointLimits) -> None:
        """Keeps `limits` of the endpoint `name`, which is `number` in the ledger, too."""
        self._endpoints[number] = name, limits

    def on_change(self) -> None:
        """There may be news in the ledger."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keeps them until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_polling, self._poll, self._wakeup, at_least_every_s=SELDOM_S))
            task_status.started()

    async def _poll(self) -> float:
        try:
            await self.read()
        except StorageError as error:
            log.warning("limits that were set could not be read: %s", error)
            return POLL_S_MAX
        return SELDOM_S  # whoever sets one commits it, and `on_change` is called

    async def read(self) -> None:
        """Puts in force what is set in the ledger."""
        chosen = await self._ledger.runs.limits.all()
        for number, (name, limits) in self._endpoints.items():
            of_endpoint = {operation: each.limit for operation, each in chosen.get(number, {}).items()}
            if others := limits.choose(of_endpoint):
                told = ", ".join(_told(operation, of_endpoint.get(operation)) for operation in others)
                self._say(f"limits of {name}: {told} ({self._word(Suggestion(NextStep.SHOW_LIMITS))})")

    def meters(self) -> tuple[MeterReading, ...]:
        """How each operation stands that was used."""
        return tuple(
            MeterReading(
                endpoint_id=number,
                operation=operation,
                used=meter.used,
                allowance=meter.allowance,
                throttled=meter.throttled,
                window_s=limits.api.limiter.limit(operation).window_s,
                sent=meter.sent,
                queue_full=meter.queue_full,
                share=round(meter.share, 4),
                stray=round(meter.stray, 4),
                in_flight=meter.in_flight,
                concurrent=limits.api.limiter.limit(operation).concurrent,
            )
            for number, (_, limits) in self._endpoints.items()
            for operation in Operation
            if (meter := limits.api.limiter.figures(operation)).sent
        )


def _told(operation: Operation, limit: Limit | None) -> str:
    return f"{operation} as before" if limit is None else format_limit(operation, limit)
