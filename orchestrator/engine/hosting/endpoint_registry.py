"""The endpoints that an engine serves, by the ledger's numbers: the interface of each, its health, its collector."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from orchestrator.client import ServerlessEndpoint, follow_predecessor, for_a_batch, left_to_successor
from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.remote_ids import KEPT_MAX
from orchestrator.engine.batches.batch_work import BatchWork
from orchestrator.engine.collecting.collector import Collector
from orchestrator.engine.collecting.validation_pool import validation_pool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.endpoint.limits import EndpointLimits, LimitKeeper
from orchestrator.engine.endpoint.run_homes import RunHomes
from orchestrator.engine.endpoint.settings_there import SettingsThere
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.engine.runtime.scope import Scope
from orchestrator.engine.runtime.subscribers import StepSubscribers, Subscribers
from orchestrator.engine.runtime.work_groups import WorkGroups
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.units import MINUTE_US, SECOND_US

ANSWER_US_MAX: Final = MINUTE_US
"""A request of an earlier process that was sent longer ago than this and a window holds no slot any more."""

IDS_REMEMBERED_US: Final = 2 * RETENTION_US_DEFAULT
"""Ids of jobs that were claimed longer ago lead to no result any more, unless they are outstanding."""


class ServedEndpoint(NamedTuple):
    """What works at one endpoint."""

    endpoint: Endpoint
    limits: EndpointLimits
    collector: Collector
    dispatcher: Dispatcher
    batches: BatchWork


class EndpointRegistry:
    """All endpoints that one engine serves, by their numbers in the ledger, and what they share."""

    def __init__(
        self,
        process: EngineProcess,
        scope: Scope,
        groups: WorkGroups,
        steps: StepSubscribers,
    ) -> None:
        self._process = process
        self.scope = scope
        self._groups = groups
        self.steps = steps
        self.settings_of: dict[int, RunSettings] = {}
        """Of every run in the scope, by its number, as they were given last."""

        self.services = process.services
        self.secrets = process.secrets
        self.limits = LimitKeeper(ledger=process.ledger, say=process.console.info, word=process.dependencies.word)
        self.validators = validation_pool(process.ledger, self.settings_of, process.console.warn, process.dependencies)
        self.retries = RetryBudgets(self.settings_of)
        steps.add(self.retries.on_steps)
        self.homes = RunHomes()
        self.owed = Subscribers()
        """Who is woken when something is to be cancelled at a service."""

        self.endpoints: dict[int, Endpoint] = {}
        self.served: dict[int, ServedEndpoint] = {}
        """The same endpoints, with what works there."""

        self.fresh: list[int] = []
        """Those at which nothing is collected yet."""

    async def reach(self, run: Run) -> None:
        """The endpoint of `run` is one of ours from now on. Raises `UsageError` where it has no service, or cannot be
        ours.
        """
        await self.scope.take_in(run.endpoint_id)
        if run.endpoint_id not in self.endpoints:
            api = await self.services.endpoint_of(run, self.settings_of[run.id])
            webhooks = self._process.listener.webhooks
            self._serve(run, api, webhooks=webhooks is not None)
            api.down.room = self._process.room
            if webhooks is not None:
                webhooks.share(api.down)
        self.retries.place(run)
        self.homes.place(run, self.settings_of[run.id])

    def _serve(self, run: Run, api: ServerlessEndpoint, *, webhooks: bool) -> None:
        """Serves the endpoint of `run`, which is not served yet."""
        is_local = run.service_url == LOCAL
        endpoint = Endpoint(
            id=run.endpoint_id,
            api=api,
            clock=self._process.dependencies.clock,
            settings_of=SettingsThere(self.settings_of, run.endpoint),
            retries=self.retries,
            webhooks=webhooks,
            warn=self._process.console.warn,
            homes=self.homes,
            owed=self.owed,
            word=self._process.dependencies.word,
            is_local=is_local,
            scrub=self.secrets.scrub,
        )

        def share(limits: Mapping[Operation, Limit]) -> Mapping[Operation, Limit]:
            return for_a_batch(self.services.part_of(limits))

        def changed(base: Mapping[Operation, Limit]) -> None:
            # Not what running workers add to it: they may be gone before all that is outstanding is collected.
            endpoint.estimates.status_limit = base[Operation.STATUS]

        limits = EndpointLimits(
            api=api,
            share=dict if is_local else share,
            clock=self._process.dependencies.clock,
            requests_per_worker=None if is_local else self.services.requests_per_worker,
            changed=changed,
        )
        self.limits.add(endpoint.id, run.endpoint, limits)
        task_pool = self._groups.task_pool
        collector = Collector(
            endpoint=endpoint, ledger=self._process.ledger, task_pool=task_pool, validators=self.validators
        )
        dispatcher = Dispatcher(
            endpoint=endpoint, ledger=self._process.ledger, task_pool=task_pool, validators=self.validators
        )
        batches = BatchWork(
            endpoint=endpoint,
            ledger=self._process.ledger,
            task_pool=task_pool,
            validators=self.validators,
            turns=dispatcher.turns,
            is_successor=self.scope.is_successor,
        )
        for on_steps in (
            endpoint.runs.on_steps,
            endpoint.outstanding.on_steps,
            dispatcher.on_steps,
            batches.on_steps,
        ):
            self.steps.add(on_steps)
        self.endpoints[endpoint.id] = endpoint
        self.served[endpoint.id] = ServedEndpoint(endpoint, limits, collector, dispatcher, batches)
        self.fresh.append(endpoint.id)

    async def begin(self) -> list[int]:
        """Begins to collect at the endpoints that were added last; returns their numbers."""
        fresh, self.fresh = self.fresh, []
        await self.limits.read()
        if await self._process.ledger.jobs.submissions.latest():
            for number in fresh:
                await self._remember(number)
        taking = self._groups.taking
        for number in fresh:
            served = self.served[number]
            taking.start_soon(served.limits.follow_workers)
            await taking.start(served.collector.serve)
            await taking.start(served.endpoint.probe.serve)
            await taking.start(served.batches.serve)
        return fresh

    async def _remember(self, number: int) -> None:
        """Takes over what the ledger tells of earlier processes: their requests hold slots, their executions teach, and
        the ids that they were given are no other jobs'.
        """
        endpoint, now = self.endpoints[number], self._process.ledger.now()
        limiter = endpoint.api.limiter
        endpoint.recall(await self._process.ledger.runs.learned.of(number))
        window_us = int(limiter.limit(Operation.RUN).window_s * SECOND_US)
        since = now - window_us - ANSWER_US_MAX
        sent = await self._process.ledger.jobs.submissions.sent_since(
            endpoint_id=number, since=since, now=now, answer_us=ANSWER_US_MAX
        )
        ownership = self._process.ledger.ownership
        left = None if ownership is None else ownership.endpoints_left.of(number)
        follow_predecessor(
            limiter,
            answered=sent.answered,
            unanswered=sent.unanswered,
            now=now,
            is_successor=self.scope.is_successor,
            left=left,
        )
        if left is not None:
            left_at = endpoint.clock.now() - max(0, now - left.left_at)
            endpoint.estimates.throughput.go_on(left.finished, left.finished_in, left_at)
        endpoint.estimates.remember(await self._process.ledger.jobs.history.took(endpoint_id=number, now=now))
        given = await self._process.ledger.jobs.submissions.ids_given(
            now - IDS_REMEMBERED_US, endpoint_id=number, most=KEPT_MAX
        )
        for remote_id, job in given:
            endpoint.remote_ids.give(remote_id, job)

    def leave(self) -> None:
        """None of them is ours any more, nothing is on its way there, and whoever is there next goes on as they are.
        Nobody judges anything for them.
        """
        ownership, now = self._process.ledger.ownership, self._process.ledger.now()
        for number, endpoint in self.endpoints.items():
            if ownership is not None:
                finished = endpoint.estimates.throughput.left(endpoint.clock.now())
                ownership.endpoints_left.leave(number, left_to_successor(endpoint.api.limiter, finished, now=now))
            self.services.forget(endpoint.api)
        self.validators.leave()

    async def write_down(self) -> None:
        """Leaves to others what was learned since the last time. Raises `StorageError`."""
        for number, endpoint in list(self.endpoints.items()):  # meanwhile another may come in
            learned = endpoint.learned
            if learned != endpoint.written:
                await self._process.ledger.runs.learned.write(number, learned)
                endpoint.written = learned
