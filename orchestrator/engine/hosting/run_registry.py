"""The runs of a scope as its engine knows them: their settings, where they are served, and how they stand."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from anyio.abc import TaskGroup
from msgspec.structs import replace

from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.jobs.lifecycle import State, ended, unfinished
from orchestrator.core.planning.worker_steps import WorkersNow
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_control import RunController
from orchestrator.engine.hosting.run_session import Reporter, RunAtEndpoint, RunSession
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.engine.pools.member_line import MemberLine
from orchestrator.engine.pools.pools import Pools
from orchestrator.engine.pools.run_pool import RunPool
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.sending.run_brakes import RunBrakes
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.engine.sending.served_brakes import ServedBrakes
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_settings
from orchestrator.units import SECOND_US

CHANGED: Final = ("priority", *(setting.name for setting in run_settings.BRAKES))
"""The settings of a run that people change while it goes on."""


UNDECIDED_US: Final = 30 * SECOND_US
"""For so long after its beginning an engine may be about to serve runs for which workers or pods are there."""

NO_PODS: Final = Hold(Gate.PODS, "it has no pod yet", stops=False)


class UnservableRun(NamedTuple):
    """A run that is to be served and cannot, and why."""

    run: Run
    why: str


class WantedRuns:
    """Which runs an engine is about to serve, and which it is to send. Where it `is_to_look` which are to be served,
    it may be any until it has looked, and any in all cases until `decided_at`.
    """

    def __init__(self, *, is_to_look: bool, decided_at: int) -> None:
        self._decided_at = decided_at
        self.to_come: set[int] | None = None if is_to_look else set()
        """The runs that are about to be served, once those before them are; None: it has not looked yet."""

        self.to_send: set[int] = set()
        """The runs that were asked to be sent, and to be released not since."""

    def may_come(self, run: int, now: int) -> bool:
        """Whether `run` may be about to be served."""
        return self.to_come is None or now < self._decided_at or run in self.to_come

    def release(self, run: int) -> None:
        """Nobody wants it any more."""
        self.to_send.discard(run)
        if self.to_come is not None:
            self.to_come.discard(run)


class RunRegistry:
    """Those that are served have a session; those that are only collected for have `endpoints`; the others neither."""

    def __init__(
        self,
        process: EngineProcess,
        endpoints: EndpointRegistry,
    ) -> None:
        self._ledger = ledger = process.ledger
        self._clock = process.dependencies.clock
        self._endpoints = endpoints
        self._webhook = process.listener.webhook
        self.settings_of = endpoints.settings_of
        """As they were given last, by the numbers of their runs."""

        self.brakes = ServedBrakes(
            ledger,
            self._clock,
            self.settings_of,
            console=process.console,
            word=process.dependencies.word,
            name_of=endpoints.retries.name_of,
        )
        self.pools = Pools(endpoints.homes)
        endpoints.steps.add(self.brakes.on_steps)
        endpoints.steps.add(self.pools.on_steps)
        self.sessions: dict[int, RunSession] = {}
        """The runs that are served, or were until they were released, by their numbers."""

        self.pod_urls: dict[int, tuple[str, ...]] = {}
        """Where the pods are that are ready, by the numbers of their runs."""

        self.why_no_pods: Callable[[int], Hold] = lambda _: NO_PODS
        """Why no job of a run leaves that has pods, where none of them takes any."""

        self.paid_for_pod: Callable[[int, str], float] = lambda _run, _url: 0.0
        """What a run has paid for its pod at that URL so far."""

        self.unservable: dict[int, UnservableRun] = {}
        """The runs that are to be served and cannot, by their numbers."""

        self.wanted = WantedRuns(is_to_look=not endpoints.scope.is_everything, decided_at=ledger.now() + UNDECIDED_US)
        self.workers: dict[int, WorkersNow] = {}
        """How the workers stand that follow what runs need, by the numbers of their endpoints."""

        self.unfinished: set[int] = set()
        """The runs that had something to do as they were met: there may be years of others."""

    async def ours(self) -> list[Run]:
        """The runs in the scope, oldest first."""
        return [run for run in await self._ledger.runs.all() if self._endpoints.scope.has(run.endpoint_id)]

    def is_ours(self, run: int) -> bool:
        """Whether the run of that number is in the scope, as far as was looked; of one that is deleted nobody knows."""
        return self._endpoints.scope.is_everything or run in self.settings_of

    async def learn_settings(self) -> None:
        """Reads the settings of all runs in the scope, as they were given last."""
        for run in await self.ours():
            self.settings_of[run.id] = run.settings

    async def changed_elsewhere(self) -> list[int]:
        """The runs that are served, or have something to do, of which the ledger says something else than is known."""
        known = sorted(self.sessions.keys() | self.unfinished)
        now = {run.id: run for run in await self._ledger.runs.all(known)}
        return [number for number in known if self._is_changed(number, now.get(number))]

    def _is_changed(self, number: int, now: Run | None) -> bool:
        if now is None or not now.accepted:
            return True
        before = self.settings_of.get(number, now.settings)
        return self._endpoints.homes.names.get(number, now.name) != now.name or any(
            getattr(before, name) != getattr(now.settings, name) for name in CHANGED
        )

    async def count_what_came(self) -> None:
        """Counts the runs anew to which others have brought jobs, of which no step tells here: also where as many went
        as came.
        """
        counts = await self._ledger.runs.counts_by_run(list(self.sessions))
        for number, session in list(self.sessions.items()):
            of_run = {state.value: counts.get(number, {}).get(state.value, 0) for state in State}
            is_sending = of_run[State.SUBMITTING] > 0  # then the steps that are told of are always behind
            is_other = unfinished(of_run) + ended(of_run) != session.progress.total
            if is_other or (of_run != session.progress.counts and not is_sending):
                await session.recount()
            elif session.brakes.awaits_canary:  # of which some may be other jobs by now, in the same states
                await session.jobs_came()

    def learn_changed(self, run: Run) -> None:
        """Somebody may have changed the name of `run`, its priority, or one of its brakes."""
        self._endpoints.homes.names[run.id] = run.name
        changed = {name: getattr(run.settings, name) for name in CHANGED}
        self.settings_of[run.id] = replace(self.settings_of.get(run.id, run.settings), **changed)

    async def learn_all(self) -> list[Run]:
        """Reads the settings of each run in the scope; returns the runs as they are at further endpoints that can be
        reached.
        """
        runs, others = await self.ours(), list[Run]()
        counts = await self._ledger.runs.counts_by_run()
        self.unfinished = {run.id for run in runs if unfinished(counts.get(run.id, {}))}
        for run in runs:
            self.settings_of.setdefault(run.id, run.settings)
            self.learn_home(run)
        elsewhere = [run for run in await self._ledger.runs.elsewhere() if self.is_ours(run.id)]
        for run in [*runs, *elsewhere]:
            if run.settings.retry_budget is not None and run.id not in self._endpoints.retries.progress:
                await self._progress_of(run)  # its results may come, and nobody have it served here
            is_there = run.endpoint_id in self._endpoints.homes.endpoints.get(run.id, ())
            if not is_there and self._endpoints.services.is_reachable(run):
                others.append(run)
        return others

    def learn_home(self, run: Run) -> None:
        """Where the jobs of `run`, as it is at its own endpoint, wait if it has a pool."""
        if self.settings_of[run.id].has_pool or self.settings_of[run.id].former_members:
            self._endpoints.homes.of[run.id] = run.endpoint_id
        else:
            self.pools.forget(run.id)

    async def open_session(self, run: Run, *, control: RunController, taking: TaskGroup, said: Reporter) -> RunSession:
        """Serves `run` from now on, at its endpoint, which is known."""
        self._endpoints.services.secret_variables = await self._ledger.flows.pipelines.secret_variables()
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
        self._endpoints.steps.add(progress.on_steps)
        await self._ledger.runs.recount(run.id, progress.recount)
        self._endpoints.retries.progress[run.id] = progress
        return progress

    def part_of(self, run: Run, progress: Progress, control: RunController, brakes: RunBrakes) -> RunAtEndpoint:
        """The part of `run` at the endpoint where it is, which is known."""
        served = self._endpoints.served[run.endpoint_id]
        sending = RunSender(
            run=run.id,
            endpoint=served.endpoint,
            ledger=self._ledger,
            builder=RequestBuilder(
                lambda: served.endpoint.settings_of[run.id],
                self._endpoints.services.row_variables,
                self._webhook,
                run_key=f"{run.created_at}/{run.id}",
                here_us=served.endpoint.estimates.here_us,
            ),
            controls=lambda: control.controls(run.id),
            progress=progress,
            brakes=brakes,
        )
        if not served.endpoint.api.takes_jobs:
            sending.waits_for = lambda: self.why_no_pods(run.id)
        return RunAtEndpoint(served.endpoint, served.dispatcher, sending)

    def members_of(self, run: int) -> Sequence[str]:
        """The endpoints that are the pool of `run`; its pods, as far as these are ready, where it has any."""
        return [each.endpoint for each in self.settings_of[run].members] or self.pod_urls.get(run, ())

    def names_of(self, session: RunSession) -> dict[int, str]:
        """What the endpoints are called where the run of `session` has a part, by their numbers."""
        name_of = self._endpoints.retries.name_of
        return {part.endpoint.id: name_of(session.run.id, part.endpoint.id) for part in session.parts}

    def learn_pool(self, session: RunSession) -> None:
        """The run of `session` has the pool that its settings name from now on, or that of its pods, or none."""
        run = session.run
        settings, members = self.settings_of[run.id], {*self.members_of(run.id)}
        has_pods, former = settings.pod_template is not None, {each.endpoint for each in settings.former_members}
        pool = self.pools.of.get(run.id)
        if not members and not has_pods:
            self.pools.forget(run.id)
            pool = None
        elif pool is None or pool.home != run.endpoint_id:
            pool = self.pools.open(self._new_pool(session))
        names = self.names_of(session)
        numbers = {number for number, name in names.items() if name in members}
        self.learn_home(run)
        homebound = numbers | {number for number, name in names.items() if name in former}
        self._endpoints.homes.members[run.id] = {*names} - {run.endpoint_id} if has_pods else homebound
        if pool is not None:
            pool.keep(numbers)
        for part in session.parts:
            number = part.endpoint.id
            if pool is None or number not in numbers:
                part.sending.join(None)
                continue
            pool.add(number, names[number], self.pools.member(part.endpoint))
            part.sending.join(MemberLine(pool, part.endpoint, self._ledger))

    def _new_pool(self, session: RunSession) -> RunPool:
        number = session.run.id
        return RunPool(
            number,
            session.run.endpoint_id,
            progress=session.progress,
            settings=lambda: self.settings_of[number],
            clock=self._clock,
        )

    def sends(self, run: int) -> bool:
        """Whether jobs of `run` leave here, from at least one of the endpoints where it is served."""
        session = self.sessions.get(run)
        return session is not None and session.sends

    async def extend(self, session: RunSession, there: Run) -> None:
        """Serves the run also `there`, at another endpoint, which is known."""
        if session.part(there.endpoint_id) is None:
            await session.add(self.part_of(there, session.progress, session.control, session.brakes))

    def may_come(self, run: int) -> bool:
        """Whether `run`, which is not served, may be about to be."""
        return self.wanted.may_come(run, self._ledger.now())

    def release(self, run: int) -> None:
        """Nobody wants `run` sent any more, also where it is about to be."""
        self.unservable.pop(run, None)
        self.wanted.release(run)

    def forget(self, run: int) -> None:
        """`run` is none any more. Its settings stay: an answer about a job of it may still be under way."""
        self.release(run)
        self.pod_urls.pop(run, None)
        self.sessions.pop(run, None)
        self.brakes.forget(run)
        self._endpoints.homes.endpoints.pop(run, None)
        self.pools.forget(run)
        self.unfinished.discard(run)

    @property
    def has_unfinished(self) -> bool:
        """Whether any job of the runs that are served has no outcome."""
        return any(session.progress.unfinished for session in self.sessions.values())

    def on_change(self) -> None:
        """Something else is asked of runs: whoever waits for one looks again."""
        for session in self.sessions.values():
            session.progress.nudge()
