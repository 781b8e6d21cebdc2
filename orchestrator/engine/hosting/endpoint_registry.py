"""The endpoints that a process serves, by the ledger's numbers: the interface of each, its health, its collector."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.client import ServerlessEndpoint, Service, for_a_batch, within_connections
from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.core.text.next_step import Wording
from orchestrator.engine.collecting.collector import Collector
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.endpoint.limits import EndpointLimits, LimitKeeper
from orchestrator.engine.ports.local_endpoints import LOCAL_ENDPOINT
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import RunReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.values import LOCAL
from orchestrator.units import MINUTE_US, SECOND_US
from orchestrator.views.status import Collecting, StuckSummary

ANSWER_US_MAX: Final = MINUTE_US
"""A request of an earlier process that was sent longer ago than this and a window holds no slot any more."""


UNWANTED_US: Final = 30 * SECOND_US
"""A shorter rest that the service wants is a matter of course, and no news."""


class Webhook(NamedTuple):
    """How the service reaches us: the key of the tokens, and the base URL."""

    key: bytes
    base_url: str


class ServedEndpoint(NamedTuple):
    """What works at one endpoint."""

    api: ServerlessEndpoint
    endpoint: Endpoint
    limits: EndpointLimits
    collector: Collector
    dispatcher: Dispatcher

    def report_on(self, run: int, *, sending: RunSender | None, is_released: bool, stuck: StuckSummary) -> RunReport:
        """How `run` stands here, for those who look from outside; `sending` is None where it is not to be sent."""
        endpoint, collecting, now = self.endpoint, None, self.endpoint.clock.now()
        unreachable_us = endpoint.health.connectivity.unreachable_us(now)
        unwanted_until = self.api.limiter.throttled_until(Operation.STATUS)
        if not endpoint.is_local:
            collecting = Collecting(by=endpoint.estimates.collected_by, safe_until=self.collector.soonest_deadline())
        return RunReport(
            collecting=collecting,
            stuck=stuck,
            # But for what people ask: the ledger says that itself, and at once.
            held=None if sending is None else sending.held_up,
            stopped=endpoint.why_stopped(run) if sending is None else sending.why_stopped,
            refused_status=endpoint.health.stopped_status,
            crawl_s=None if sending is None else sending.crawl_s,
            webhook_share=endpoint.estimates.webhook_health.share,
            is_released=is_released,
            is_unserved=sending is None or is_released,
            is_bound=sending is not None and self.dispatcher.turns.is_bound(sending),
            is_uncollectable=endpoint.health.uncollectable is not None,
            unwanted_until=unwanted_until if unwanted_until - now > UNWANTED_US else None,
            unreachable_since=None if unreachable_us is None else now - unreachable_us,
            line_bytes_per_s=endpoint.estimates.line_bytes_per_s,
        )


@dataclass(kw_only=True, eq=False)
class EndpointRegistry:
    """All endpoints that this process serves. `scrub` takes secrets out of what a service says."""

    ledger: Ledger
    clock: Clock
    settings_of: Mapping[int, RunSettings]
    limits: LimitKeeper
    validators: ValidationPool
    retries: RetryBudgets
    warn: Callable[[str], None]
    word: Wording
    scrub: Callable[[bytes], bytes]
    _owed: list[Callable[[], None]] = field(init=False, default_factory=list)
    _served: dict[int, ServedEndpoint] = field(init=False, default_factory=dict)
    _written: dict[int, Learned] = field(init=False, default_factory=dict)

    def on_owed(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever an endpoint finds that something is to be cancelled at the service."""
        self._owed.append(wake)

    def _tell_owed(self) -> None:
        for wake in self._owed:
            wake()

    def get(self, number: int) -> Endpoint | None:
        """The endpoint of that number, where this process serves it."""
        served = self._served.get(number)
        return None if served is None else served.endpoint

    def all(self) -> Collection[Endpoint]:
        """Every endpoint that is served."""
        return [served.endpoint for served in self._served.values()]

    def served(self, number: int) -> ServedEndpoint:
        """What works at an endpoint that is served."""
        return self._served[number]

    def collector(self, number: int) -> Collector | None:
        """The collector of an endpoint, where it is served."""
        served = self._served.get(number)
        return None if served is None else served.collector

    def collectors(self) -> Iterable[Collector]:
        """One for each endpoint."""
        return [served.collector for served in self._served.values()]

    def is_in_flight(self, job: int) -> bool:
        """Whether `job` was claimed here and what became of that is not written yet."""
        return any(job in served.dispatcher.sender.claimed for served in self._served.values())

    def add(
        self,
        run: Run,
        service: Service,
        *,
        task_pool: TaskPool,
        webhooks: bool,
        connections: int,
        requests_per_worker: int | None,
    ) -> None:
        """Serves the endpoint of `run`, which is not served yet, with at most so many `connections` at once.

        Raises `UsageError` for what is no endpoint id.
        """
        is_local = run.service_url == LOCAL
        api = service.endpoint(LOCAL_ENDPOINT if is_local else run.endpoint).api
        endpoint = Endpoint(
            id=run.endpoint_id,
            api=api,
            clock=self.clock,
            settings_of=self.settings_of,
            retries=self.retries,
            webhooks=webhooks,
            status_limit=api.limiter.limit(Operation.STATUS),
            warn=self.warn,
            owed=self._tell_owed,
            word=self.word,
            is_local=is_local,
            scrub=self.scrub,
        )

        def share(limits: Mapping[Operation, Limit]) -> Mapping[Operation, Limit]:
            return for_a_batch(within_connections(limits, connections))

        def changed(base: Mapping[Operation, Limit]) -> None:
            # Not what running workers add to it: they may be gone before all that is outstanding is collected.
            endpoint.estimates.status_limit = base[Operation.STATUS]

        limits = EndpointLimits(
            api=api,
            share=dict if is_local else share,
            clock=self.clock,
            requests_per_worker=None if is_local else requests_per_worker,
            changed=changed,
        )
        self.ledger.writer.subscribe(endpoint.runs.on_steps)
        self.limits.add(endpoint.id, run.endpoint, limits)
        collector = Collector(endpoint=endpoint, ledger=self.ledger, task_pool=task_pool, validators=self.validators)
        dispatcher = Dispatcher(
            endpoint=endpoint,
            ledger=self.ledger,
            task_pool=task_pool,
            outstanding=lambda: collector.outstanding,
            validators=self.validators,
        )
        self._served[endpoint.id] = ServedEndpoint(api, endpoint, limits, collector, dispatcher)

    async def remember(self, number: int) -> None:
        """Takes over what the ledger tells of earlier processes: their requests hold slots, their executions teach.

        Of `/run` the ledger knows what was sent. Of everything else nobody does: it goes evenly for a window.
        """
        served, now = self._served[number], self.clock.now()
        self._written[number] = await self.ledger.runs.learned.of(number)
        served.endpoint.recall(self._written[number])
        for operation in set(Operation) - {Operation.RUN}:
            served.api.limiter.ease_in(operation)
        window_us = int(served.api.limiter.limit(Operation.RUN).window_s * SECOND_US)
        since = now - window_us - ANSWER_US_MAX
        sent = await self.ledger.jobs.submissions.sent_since(
            endpoint_id=number, since=since, now=now, answer_us=ANSWER_US_MAX
        )
        served.api.limiter.hold(Operation.RUN, sent.answered, sent.unanswered)
        served.endpoint.estimates.remember(await self.ledger.jobs.history.took(endpoint_id=number, now=now))

    async def write_down(self) -> None:
        """Leaves to others what was learned since the last time. Raises `StorageError`."""
        for number, served in list(self._served.items()):  # meanwhile another may come in
            learned = served.endpoint.learned
            if learned != self._written.get(number, Learned()):
                await self.ledger.runs.learned.write(number, learned)
                self._written[number] = learned

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Hands outstanding jobs of an earlier process to their collectors."""
        for job in jobs:
            if (collector := self.collector(job.endpoint)) is not None:
                collector.adopt((job,), ask_now=True)

    def ask_now(self, number: int, job: int) -> None:
        """`job` of that endpoint has to be asked for."""
        if (collector := self.collector(number)) is not None:
            collector.hint(job)

    def hint(self, job: Job) -> None:
        """A webhook said something about `job` that has to be asked for."""
        self.ask_now(job.endpoint, job.id)
