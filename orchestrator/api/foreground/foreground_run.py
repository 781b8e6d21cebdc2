"""One run in the foreground: taken in, served until it has its outcomes, written to its files, and summed up.

It is served here, or, where another process works on the ledger already, by that one: then this process follows, shows
and writes the same, and goes on in its place should it end. A ledger on a server is shared: there the run is followed
always, and its part of the ledger is served here where nobody else does (`RunShare`).
"""

from contextlib import AsyncExitStack

import anyio
import msgspec
from anyio.abc import TaskGroup

from orchestrator.api.foreground.forecast_line import tell_after_canary, tell_outlook
from orchestrator.api.foreground.run_files import RunFiles
from orchestrator.api.foreground.run_intake import RunIntake
from orchestrator.api.foreground.run_log import LogBook
from orchestrator.api.foreground.run_share import RunShare, run_share
from orchestrator.api.foreground.stall_timeout import until_stalled, why_given_up
from orchestrator.api.foreground.summary import heard_summary, ledger_summary, snapshot_of, soonest_s
from orchestrator.api.hosting.follower import FollowedRun, followed_run
from orchestrator.api.hosting.host import Host
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.process_commands import ask_process, beside
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.observers.served_run import ServedRun, as_it_is
from orchestrator.errors import IntakeLostError, StorageError, leading
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request, run_settings
from orchestrator.units import SECOND_US
from orchestrator.views.status import Snapshot, Summary


