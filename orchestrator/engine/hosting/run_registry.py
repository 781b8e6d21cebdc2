"""The runs of the ledger as this process knows them: their settings, where they are served, and how they stand."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final, NamedTuple

from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.clock import Clock
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_control import RunController
from orchestrator.engine.hosting.run_session import RunAtEndpoint, RunSession
from orchestrator.engine.hosting.stuck_jobs import StuckJobs
from orchestrator.engine.hosting.webhook_listener import WebhookListener
from orchestrator.engine.ports.service_registry import ServiceRegistry
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.brakes import RunBrakes, ServedBrakes
from orchestrator.engine.sending.request_builder import RequestBuilder
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport, together
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_settings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US

CHANGED: Final = ("priority", *(setting.name for setting in run_settings.BRAKES))
"""The settings of a run that people change while it goes on."""


REPORTED_FOR_US: Final = MINUTE_US
"""For so long after its end others still hear how a run stood."""


class UnservableRun(NamedTuple):
    """A run that is to be served and cannot, and why."""

    run: Run
    why: str


class Standstill(Struct, frozen=True, kw_only=True):
    """For how long a run has stood as it does. Times are microseconds UTC."""

    stands: tuple[int, ...]
    since: int
    due_at: int = 0
    """When it is next found out why."""

    sentence: str | None = None
    """Why, where something holds it up."""


class RunRegistry:
    """Those that are served have a session; those that are only collected for have an endpoint; the others neither."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        environ: Mapping[str, str],
        services: ServiceRegistry,
        endpoints: EndpointRegistry,
        settings_of: dict[int, RunSettings],
        retries: RetryBudgets,
        listener: WebhookListener,
        brakes: ServedBrakes,
    ) -> None:
        self._ledger = ledger
        self.brakes = brakes
        self._clock = clock
        self._environ = environ
        self._signs_with: frozenset[str] = frozenset()
        self._services = services
        self._endpoints = endpoints
        self._listener = listener
        self._retries = retries
        self.settings_of = settings_of
        """As they were given last, by the numbers of their runs."""

        self.sessions: dict[int, RunSession] = {}
        """The runs that are served, or were until they were released, by their numbers."""

        self.standstills: dict[int, Standstill] = {}
        """Since when nothing has moved of the runs that are served, and why, as far as somebody has found out."""

        self.held: dict[int, UnservableRun] = {}
        """The runs that are to be served and cannot, by their numbers."""

        self._endpoints_of: dict[int, list[int]] = {}
        """Its own, and then the others to which jobs of it were sent again."""

        self._unfinished: set[int] = set()
        """The runs that had something to do as they were met: there may be years of others."""

        self._ended_at: dict[int, int] = {}
        """Since when each of those has nothing more to do that are served and have nothing."""

        self.fresh: list[int] = []
        """Endpoints at which nothing is collected yet."""

    def is_collected_for(self, run: int) -> bool:
        """Whether this process reaches the service of `run`."""
        return run in self._endpoints_of

    def is_placed(self, run: int, endpoint: str) -> bool:
        """Whether jobs of `run` may be sent to that endpoint as well."""
        return self._retries.is_placed(run, endpoint)

    async def learn_settings(self) -> None:
        """Reads the settings of all runs, as they were given last."""
        for run in await self._ledger.runs.all():
            self.settings_of[run.id] = run.settings

    async def learn_changed(self) -> None:
        """Somebody has changed the priority of a run, or one of its brakes."""
        for run in await self._ledger.runs.all():
            if run.id in self.settings_of:
                changed = {name: getattr(run.settings, name) for name in CHANGED}
                self.settings_of[run.id] = replace(self.settings_of[run.id], **changed)
            if (session := self.sessions.get(run.id)) is not None:
                await session.brakes.choose()
                session.progress.nudge()

    async def learn_all(self, task_pool: TaskPool) -> None:
        """Of each run of the ledger its settings, and its endpoints where its service can be reached."""
        counts = await self._ledger.runs.counts_by_run()
        self._unfinished = {run for run, of_run in counts.items() if unfinished(of_run)}
        for run in [*await self._ledger.runs.all(), *await self._ledger.runs.elsewhere()]:
            self.settings_of.setdefault(run.id, run.settings)
            if run.settings.retry_budget is not None and not self._retries.is_followed(run.id):
                await self._progress_of(run)  # its results may come, and nobody have it served here
            if run.endpoint_id not in self._endpoints_of.get(run.id, ()) and self._services.is_reachable(run):
                await self.add_endpoint(run, task_pool)

    async def add_endpoint(self, run: Run, task_pool: TaskPool) -> None:
        """The endpoint of `run` is one of ours from now on. Raises `UsageError` where it has no service."""
        if self._endpoints.get(run.endpoint_id) is None:
            service = await self._services.of(run, self.settings_of[run.id])
            self._endpoints.add(
                run,
                service,
                task_pool=task_pool,
                webhooks=self._listener.webhook is not None,
                connections=self._services.connections,
                requests_per_worker=self._services.requests_per_worker,
            )
            self.fresh.append(run.endpoint_id)
            service.down.room = self._ledger.writer.room
            if self._listener.webhooks is not None:
                self._listener.webhooks.share(service.down)
        self._retries.place(run)
        endpoints = self._endpoints_of.setdefault(run.id, [])
        if run.endpoint_id not in endpoints:
            endpoints.append(run.endpoint_id)

    async def open_session(
        self, run: Run, *, control: RunController, taking: TaskGroup, said: Callable[[], ProcessReport]
    ) -> RunSession:
        """Serves `run` from now on, at its endpoint, which is known."""
        self._signs_with = await self._ledger.flows.pipelines.secret_variables()
        progress = await self._progress_of(run)
        brakes = await self.brakes.of(run, progress)
        session = self.sessions[run.id] = RunSession(
            run=run,
            part=self.part_of(run, progress, control, brakes),
            brakes=brakes,
            ledger=self._ledger,
            progress=progress,
            control=control,
            taking=taking,
            said=said,
        )
        return session

    async def _progress_of(self, run: Run) -> Progress:
        """How `run` stands, from now on."""
        margins = await self._ledger.jobs.margins.of(run=run.id)
        progress = Progress(run.id, {}, margin_min_s=margins.min, clock=self._clock)
        self._ledger.writer.subscribe(progress.on_steps)
        await self._ledger.runs.recount(run.id, progress.recount)
        self._retries.follow(run.id, progress)
        return progress

    def part_of(self, run: Run, progress: Progress, control: RunController, brakes: RunBrakes) -> RunAtEndpoint:
        """The part of `run` at the endpoint where it is, which is known."""
        served = self._endpoints.served(run.endpoint_id)
        sending = RunSender(
            run=run.id,
            endpoint=served.endpoint,
            ledger=self._ledger,
            builder=RequestBuilder(
                lambda: self.settings_of[run.id],
                self._environ,
                self._listener.webhook,
                run_key=f"{run.created_at}/{run.id}",
                here_us=served.endpoint.estimates.here_us,
                keys=lambda: self._services.own_keys(self._signs_with),
            ),
            controls=lambda: control.controls(run.id),
            at_service=lambda: progress.at_service,
            is_idle=served.dispatcher.is_idle,
            emptied=progress.nudge,
            brakes=brakes,
            at_endpoint=lambda: served.collector.outstanding,
        )
        return RunAtEndpoint(served.endpoint, served.dispatcher, sending)

    async def extend(self, session: RunSession, there: Run) -> None:
        """Serves the run also `there`, at another endpoint, which is known."""
        if session.part(there.endpoint_id) is None:
            await session.add(self.part_of(there, session.progress, session.control, session.brakes))

    def unbind(self, run: int) -> None:
        """`run` is at another endpoint, or is none any more."""
        self._endpoints_of.pop(run, None)

    def forget(self, run: int) -> None:
        """`run` is none any more. Its settings stay: an answer about a job of it may still be under way."""
        self.held.pop(run, None)
        self.sessions.pop(run, None)
        self.standstills.pop(run, None)
        self.brakes.forget(run)
        self._ended_at.pop(run, None)
        self.unbind(run)
        self._unfinished.discard(run)

    @property
    def has_unfinished(self) -> bool:
        """Whether any job of the runs that are served has no outcome."""
        return any(session.progress.unfinished for session in self.sessions.values())

    def on_change(self) -> None:
        """Something else is asked of runs: whoever waits for one looks again."""
        for session in self.sessions.values():
            session.progress.nudge()

    def reports(self, stuck: StuckJobs, *, lately: bool = False) -> dict[int, RunReport]:
        """How each stands of which there is something to say, for those who look from outside; `lately`: of those that
        ended long ago there is not.
        """
        over: set[int] = set()
        if lately:
            self._note_ends()
            ended_before = self._clock.now() - REPORTED_FOR_US
            over = {run for run, ended_at in self._ended_at.items() if ended_at < ended_before}
        return {run: self._said_of(run, stuck) for run in {*self._unfinished, *self.sessions, *self.held} - over}

    def _note_ends(self) -> None:
        """Since when the runs that are served have nothing more to do: a process may serve thousands, one a night."""
        for run, session in self.sessions.items():
            if session.progress.unfinished or run in self.held:
                self._ended_at.pop(run, None)
            else:
                self._ended_at.setdefault(run, self._clock.now())

    def _said_of(self, run: int, stuck: StuckJobs) -> RunReport:
        if run not in self._endpoints_of:
            held = self.held.get(run)
            return RunReport(held=held and held.why, is_unserved=True)
        session = self.sessions.get(run)
        own, *others = [self._said_at(number, run, session, stuck) for number in self._endpoints_of[run]]
        said = reduce(together, others, own)
        if session is None or not others:
            return self._with_finding(said, session)
        said = replace(said, stopped=session.why_stopped, is_uncollectable=session.is_uncollectable)
        return self._with_finding(said, session)

    def _with_finding(self, said: RunReport, session: RunSession | None) -> RunReport:
        """`said`, and why the run stands still, if it still does."""
        standstill = None if session is None else self.standstills.get(session.run.id)
        if session is None or standstill is None or standstill.stands != session.progress.stands:
            return said
        return replace(said, finding=standstill.sentence)

    def _said_at(self, number: int, run: int, session: RunSession | None, stuck: StuckJobs) -> RunReport:
        part = None if session is None else session.part(number)
        return self._endpoints.served(number).report_on(
            run,
            sending=None if part is None else part.sending,
            is_released=session is not None and session.is_released,
            stuck=stuck.found(run),
        )
