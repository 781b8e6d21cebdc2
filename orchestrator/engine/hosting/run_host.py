"""Serves runs, holds them, releases them, moves them to another endpoint and forgets them, as people ask."""

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from orchestrator.client import ServerlessEndpoint
from orchestrator.core.jobs.escalation import endpoints_named
from orchestrator.engine.commands.retry_jobs import retry_chosen
from orchestrator.engine.endpoint.probe import refusal
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.pod_host import PodHost
from orchestrator.engine.hosting.pool_watch import PoolWatch
from orchestrator.engine.hosting.run_control import RunController
from orchestrator.engine.hosting.run_registry import RunRegistry, UnservableRun
from orchestrator.engine.hosting.run_session import Reporter, RunSession
from orchestrator.engine.hosting.scope_watch import ScopeWatch
from orchestrator.engine.hosting.worker_scaling import WorkerScaling
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.work_groups import WorkGroups
from orchestrator.errors import OrchestratorError, StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import MAY_BE_TAKEN, NO_RUN, Command, NewEndpoint, Reply
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX, LOCAL


class RunHost:
    """What one engine does with its `runs` while it works. `reach` is the engine's, and `said` what there is to say of
    it.
    """

    def __init__(
        self,
        ledger: Ledger,
        dependencies: Dependencies,
        console: Console,
        *,
        runs: RunRegistry,
        endpoints: EndpointRegistry,
        groups: WorkGroups,
        reach: Callable[[Run], Awaitable[None]],
        said: Reporter,
    ) -> None:
        self.ledger = ledger
        self.runs = runs
        self.endpoints = endpoints
        self.groups = groups
        self.reach = reach
        self._said = said
        self.say = console.info
        self.pool_watch = PoolWatch(ledger, runs.pools, runs.settings_of, endpoints.owed, runs.sends)
        self.workers = WorkerScaling(
            ledger=ledger,
            runs=runs,
            endpoints=endpoints,
            launch=groups.launch,
            dependencies=dependencies,
            console=console,
        )
        self.pods = PodHost(
            ledger=ledger,
            runs=runs,
            services=endpoints.services,
            dependencies=dependencies,
            console=console,
            join=self._join_pods,
        )
        self.control = RunController(
            ledger=ledger,
            brakes=runs.brakes,
            is_served=lambda run: run in endpoints.homes.endpoints or run in runs.unservable,
            warn=console.warn,
            changed=runs.on_change,
            owed=endpoints.owed,
        )
        self.scope_watch = ScopeWatch(runs=runs, look_again=self.look_again, serve_all=self.serve_all)
        self._turn = anyio.Lock()
        """Held while a run is taken on: people, news of what others commit and trials of what was held may come to the
        same one at once, which is served once. What waits for an account does so without it.
        """

    async def take_on(self, run: Run) -> RunSession:
        """Serves `run` from now on, unless it does already; nothing of it is sent before its session's `send`.

        Raises `UsageError` where its endpoint cannot be used, or its validator.
        """
        self.runs.wanted.to_send.add(run.id)
        self.endpoints.validators.load(self.runs.settings_of.get(run.id, run.settings))
        with anyio.CancelScope(shield=True):  # whoever stops it as it begins is told how it stands
            async with self._turn:
                known = self.runs.sessions.get(run.id)
                if known is None:
                    await self.reach(run)
                session = known or await self.runs.open_session(
                    run, control=self.control, taking=self.groups.taking, said=self._said
                )
        for there in await self.ledger.runs.elsewhere([run.id]):
            await self.reach(there)
            await self.runs.extend(session, there)
        await self._reach_members(run, session)
        await self.reach_escalation(run, session)
        return session

    async def save_again(self, session: RunSession) -> None:
        """Saves of the results of the run what the disk did not take, what was not fetched before a stop, and what
        nobody wanted as files before.
        """
        run, progress = session.run, session.progress
        if not (n := progress.to_be_saved):
            return
        self.say(f"{run.name}: results without their files: {n:,}; these are made first")
        fault = await self.endpoints.validators.save_all(run.id)
        session.own.endpoint.runs.observe_files(run.id, fault)
        await self.ledger.runs.recount(run.id, progress.recount)

    def save_aside(self, session: RunSession, begin: Callable[[RunSession], Awaitable[None]]) -> None:
        """Has its files made first, as `save_again` does, and `begin` called then: thousands of them may be fetched,
        for which no command waits, and no other run. Not where it is released meanwhile.
        """
        if session.saving is None:
            session.saving = anyio.CancelScope()
            self.groups.taking.start_soon(self._save_first, session, session.saving, begin)

    async def _save_first(
        self, session: RunSession, saving: anyio.CancelScope, begin: Callable[[RunSession], Awaitable[None]]
    ) -> None:
        try:
            with saving:
                await self.save_again(session)
                await begin(session)
        except (UsageError, StorageError) as error:
            self.hold(session.run, error)
        finally:
            if session.saving is saving:
                session.saving = None
            session.progress.nudge()

    async def _reach_members(self, run: Run, session: RunSession) -> None:
        """The members of its pool are served from now on, too, if it has one. Raises `UsageError`."""
        served = self.runs.names_of(session).values()
        for member in self.runs.members_of(run.id):
            if member not in served:
                there = await self.ledger.runs.at_endpoint(run, member)
                await self.reach(there)
                await self.runs.extend(session, there)
        self.runs.learn_pool(session)
        if self.runs.pools.of and not self.pool_watch.is_served:
            await self.groups.taking.start(self.pool_watch.serve)

    async def _join_pods(self, session: RunSession) -> None:
        """Those pods take part in the pool of a run that are ready; what is bound to another one waits for any."""
        run = session.run
        await self._reach_members(run, session)
        members = self.runs.members_of(run.id)
        for number, name in self.runs.names_of(session).items():
            if name != run.endpoint and name not in members:
                await self.ledger.jobs.go_home(run.id, endpoint=number, home=run.endpoint_id)

    async def serve_all(self) -> None:
        """Serves every run in the scope of which something is left that nobody has released, as far as it does not."""
        wanted = await self.ledger.runs.releases.to_serve(self.endpoints.scope.endpoints)
        is_served = self.runs.sessions.keys() | self.runs.unservable.keys()
        to_come = self.runs.wanted.to_come = {number for number in wanted if number not in is_served}
        for number in sorted(to_come):
            run = await self._run(number)  # as it is by now: it may have waited until an account answered another one
            if run is not None and number in to_come and number not in self.runs.sessions:
                await self.serve(run)
            to_come.discard(number)

    async def send(self, run: Run) -> None:
        """Sends the jobs of `run`, which is taken on, once its files are made, it has the workers that it wants, and it
        can have its pods; not where it is released meanwhile. Raises `UsageError` where that cannot be.
        """
        session = self.runs.sessions[run.id]
        await self.save_again(session)
        await self._begin(session)

    async def serve(self, run: Run) -> str | None:
        """Sends the jobs of `run` from now on, by its settings as they are in the ledger.

        Where that cannot be, returns why: it is tried again, now and then. Files that are to be made first are made
        after this has returned.
        """
        self.runs.settings_of[run.id] = run.settings
        self.runs.wanted.to_send.add(run.id)
        session = self.runs.sessions.get(run.id)
        try:
            if session is None:
                self.endpoints.services.check_reach(run)
                session = await self.take_on(run)
            else:  # its settings may be others by now
                await self._reach_members(run, session)
            await self.reach_escalation(run, session)  # its settings may be others by now
            await session.recount()
            if session.progress.to_be_saved:
                self.save_aside(session, self._begin)
            else:
                await self._begin(session)
        except UsageError as error:
            return self.hold(run, error) if run.id in self.runs.wanted.to_send else error.message
        return None

    async def _begin(self, session: RunSession) -> None:
        await self.workers.raise_for(session.run)
        await self.pods.ask_for(session.run)
        self.runs.unservable.pop(session.run.id, None)
        if session.run.id in self.runs.wanted.to_send:  # nobody has released it while its account was waited for
            await session.send()

    def hold(self, run: Run, error: OrchestratorError) -> str:
        """Nothing of it is sent, and `error` says why; returns that. It is tried again, now and then."""
        self.runs.unservable[run.id] = UnservableRun(run, error.message)
        return error.message

    async def serve_own(self, run: Run) -> RunSession | None:
        """As `serve`, for a run that this process itself has taken in, of a function of the user's, too. None where
        that cannot be now. Raises `UsageError` for a function that cannot be loaded.
        """
        if run.service_url == LOCAL and run.id not in self.runs.sessions:
            self.runs.settings_of[run.id] = run.settings
            await self.take_on(run)
        await self.serve(run)
        return self.runs.sessions.get(run.id)

    async def retry_unservable(self) -> None:
        """Tries those again that could not be served, and forgets those that were cancelled meanwhile."""
        for number in tuple(self.runs.unservable):
            run = await self._run(number)
            if self.control.controls(number).cancel and await self.ledger.runs.ended([number]):
                self.runs.release(number)
            elif run is not None and number in self.runs.unservable and await self.serve(run) is None:
                self.say(f"{run.name} can be served now: it goes on")

    async def serve_asked(self, command: Command) -> Reply:
        """Carries out a SERVE."""
        if (run := await self._run(command.run)) is None:
            return Reply(NO_RUN, is_refused=True)
        try:
            held = await self.serve(run)
        except StorageError as error:  # nobody may wait for it any more
            held = self.hold(run, error)
        return Reply("it is served" if held is None else f"it is held: {held}")

    async def release_asked(self, command: Command) -> Reply:
        """Carries out a RELEASE."""
        assert command.run is not None
        await self.ledger.runs.releases.set(command.run, is_released=True)
        self.runs.release(command.run)
        if (session := self.runs.sessions.get(command.run)) is not None:
            await session.release()
        return Reply("no more of it is sent")

    async def rebind_asked(self, command: Command) -> Reply:
        """Carries out a REBIND, once what is under way has shown whether the former endpoint takes jobs of the run."""
        if (run := await self._run(command.run)) is None:
            return Reply(NO_RUN, is_refused=True)
        asked = msgspec.json.decode(command.argument, type=NewEndpoint)
        await self._check(msgspec.structs.replace(run, service_url=asked.service_url, endpoint=asked.endpoint))
        if (session := self.runs.sessions.get(run.id)) is not None:
            await session.hold_back()
            with anyio.move_on_after(IN_FLIGHT_S_MAX):
                await session.progress.until(lambda: not session.is_in_flight)
        if not await self.ledger.runs.rebind(run.id, service_url=asked.service_url, endpoint=asked.endpoint):
            if session is not None:
                await session.go_on()
            return Reply(MAY_BE_TAKEN.format(run.endpoint), is_refused=True)
        [run] = await self.ledger.runs.all([run.id])
        self.endpoints.homes.endpoints.pop(run.id, None)  # one that cannot be served here has none
        try:
            await self.reach(run)
        except UsageError:
            if self.endpoints.scope.has(run.endpoint_id):
                raise
            await self._leave_to_others(run.id)
            return Reply(f"it is at {asked.endpoint} from now on, where another engine serves it")
        if session is not None:
            await session.move(run, self.runs.part_of(run, session.progress, session.control, session.brakes))
        return Reply(f"it is at {asked.endpoint} from now on")

    async def _leave_to_others(self, number: int) -> None:
        """The run of that number is not at any endpoint of ours any more."""
        session = self.runs.sessions.get(number)
        self.runs.forget(number)
        if session is not None:
            await session.release()

    async def retry_asked(self, command: Command) -> Reply:
        """Carries out a RETRY, at another endpoint where that is asked."""
        if (run := await self._run(command.run)) is None:
            return Reply(NO_RUN, is_refused=True)
        if (part := await self.ledger.flows.part(run.id)) is not None and part.replaced_by is not None:
            told = f"{run.name} was replaced, and nothing of it goes on; what to retry is {part.replaced_by}"
            return Reply(told, is_refused=True)
        endpoint = msgspec.json.decode(command.argument, type=RetryChoice).endpoint
        there = run if endpoint in (None, run.endpoint) else await self._elsewhere(run, endpoint)
        return await retry_chosen(self.ledger, command, there)

    async def _elsewhere(self, run: Run, endpoint: str) -> Run:
        """`run` as it is at another endpoint of its service, where it is served from now on, too. Raises `UsageError`
        where no job of it could be sent there.
        """
        if not endpoint.startswith(LOCAL):  # a function is there once it is loaded
            api = await self._check(self.endpoints.services.moved(run, endpoint))
            if not self.endpoints.scope.is_everything:  # nobody else asks anything there, once it is in the scope
                await self.endpoints.scope.take_in((await self.ledger.runs.at_endpoint(run, endpoint)).endpoint_id)
            if (why := await refusal(api)) is not None:
                raise UsageError(f"{why}: {api.url}")
        there = await self.ledger.runs.at_endpoint(run, endpoint)
        await self.reach(there)
        if (session := self.runs.sessions.get(run.id)) is not None:
            await self.runs.extend(session, there)
        return there

    async def reach_escalation(self, run: Run, session: RunSession) -> None:
        """The endpoints to which the rules of `run` may send its jobs are served from now on, too. Raises `UsageError`
        where one is none.
        """
        settings = self.runs.settings_of.get(run.id, run.settings)
        served = self.runs.names_of(session).values()
        for endpoint in endpoints_named(settings.escalate):
            if endpoint not in served:
                await self._elsewhere(run, endpoint)

    async def look_again(self, number: int) -> None:
        """The run of that number has another name by now, another priority or other brakes, or was deleted."""
        session = self.runs.sessions.get(number)
        run = await self._run(number)
        if run is not None and run.accepted:
            self.runs.learn_changed(run)
            if session is not None:
                session.run = session.brakes.run = run
                await session.brakes.choose()
                session.progress.nudge()
            return
        await self._leave_to_others(number)

    async def _check(self, run: Run) -> ServerlessEndpoint:
        """The endpoint where `run` is. Raises `UsageError` where nothing could be sent there."""
        if run.service_url != LOCAL:
            self.endpoints.services.check_reach(run)
        return await self.endpoints.services.endpoint_of(run, self.runs.settings_of[run.id])

    async def _run(self, number: int | None) -> Run | None:
        found = [] if number is None else await self.ledger.runs.all([number])
        return found[0] if found else None