class Foreground:
    """One run in the foreground of this process, which ends with it."""

    def __init__(self, request: run_request.RunRequest, host: Host, log: LogBook | None, files: RunFiles) -> None:
        self._request = request
        self._host = host
        self._console = host.console
        self._log = log
        self._started_at = self._now()
        self._intake = RunIntake(host.console, host.dependencies, host.stop)
        self._files = files
        self._standing: ServedRun | None = None
        self._is_under_way = False
        """Whether all of it is taken in, and somebody serves it."""

        self._gave_up = ""
        """Why the run was given up, if it was."""

        self._goes_on_elsewhere = False
        self.so_far: Summary | None = None
        """How far the run had come when an error ended it; None where it had not begun."""

    async def run(self) -> Summary:
        """Serves the run, or has it served by the process that works on the ledger, to its end."""
        async with anyio.create_task_group() as around:
            async with AsyncExitStack() as held:
                if self._host.is_shared:
                    await self._host.make_ledger()
                    summary = await self._beside(held, around)
                elif await self._host.take_lock_or_find(held):
                    summary = await self._serve(around)
                else:
                    summary = await self._beside(held, around)
            around.cancel_scope.cancel()
        return summary

    def why_ended(self) -> str:
        """Why it has ended without an error."""
        return "stopped, as asked" if self._host.stop.is_set() else "all of its jobs have their outcomes"

    # --- served here

    async def _serve(self, around: TaskGroup) -> Summary:
        """Serves the run. The ledger's lock is held."""
        async with self._host.opened() as engine, self._intake.turn(engine.ledger, self._request) as right:
            around.start_soon(right.keep)
            try:
                run, settings = await self._found(engine.ledger)
                engine.endpoints.services.use_key_for(run.service_url)
                async with self._host.working(engine):
                    engine.runs.settings_of[run.id] = settings
                    await self._work(engine, run, settings, around)
                standing = self._standing = engine.runs.sessions[run.id]  # also where it was stopped as it began
                return await self._end(engine.ledger, standing)
            except Exception:
                self.so_far = await self._cut_short(engine.ledger)
                raise

    async def _work(self, engine: Engine, run: Run, settings: run_settings.RunSettings, around: TaskGroup) -> None:
        """Takes the run on, collects, takes its input in, sends, and waits until it is over."""
        session = await engine.host.take_on(run)
        self._stands_as(session, around)
        recovered, _ = await self._host.begin(engine, Firing.HANDED_OVER)
        if self._intake.is_begun:
            await self._intake.done.wait()
        else:
            webhook_bytes, advice = engine.process.listener.url_bytes, self._refusal_advice
            await self._intake.take_in(
                engine.ledger, self._request, run, settings, webhook_bytes=webhook_bytes, refusal_advice=advice
            )
            engine.commands.on_change()
        for known in await engine.ledger.runs.all([run.id]):  # others may have changed them meanwhile
            settings = engine.runs.settings_of[run.id] = known.settings
        await session.recount()
        start_and_stop_texts.say_recovered(self._console, recovered)
        await self._intake.say_reopened(engine.ledger, self._request)
        await tell_outlook(engine.ledger, run, settings, self._request.connection, self._console)
        await engine.host.send(run)
        self._under_way(around, engine.groups.taking, engine.ledger, session, settings)
        self._host.ready(engine)
        while True:
            await session.until_over(self._console.warn)
            await engine.finish()
            if session.is_over:  # else somebody has had its failed jobs queued again meanwhile
                break

    # --- served by another process

    async def _beside(self, held: AsyncExitStack, around: TaskGroup) -> Summary:
        """Takes the run in beside the process that works on the ledger, follows it, and takes its place if it ends."""
        host = self._host
        async with beside(host.path, host.dependencies) as ledger, self._intake.turn(ledger, self._request) as right:
            around.start_soon(right.keep)
            host.wait_for(ledger)
            around.start_soon(host.hurry_when_asked, ledger)
            run, settings = await self._found(ledger)
            followed = await followed_run(ledger, run, self._console)
            await followed.look()  # what is done by now was not done while this process followed
            self._stands_as(followed, around)
            try:
                async with run_share(host, followed) as share, anyio.create_task_group() as joining:
                    if host.is_shared:
                        await share.begin_where_nobody_serves()
                    joining.start_soon(self._join, followed, share, settings, around, joining)
                    takes_over = await self._follow(followed, share, held)
                    summary = await (self._serve(around) if takes_over else self._leave(followed, ledger))
                    joining.cancel_scope.cancel()
            except (StorageError, BaseExceptionGroup) as error:
                if isinstance(leading(error), StorageError | IntakeLostError):
                    self.so_far = self.so_far or await self._cut_short(ledger)
                raise
        return summary

    async def _join(
        self,
        followed: FollowedRun,
        share: RunShare,
        settings: run_settings.RunSettings,
        around: TaskGroup,
        joining: TaskGroup,
    ) -> None:
        """Takes in the input, and has the run served by whoever works."""
        ledger, advice = followed.ledger, self._refusal_advice
        await followed.look()
        await self._intake.take_in(
            ledger, self._request, followed.run, settings, webhook_bytes=share.webhook_bytes, refusal_advice=advice
        )
        if self._host.engine is None:
            acknowledged = await followed.ask()
            await followed.look()
            if share.is_begun:
                await tell_outlook(ledger, followed.run, settings, self._request.connection, self._console)
            else:
                start_and_stop_texts.say_joined(self._console, followed.run.name, acknowledged)
                if self._host.is_shared and acknowledged.by is not None:
                    start_and_stop_texts.say_saved_elsewhere(
                        self._console, followed.run.name, settings, acknowledged.by
                    )
            self._under_way(around, joining, ledger, followed, settings)
            followed.progress.nudge()
            await self._intake.say_reopened(ledger, self._request)
            self._console.ready()

    async def _follow(self, followed: FollowedRun, share: RunShare, held: AsyncExitStack) -> bool:
        """Follows until the run is over, the person leaves, or, and then True, this process has the ledger's lock."""
        ledger = followed.ledger

        def is_left() -> bool:
            if followed.is_told_to_stop:
                self._host.stop.set()
            return self._host.stop.is_set() or bool(self._gave_up) or (self._is_under_way and followed.is_over)

        async with anyio.create_task_group() as following:
            following.start_soon(followed.serve)
            following.start_soon(self._warn_when_stopped, followed)
            if self._host.is_shared:
                takes_over = False
                await share.serve_until(is_left)
            else:
                takes_over = await self._host.take_place(held, ledger, is_left)
            following.cancel_scope.cancel()
        await followed.look()  # whoever has ended may have finished the run
        if is_left() or not takes_over:
            await held.aclose()
            return False
        self._console.info("the process that worked on this ledger has ended: this one goes on in its place")
        return True

    async def _warn_when_stopped(self, followed: FollowedRun) -> None:
        await followed.progress.until(lambda: self._is_under_way)
        await followed.until_over(self._console.warn)

    async def _leave(self, followed: FollowedRun, ledger: Ledger) -> Summary:
        """Ends the following, and the run, where whoever leaves wants that."""
        name, held_by = followed.run.name, followed.holder
        if self._gave_up and held_by:
            await ask_process(ledger, Action.RELEASE, run=followed.run.id)
        is_left_there = not followed.is_told_to_stop  # else whoever works there ends, too
        if self._host.stop.is_set() and self._is_under_way and held_by and not followed.is_over and is_left_there:
            self._goes_on_elsewhere = True
            if await self._console.confirm_stop(name, held_by):
                await ask_process(ledger, Action.RELEASE, run=followed.run.id)
                self._console.info(f"{name} is stopped; what is at the service is collected by {held_by}")
            else:
                start_and_stop_texts.say_left(self._console, self._request, held_by)
        return await self._end(ledger, followed)

    # --- at its beginning

    async def _found(self, ledger: Ledger) -> tuple[Run, run_settings.RunSettings]:
        """The run, made if it is new, and its settings from now on."""
        if self._standing is not None:
            self._is_called((await as_it_is(ledger, self._standing.run)).name)
        is_alone = self._host.engine is not None or (self._host.is_shared and await ledger.holder() is None)
        run, settings = await self._intake.found(ledger, self._request, alone=is_alone)
        self._is_called(run.name)  # the beginning of it may be given
        return run, settings

    def _is_called(self, name: str) -> None:
        """The run's name by now: it may be renamed at any time."""
        self._request = msgspec.structs.replace(self._request, name=name)

    def _stands_as(self, standing: ServedRun, around: TaskGroup) -> None:
        """How the run stands from now on, which is shown."""
        is_shown, self._standing = self._standing is not None, standing
        if not is_shown:
            around.start_soon(self._console.follow, self._snapshot)

    def _refusal_advice(self) -> str:
        assert self._standing is not None
        return start_and_stop_texts.refusal_advice(self._request, self._standing, self._safe_s())

    def _under_way(
        self, around: TaskGroup, tasks: TaskGroup, ledger: Ledger, served: ServedRun, settings: run_settings.RunSettings
    ) -> None:
        """All is taken in, and somebody serves it: its results begin to grow, and it may be given up."""
        if settings.canary.rows:
            tasks.start_soon(tell_after_canary, ledger, served, settings, self._request.connection, self._console)
        if not self._is_under_way:
            self._is_under_way = True
            self._files.grow(tasks, ledger, served.run)
            if settings.give_up_after_us is not None:
                around.start_soon(self._give_up, settings.give_up_after_us)

    async def _give_up(self, after_us: int) -> None:
        """Ends the run once it got nowhere for so long."""
        await until_stalled(lambda: self._standing, after_us)
        assert self._standing is not None
        self._gave_up = why_given_up(self._standing, after_us)
        if self._host.engine is not None:
            self._host.engine.process.stop()

    # --- ending

    async def _end(self, ledger: Ledger, standing: ServedRun) -> Summary:
        """Files and summary; raises `StoppedError` when the run could not go on, or was deleted."""
        standing.run = await as_it_is(ledger, standing.run)
        self._is_called(standing.run.name)
        request = self._request
        try:
            await self._files.write(ledger, standing.run, self._host.stop)
        except StorageError:
            self._say_goodbye(standing)
            raise
        summary = await self._summary(ledger, standing)
        if self._log is not None:
            await self._log.note_failures(ledger, standing.run.id)
        if not summary.interrupted and standing.progress.unfinished:
            raise await start_and_stop_texts.stopped_error(ledger, request, standing, self._gave_up)
        if not summary.interrupted and standing.progress.to_be_saved:
            raise start_and_stop_texts.unsaved_error(request, standing)
        self._say_goodbye(standing)
        return summary

    def _say_goodbye(self, standing: ServedRun) -> None:
        """How things stand, where somebody has interrupted it."""
        if self._is_interrupted() and not self._goes_on_elsewhere:
            is_reading, safe_s = self._intake.is_reading, self._safe_s()
            start_and_stop_texts.say_goodbye(self._console, self._request, standing, safe_s, is_reading=is_reading)

    async def _summary(self, ledger: Ledger, standing: ServedRun) -> Summary:
        summary = await ledger_summary(
            ledger,
            standing,
            wall_s=self._wall_s(),
            interrupted=self._is_interrupted(),
            is_beside=self._host.engine is None,
            goes_on=self._goes_on_elsewhere,
        )
        return self._files.named_in(summary)

    async def _cut_short(self, ledger: Ledger) -> Summary | None:
        """How far the run had come when an error ended it: by the ledger, or, where that cannot be read any more, by
        what was heard of it. None where the run had not begun: also where nothing but rows that never came in is open.
        """
        standing = self._standing
        if standing is None or (self._intake.is_reading and not standing.progress.unfinished):
            return None
        try:
            return await self._summary(ledger, standing)
        except StorageError:
            summary = heard_summary(
                standing, safe_s=self._safe_s(), wall_s=self._wall_s(), interrupted=self._is_interrupted()
            )
            return self._files.named_in(summary)

    def _is_interrupted(self) -> bool:
        assert self._standing is not None
        return self._host.stop.is_set() or self._standing.is_released

    # --- shown

    def _snapshot(self) -> Snapshot:
        assert self._standing is not None
        return snapshot_of(self._standing, rows_read=self._intake.rows_read, wall_s=self._wall_s())

    def _safe_s(self) -> float | None:
        assert self._standing is not None
        return soonest_s(self._standing.report.runs.values(), self._standing.progress.clock.now())

    def _wall_s(self) -> float:
        return (self._now() - self._started_at) / SECOND_US

    def _now(self) -> int:
        return self._host.dependencies.clock.now()
