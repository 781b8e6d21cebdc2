"""One process of the program without its command line: the real parts, put together for a test.

Nothing is started by itself: `begin` does what a run does at its start, `start` starts single parts.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Self

import anyio
import httpx
from anyio.abc import TaskGroup

from orchestrator.api.export import Rows, finished_jobs
from orchestrator.client import ServerlessEndpoint, Service
from orchestrator.core.job import PAID_TWICE, Job, Transition
from orchestrator.core.lifecycle import State
from orchestrator.core.notice import KEY_BYTES
from orchestrator.core.pacing import Limit, Operation
from orchestrator.engine.collecting.collector import Collector
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.observers.progress import Progress
from orchestrator.engine.secrets import Secrets
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.engine.sending.request_builder import RequestBuilder
from orchestrator.engine.task_pool import TaskPool
from orchestrator.engine.upkeep.canceller import Canceller
from orchestrator.engine.upkeep.control import Control
from orchestrator.engine.upkeep.janitor import Duty, Janitor, Recovered
from orchestrator.engine.upkeep.pruning import Tidy
from orchestrator.engine.upkeep.reconciler import Reconciler
from orchestrator.engine.upkeep.stuck import Stuck
from orchestrator.formats.rows import Row
from orchestrator.ledger import Boot, Ledger, open_ledger, reports
from orchestrator.ledger.reports import EventRow, FinishedJob, Run
from orchestrator.ledger.sqlite.marks import this_boot
from orchestrator.settings import RunSettings
from orchestrator.web.application import application
from orchestrator.web.webhooks import Webhooks
from tests.engine.rows import empty_ledger, rows
from tests.simulation.clock import VirtualClock
from tests.simulation.database import CommitWatch, async_creator
from tests.simulation.world import ENDPOINT, URL

KEY = bytes(range(KEY_BYTES))
PATIENCE_S = 7_200.0
HOOKS_URL = "http://listener"


class Process:
    """The parts of one process, and short ways to look at the ledger."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: VirtualClock,
        run: Run,
        service: Service,
        settings: dict[int, RunSettings],
        webhooks: bool,
        task_pool: TaskGroup,
        taking: TaskGroup,
        is_local: bool,
        environ: Mapping[str, str],
    ) -> None:
        self.ledger, self.clock, self.run = ledger, clock, run
        self.settings = settings
        self.in_flight, self.taking = task_pool, taking
        self.task_pool = TaskPool(task_pool)
        self.warnings: list[str] = []
        self.steps: list[Transition] = []
        ledger.subscribe(self.steps.extend)
        self.api: ServerlessEndpoint = service.endpoint(run.endpoint).api
        secrets = Secrets(lambda: ledger.secret_names, environ, warn=self.warnings.append)
        self.endpoint = Endpoint(
            id=run.endpoint_id,
            api=self.api,
            clock=clock,
            settings_of=settings,
            webhooks=webhooks,
            status_limit=self.api.limit(Operation.STATUS),
            warn=self.warnings.append,
            is_local=is_local,
            scrub=secrets.scrub,
        )
        self.endpoints = {run.endpoint_id: self.endpoint}
        self.collector = Collector(endpoint=self.endpoint, ledger=ledger, clock=clock, task_pool=self.task_pool)
        self.canceller = Canceller(
            ledger=ledger,
            clock=clock,
            endpoint_of=self.endpoints.get,
            hint=lambda _, job: self.collector.hint(job),
        )
        self.inbox = WebhookInbox(
            ledger=ledger,
            clock=clock,
            endpoint_of=self.endpoints.get,
            hint=lambda job: self.collector.hint(job.id),
            paid_twice=lambda run, n: self.progress.tally(run, PAID_TWICE, n),
            owed=self.canceller.wake,
        )
        self.listener = application(Webhooks(key=KEY, sink=self.inbox, clock=clock, scrub=secrets.scrub))
        self.bodies = RequestBuilder(lambda: settings[run.id], environ, (KEY, HOOKS_URL) if webhooks else None)
        self.dispatcher = Dispatcher(
            run=run.id,
            endpoint=self.endpoint,
            ledger=ledger,
            bodies=self.bodies,
            clock=clock,
            task_pool=self.task_pool,
            outstanding=lambda: self.collector.outstanding,
            may_send=lambda: self.control.may_send,
        )
        self._look_after_things()

    def _look_after_things(self) -> None:
        self.progress = Progress(self.run.id, {}, margin_min_s=None, clock=self.clock)
        self.ledger.subscribe(self.progress.on_steps)
        self.stuck = Stuck(
            ledger=self.ledger,
            clock=self.clock,
            endpoints=self.endpoints.values,
            warn=self.warnings.append,
            owed=self.canceller.wake,
        )
        self.control = Control(
            run=self.run.id,
            ledger=self.ledger,
            clock=self.clock,
            say=self.warnings.append,
            changed=lambda: None,
            owed=self.canceller.wake,
        )
        self.reconciler = Reconciler(
            ledger=self.ledger,
            clock=self.clock,
            endpoint_of=self.endpoints.get,
            plan_of=lambda _: self.collector,
            is_in_flight=self.dispatcher.is_in_flight,
        )
        self.tidy = Tidy(ledger=self.ledger, clock=self.clock, settings_of=self.settings)
        self.janitor = Janitor(
            ledger=self.ledger,
            clock=self.clock,
            settings_of=self.settings,
            endpoint_of=self.endpoints.get,
            duties=(
                Duty("reconcile", 30.0, self.reconciler.run_once),
                Duty("look for stuck jobs", 30.0, self.stuck.run_once),
                Duty("tidy", 3_600.0, self.tidy.tidy),
            ),
            stuck_of=self.stuck.found,
        )

    async def begin(self) -> Recovered:
        """What a process does at its start: recovers, then starts everything."""
        window_us = int(self.api.limit(Operation.RUN).window_s * 1_000_000)
        since = self.clock.now() - window_us - 60_000_000
        now = self.clock.now()
        held = partial(reports.sent_since, endpoint_id=self.run.endpoint_id, since=since, now=now, answer_us=60_000_000)
        sent = await self.ledger.read(held)
        self.api.hold(Operation.RUN, sent.answered, sent.unanswered)
        recovered = await self.janitor.recover(lambda jobs: self.collector.adopt(jobs, ask_now=True))
        await self.inbox.recover()
        await self.start("collector", "inbox", "janitor", "canceller", "control")
        await self.start("dispatcher")
        return recovered

    async def count(self) -> None:
        """Takes the ledger's counts over into the progress."""
        counts = await self.ledger.read(partial(reports.counts_of, run=self.run.id))
        for state in State:
            self.progress.add(state, counts.get(state, 0) - self.progress.count(state))

    async def start(self, *names: str) -> Self:
        """Starts parts by name: dispatcher, collector, janitor, inbox, canceller."""
        for name in names:
            part: Dispatcher | Collector | Janitor | WebhookInbox | Canceller | Control = getattr(self, name)
            await self.taking.start(part.serve)
        return self

    async def finish(self) -> None:
        """Waits until every job of the run has its outcome."""
        await self.wait(lambda: self.progress.unfinished == 0)

    async def until(self, state: State, number: int = 1) -> None:
        """Waits until so many jobs of the run are in `state`."""
        await self.wait(lambda: self.progress.count(state.value) >= number)

    async def until_event(self, condition: Callable[[Transition], bool]) -> Transition:
        """Waits for a step that was not there before the call."""
        seen = len(self.steps)
        found: list[Transition] = []

        def look() -> bool:
            found.extend(step for step in self.steps[seen:] if condition(step))
            return bool(found)

        await self.wait(look)
        return found[0]

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition that steps make true; on virtual time a program that idles would do so for ever."""
        with anyio.fail_after(PATIENCE_S):
            await self.progress.until(condition)

    async def job(self, n: int = 1) -> Job:
        """The `n`th job as it stands in the ledger."""
        ids = await self._submissions(n)
        found = (await self.ledger.read(partial(reports.jobs_of_submissions, ids=ids))).jobs
        return found[n]

    async def _submissions(self, n: int) -> list[int]:
        return [event.submission for event in await self.events(n) if event.submission is not None]

    async def events(self, n: int = 1) -> list[EventRow]:
        """The history of the `n`th job."""
        return await self.ledger.read(partial(reports.events_of, job=n))

    async def story(self, n: int = 1) -> list[str]:
        """The history of the `n`th job, an `event trouble` each."""
        return [f"{event.event} {event.trouble}" if event.trouble else event.event for event in await self.events(n)]

    async def counts(self) -> dict[str, int]:
        """The run's counts that are not zero."""
        found = await self.ledger.read(partial(reports.counts_of, run=self.run.id))
        return {name: n for name, n in found.items() if n}

    async def results(self) -> list[FinishedJob]:
        return [job async for job in finished_jobs(self.ledger, self.run.id, Rows.RESULTS)]

    async def failures(self) -> list[FinishedJob]:
        return [job async for job in finished_jobs(self.ledger, self.run.id, Rows.ERRORS)]


