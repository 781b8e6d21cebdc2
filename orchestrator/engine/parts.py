"""The moving parts of one process, each built once, and what they know together."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from orchestrator.client import ServerlessEndpoint, Service, for_a_batch
from orchestrator.client.allowance import within_connections
from orchestrator.core.job import Job
from orchestrator.core.pacing import Limit, Meter, Operation
from orchestrator.engine.collecting.collector import Collector
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.dependencies import Dependencies
from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.local import LOCAL, LOCAL_ENDPOINT
from orchestrator.engine.observers.progress import Progress
from orchestrator.engine.observers.view import View
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.engine.sending.request_builder import RequestBuilder
from orchestrator.engine.task_pool import TaskPool
from orchestrator.engine.upkeep.canceller import Canceller
from orchestrator.engine.upkeep.control import Control
from orchestrator.engine.upkeep.heartbeat import Pulse
from orchestrator.engine.upkeep.janitor import Duty, Janitor
from orchestrator.engine.upkeep.limits import EndpointLimits, LimitKeeper
from orchestrator.engine.upkeep.pruning import Tidy
from orchestrator.engine.upkeep.reconciler import Reconciler
from orchestrator.engine.upkeep.stuck import Stuck
from orchestrator.engine.upkeep.watch import Watch
from orchestrator.ledger import Ledger, reports
from orchestrator.ledger.past import took
from orchestrator.ledger.reports import Run
from orchestrator.settings import RunSettings
from orchestrator.units import SECOND_US
from orchestrator.views import Collecting

RECONCILE_EVERY_S: Final = 30.0
"""How often the ledger is compared with what is being done, and stuck jobs are looked for."""

TIDY_EVERY_S: Final = 3_600.0
"""How often old events are looked for."""

ANSWER_US_MAX: Final = 60 * SECOND_US
"""A request of an earlier process that was sent longer ago than this and a window holds no slot any more."""


class Webhook(NamedTuple):
    """How the service reaches us: the key of the tokens, and the base URL."""

    key: bytes
    base_url: str


class Parts:
    """Everything that works on one run, and collects for the others of its service."""

    def __init__(
        self,
        *,
        run: Run,
        ledger: Ledger,
        dependencies: Dependencies,
        settings_of: Mapping[int, RunSettings],
        inbox: WebhookInbox,
        progress: Progress,
        webhook: Webhook | None,
        task_pool: TaskPool,
        view: View,
        scrub: Callable[[bytes], bytes] = bytes,
        requests_per_worker: int | None = None,
        connections: int,
    ) -> None:
        self.run = run
        self._connections = connections
        self._requests_per_worker = requests_per_worker
        self._ledger = ledger
        self._around = dependencies
        self._settings_of = settings_of
        self._webhook = webhook
        self._flights = task_pool
        self._view = view
        self._scrub = scrub
        self._apis: dict[int, ServerlessEndpoint] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._collectors: dict[int, Collector] = {}
        self._endpoint_of_run: dict[int, int] = {}
        self.inbox = inbox
        self.progress = progress
        self.watch = Watch(ledger.data_version, missing=ledger.place.missing, every_s=dependencies.watch_every_s)
        self.limits = LimitKeeper(ledger=ledger, clock=dependencies.clock, say=view.say)
        self.watch.subscribe(self.limits.on_change)
        self._dispatcher: Dispatcher | None = None
        self.canceller = Canceller(
            ledger=ledger, clock=dependencies.clock, endpoint_of=self.endpoint_of, hint=self.ask_now
        )
        self.stuck = Stuck(
            ledger=ledger,
            clock=dependencies.clock,
            endpoints=self._endpoints.values,
            warn=view.warn,
            owed=self.canceller.wake,
        )
        self.control = Control(
            run=run.id,
            ledger=ledger,
            clock=dependencies.clock,
            say=view.warn,
            changed=progress.nudge,
            owed=self.canceller.wake,
        )
        self.watch.subscribe(self.control.on_change)
        self.janitor = self._janitor()
        self.pulse = Pulse(ledger=ledger, collecting=self.collecting)

    def _janitor(self) -> Janitor:
        ledger, clock = self._ledger, self._around.clock
        reconciler = Reconciler(
            ledger=ledger,
            clock=clock,
            endpoint_of=self.endpoint_of,
            plan_of=self._collectors.get,
            is_in_flight=lambda job: self._dispatcher is not None and self._dispatcher.is_in_flight(job),
        )
        tidy = Tidy(ledger=ledger, clock=clock, settings_of=self._settings_of)
        return Janitor(
            ledger=ledger,
            clock=clock,
            settings_of=self._settings_of,
            endpoint_of=self.endpoint_of,
            duties=(
                Duty("reconcile", RECONCILE_EVERY_S, reconciler.run_once),
                Duty("look for stuck jobs", RECONCILE_EVERY_S, self.stuck.run_once),
                Duty("tidy", TIDY_EVERY_S, tidy.tidy),
            ),
            stuck_of=self.stuck.found,
        )

    @property
    def endpoint(self) -> Endpoint:
        """The run's own endpoint."""
        return self._endpoints[self.run.endpoint_id]

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of the run can be submitted, if so."""
        return self.endpoint.why_stopped(self.run.id)

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """One for each endpoint that the ledger's runs have at this service."""
        return tuple(self._collectors.values())

    def endpoint_of(self, endpoint_id: int) -> Endpoint | None:
        """The endpoint of that number, where this process serves it."""
        return self._endpoints.get(endpoint_id)

    async def add_endpoints(self, service: Service) -> None:
        """Builds what is needed for every endpoint that the ledger's runs have at this service.

        A process submits only its own run, but collects for all of them: results do not wait for their run's turn.
        """
        local = self.run.service_url == LOCAL
        for run in await self._ledger.read(reports.runs_all):
            same_service = run.service_url == self.run.service_url
            served = run.endpoint_id == self.run.endpoint_id if local else same_service
            if served:
                self._endpoint_of_run[run.id] = run.endpoint_id
            if served and run.endpoint_id not in self._endpoints:
                api = service.endpoint(LOCAL_ENDPOINT if local else run.endpoint).api
                self._add(api, run.endpoint_id, run.endpoint, local=local)
        await self.limits.read()
        if await self._ledger.read(reports.submissions_latest_id):
            for endpoint_id, api in self._apis.items():
                await self._hold_slots(api, endpoint_id)
                now = self._around.clock.now()
                past = await self._ledger.read(partial(took, endpoint_id=endpoint_id, now=now))
                self._endpoints[endpoint_id].remember(past)

    async def _hold_slots(self, api: ServerlessEndpoint, endpoint_id: int) -> None:
        """What an earlier process sent within the last window still counts against the limits.

        Of `/run` the ledger knows it. Of everything else nobody does: it goes evenly for a window.
        """
        for operation in set(Operation) - {Operation.RUN}:
            api.ease_in(operation)
        window_us = int(api.limit(Operation.RUN).window_s * SECOND_US)
        now = self._around.clock.now()
        since = now - window_us - ANSWER_US_MAX
        sent = await self._ledger.read(
            partial(reports.sent_since, endpoint_id=endpoint_id, since=since, now=now, answer_us=ANSWER_US_MAX)
        )
        api.hold(Operation.RUN, sent.answered, sent.unanswered)

    def _add(self, api: ServerlessEndpoint, endpoint_id: int, name: str, *, local: bool) -> None:
        endpoint = Endpoint(
            id=endpoint_id,
            api=api,
            clock=self._around.clock,
            settings_of=self._settings_of,
            webhooks=self._webhook is not None,
            status_limit=api.limit(Operation.STATUS),
            warn=self._view.warn,
            is_local=local,
            scrub=self._scrub,
        )
        self._apis[endpoint_id] = api
        self._endpoints[endpoint_id] = endpoint
        self._keep_limits(api, endpoint, name)
        self._collectors[endpoint_id] = Collector(
            endpoint=endpoint, ledger=self._ledger, clock=self._around.clock, task_pool=self._flights
        )

    def _keep_limits(self, api: ServerlessEndpoint, endpoint: Endpoint, name: str) -> None:
        def changed(base: Mapping[Operation, Limit]) -> None:
            # Not what running workers add to it: they may be gone before all that is outstanding is collected.
            endpoint.status_limit = base[Operation.STATUS]

        limits = EndpointLimits(
            api=api,
            share=dict if endpoint.is_local else self._share,
            clock=self._around.clock,
            requests_per_worker=None if endpoint.is_local else self._requests_per_worker,
            changed=changed,
        )
        self.limits.add(endpoint.id, name, limits)

    def _share(self, limits: Mapping[Operation, Limit]) -> Mapping[Operation, Limit]:
        return for_a_batch(within_connections(limits, self._connections))

    def dispatcher(self) -> Dispatcher:
        """The one that sends the run's jobs."""
        run = self.run.id
        self._dispatcher = Dispatcher(
            run=run,
            endpoint=self.endpoint,
            ledger=self._ledger,
            bodies=RequestBuilder(lambda: self._settings_of[run], self._around.environ, self._webhook),
            clock=self._around.clock,
            task_pool=self._flights,
            outstanding=lambda: self._collectors[self.run.endpoint_id].outstanding,
            may_send=lambda: self.control.may_send,
        )
        return self._dispatcher

    def adopt(self, jobs: list[Job]) -> None:
        """Hands outstanding jobs of an earlier process to their collectors."""
        for job in jobs:
            if (collector := self._collectors.get(job.endpoint)) is not None:
                collector.adopt((job,), ask_now=True)

    def hint(self, job: Job) -> None:
        """A webhook said something about `job` that has to be asked for."""
        self.ask_now(job.endpoint, job.id)

    def ask_now(self, endpoint: int, job: int) -> None:
        """`job` has to be asked for."""
        if (collector := self._collectors.get(endpoint)) is not None:
            collector.hint(job)

    def collecting(self) -> dict[int, Collecting]:
        """How the results of each run are collected, those of embedded services excepted."""
        now = self._around.clock.now()
        return {
            run: Collecting(
                at=now,
                by=self._endpoints[endpoint].collected_by,
                safe_until=self._collectors[endpoint].soonest_deadline(),
            )
            for run, endpoint in self._endpoint_of_run.items()
            if not self._endpoints[endpoint].is_local
        }

    def safe_for_us(self) -> int | None:
        """How long nobody needs to collect, in microseconds; None where no result can expire."""
        deadlines = [deadline for each in self.collectors if (deadline := each.soonest_deadline()) is not None]
        return min(deadlines) - self._around.clock.now() if deadlines else None

    def safe_offline_s(self) -> float | None:
        """The same in seconds, never negative."""
        left_us = self.safe_for_us()
        return None if left_us is None else max(0, left_us) / SECOND_US

    def figures(self, operation: Operation) -> Meter:
        """The figures of the run's own endpoint."""
        return self._apis[self.run.endpoint_id].figures(operation)

    def all_figures(self) -> list[tuple[Operation, Meter]]:
        """The figures of every operation of every endpoint."""
        return [(operation, api.figures(operation)) for api in self._apis.values() for operation in Operation]