@asynccontextmanager
async def process(
    path: Path,
    transport: httpx.AsyncBaseTransport,
    *,
    clock: VirtualClock | None = None,
    jobs: int | Sequence[Row] = 1,
    settings: RunSettings | None = None,
    limits: dict[Operation, Limit] | None = None,
    webhooks: bool = False,
    delay: Callable[[], float] | None = None,
    commits: CommitWatch | None = None,
    name: str = "run",
    is_local: bool = False,
    environ: Mapping[str, str] | None = None,
    boot: Boot = this_boot,
) -> AsyncIterator[Process]:
    """A process on the ledger at `path`, made with `jobs` in the run `name` where they are not there yet.

    On leaving, work is taken no more, requests in flight are cut off, and the ledger is closed.
    """
    clock = clock or VirtualClock()
    connect = async_creator(empty_ledger(path), delay=delay, commits=commits)
    async with open_ledger(path, clock=clock, connect=connect, boot=boot) as ledger, anyio.create_task_group() as outer:
        await outer.start(ledger.serve)
        await ledger.intake_remove_unfinished()
        run = await ledger.run_named(name)
        if run is None or not run.accepted:
            run = await _new_run(ledger, run, name, jobs, settings or RunSettings())
        all_settings = {run.id: run.settings for run in await ledger.read(reports.runs_all)}
        if settings is not None:
            all_settings[run.id] = settings
        service = Service(URL, "key", clock, limits=limits, transport=transport)
        async with anyio.create_task_group() as task_pool:
            async with anyio.create_task_group() as taking:
                parts = Process(
                    ledger=ledger,
                    clock=clock,
                    run=run,
                    service=service,
                    settings=all_settings,
                    webhooks=webhooks,
                    task_pool=task_pool,
                    taking=taking,
                    is_local=is_local,
                    environ=environ or {},
                )
                await parts.count()
                yield parts
                taking.cancel_scope.cancel()
            task_pool.cancel_scope.cancel()
        outer.cancel_scope.cancel()


async def _new_run(ledger: Ledger, run: Run | None, name: str, jobs: int | Sequence[Row], settings: RunSettings) -> Run:
    """The run with its jobs; `run` is there already where a crash came between it and its intake."""
    if run is None:
        run = await ledger.run_create(name=name, service_url=URL, endpoint=ENDPOINT, source="/x", settings=settings)
    intake = await ledger.intake_start(run)
    await ledger.intake_add(intake, rows(jobs) if isinstance(jobs, int) else jobs)
    await ledger.intake_accept(intake)
    found = await ledger.run_named(name)
    assert found is not None
    return found
