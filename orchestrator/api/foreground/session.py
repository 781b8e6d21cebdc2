"""One run in the foreground: taken in, served until it has its outcomes, written to its files, and summed up.

It is served here, or, where another process works on the ledger already, by that one: then this process follows, shows
and writes the same, and goes on in its place should it end.
"""

import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from orchestrator.api.flows.flow_files import files_of
from orchestrator.api.foreground.forecast_line import outlook, tell_after_canary
from orchestrator.api.foreground.partial_results import Growing
from orchestrator.api.foreground.run_log import LogBook, log_of, written
from orchestrator.api.foreground.stall_timeout import until_over
from orchestrator.api.foreground.summary import snapshot_of, soonest_s, summary_of, with_failures
from orchestrator.api.hosting.follower import LOOK_S, Followed, as_it_is, check_place
from orchestrator.api.inspect.standstill import tell_standstills
from orchestrator.api.inspect.status import safe_offline_s
from orchestrator.api.outcomes import result_files
from orchestrator.api.outcomes.row_input import drops, reading_of
from orchestrator.api.runs import messages
from orchestrator.api.runs.commands import asked, beside
from orchestrator.api.runs.file_owners import Seen, check_not_appeared, seen
from orchestrator.api.runs.keyword_options import check_brakes
from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.api.runs.next_command import continue_command, resume_command
from orchestrator.api.runs.run_defaults import outputs_of, recall, written_to
from orchestrator.api.runs.run_identity import check_given, check_not_local, check_reach, find_run, settings_of
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.hosting.served_run import ServedRun
from orchestrator.engine.intake.intake import Intake, turn_to_take_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.view import Silent, View
from orchestrator.errors import LedgerBusyError, StoppedError, StorageError, UsageError, leading
from orchestrator.formats.input.readers import Places
from orchestrator.ledger import Ledger, is_ready
from orchestrator.ledger.jobs.margins import Margins
from orchestrator.ledger.runs.commands import Action, Retried
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_flags
from orchestrator.settings.structs import RunRequest, RunSettings
from orchestrator.units import SECOND_US
from orchestrator.user_code import absolute
from orchestrator.views.status import Snapshot, Summary

OPENED_S_MAX = 30.0
"""How long to wait for another process to make the ledger that it works on, or to bring it to this program's schema."""


async def run(
    request: RunRequest,
    view: View | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> Summary:
    """Runs or resumes a batch until every job has an outcome, or `stop` is set.

    Where another process works on the ledger, the jobs are taken in beside it, and it serves the run.

    Raises `UsageError` (nothing was sent), `StoppedError` where going on is pointless and other `OrchestratorError`s;
    everything so far is in the ledger. Whatever ends a run that had begun has an attribute `summary`, which says how
    far it came.
    """
    foreground = Foreground(request, view or Silent(), dependencies or Dependencies(), stop or anyio.Event())
    try:
        return await foreground.run()
    except BaseExceptionGroup as group:
        cause = leading(group)
        if not isinstance(cause, UsageError):
            cause.summary = foreground.so_far  # type: ignore[attr-defined]  # a defect's exception may be anybody's
        raise cause from group


class Foreground:
    """One run in the foreground of this process, which ends with it."""

    def __init__(self, request: RunRequest, view: View, dependencies: Dependencies, stop: anyio.Event) -> None:
        self._request = request
        self._view = view
        self._dependencies = dependencies
        self._clock = dependencies.clock
        self._started_at = dependencies.clock.now()
        self._stop = stop
        self._engine: Engine | None = None
        self._standing: ServedRun | None = None
        self._turn = AsyncExitStack()
        """The turn to take in, from before the run is looked up to the end of its intake."""

        self._intake: Intake | None = None
        self._joined = False
        self._retry: int | None = None
        """The number of the command to queue failed jobs again, where that was asked for."""

        self._log: LogBook | None = None
        self._gave_up = ""
        """Why the run was given up, if it was."""

        self._seen: Seen = {}
        self._is_patient = False
        self._growing: Growing | None = None
        self._is_taken_in = anyio.Event()
        self._is_handed_over = False
        self._is_shown = False
        self._goes_on_elsewhere = False
        self._files: tuple[Path, Path] | None = None
        """Results and errors."""

        self._written: result_files.WrittenFiles | None = None
        self.so_far: Summary | None = None
        """How far the run had come when an error ended it; None where it had not begun."""

    async def run(self) -> Summary:
        """Everything, in order. What can be refused is refused before anything is opened."""
        check_given(self._request)
        await self._recall()
        request = self._request
        self._log = log_of(request, self._view, self._clock, self._dependencies.environ)
        self._view = self._log or self._view
        with written(self._log, f"{request.name} of {request.ledger}", self._why_ended):
            async with anyio.create_task_group() as around:
                around.start_soon(self._stop_when_asked)
                summary = await self._served(around)
                around.cancel_scope.cancel()
        return summary

    def _why_ended(self) -> str:
        return "stopped, as asked" if self._stop.is_set() else "all of its jobs have their outcomes"

    async def _recall(self) -> None:
        """Goes on with what the run was told last, where this request says nothing else."""
        recalled = await recall(self._request, self._dependencies)
        request = self._request = recalled.request
        if request.settings is not None:
            check_brakes(request.settings)
        try:
            result_files.check_outputs(request.ledger, outputs_of(request))
        except UsageError as error:
            if not recalled.has_files:
                raise
            raise UsageError(
                f"{error.message} (the run's files were written there before; {run_flags.OUTPUT} names another)"
            ) from error
        if request.output is not None and request.errors is not None:
            self._files = absolute(request.output), absolute(request.errors)
        self._seen = {} if request.overwrite else seen(map(absolute, outputs_of(request)))
        if recalled.words:
            self._view.say(f"{request.name}: as before: {shlex.join(recalled.words)}")

    async def _stop_when_asked(self) -> None:
        await self._stop.wait()
        if self._engine is not None:
            self._view.say(messages.STOPPING)
            self._engine.stop()
        elif self._standing is not None:
            self._standing.progress.nudge()

    async def _served(self, around: TaskGroup) -> Summary:
        """The run's end, here or beside another process that works on the ledger."""
        until = anyio.current_time() + OPENED_S_MAX
        while True:
            with ExitStack() as held:
                try:
                    held.enter_context(self._lock())
                except LedgerBusyError:
                    if anyio.current_time() > until:
                        raise
                else:
                    return await self._serve(around)
            if is_ready(self._request.ledger):
                return await self._beside(around)
            await anyio.sleep(LOOK_S)

    def _lock(self) -> AbstractContextManager[None]:
        """The ledger's lock, for as long as the block lasts. Raises `LedgerBusyError`."""
        return self._dependencies.lock(self._request.ledger, now=self._clock.now(), doing=f"run {self._request.name}")

    # --- served here

    async def _serve(self, around: TaskGroup) -> Summary:
        """Serves the run. The ledger's lock is held."""
        request = self._request
        async with (
            open_engine(request.ledger, request.connection, self._dependencies, self._view) as engine,
            rescuing(engine.ledger),
            AsyncExitStack() as turn,
        ):
            self._engine = engine
            if not self._joined:
                self._turn = turn
            try:
                return await self._with_engine(engine, around)
            except Exception:
                self.so_far = await self._cut_short(engine.ledger)
                raise

    async def _with_engine(self, engine: Engine, around: TaskGroup) -> Summary:
        messages.say_opened(self._view, engine.ledger)
        run, settings = await self._found(engine.ledger)
        engine.use_key_for(run)
        await engine.runs.learn_settings()
        engine.runs.settings_of[run.id] = settings
        await engine.listen()
        engine.stops_when_asked(self._stop)
        async with engine.working():
            if self._stop.is_set():
                engine.stop()
            session = self._standing = await engine.take_on(run)
            self._show(around)
            recovered = await engine.collect()
            await engine.keep_up()  # others may ask for something while the input is read, however long that takes
            files_of_flows = files_of(engine, self._request.connection, self._dependencies, self._view)
            await engine.carry_out_flows(files_of_flows, Firing.HANDED_OVER)
            if self._joined:
                await self._is_taken_in.wait()
            else:
                await self._take_in(engine.ledger, run, settings, webhook_bytes=engine.listener.url_bytes)
                engine.commands.on_change()
            await session.count_anew()
            messages.say_recovered(self._view, recovered)
            await self._say_reopened(engine.ledger)
            if (told := await outlook(engine.ledger, run, settings, self._request.connection)) is not None:
                self._view.say(f"{run.name}: {told}")
            await engine.workers.raise_for(run)
            await session.send()
            self._begin_patience(around, settings)
            self._begin_growing(engine.taking, engine.ledger, run)
            engine.taking.start_soon(tell_standstills, engine)
            engine.taking.start_soon(tell_after_canary, engine.ledger, session, self._request.connection, self._view)
            self._view.ready()
            while True:
                await session.until_over(self._view.warn)
                await engine.finish()
                if session.is_over:  # else somebody has had its failed jobs queued again meanwhile
                    break
        session = self._standing = engine.runs.sessions[run.id]  # also where it was stopped as it began
        return await self._end(engine.ledger, session)

    # --- served by another process

    async def _beside(self, around: TaskGroup) -> Summary:
        """Takes the run in beside the process that works on the ledger, follows it, and takes its place if it ends."""
        async with beside(self._request.ledger, self._dependencies) as ledger, AsyncExitStack() as self._turn:
            run, settings = await self._found(ledger)
            check_not_local(run, self._request.ledger)
            followed = self._standing = Followed(ledger, run, self._clock, self._view)
            self._joined = True
            await followed.look()  # what is done by now was not done while this process followed
            self._show(around)
            async with anyio.create_task_group() as joining:
                joining.start_soon(self._join, followed, ledger, settings, around, joining)
                try:
                    with ExitStack() as held:
                        takes_over = await self._follow(followed, ledger, held)
                        summary = await (self._serve(around) if takes_over else self._leave(followed, ledger))
                except StorageError:
                    self.so_far = self.so_far or await self._cut_short(ledger)
                    raise
                joining.cancel_scope.cancel()
        return summary

    async def _join(
        self, followed: Followed, ledger: Ledger, settings: RunSettings, around: TaskGroup, joining: TaskGroup
    ) -> None:
        """Takes in the input, and has the run served by whoever works."""
        await followed.look()
        await self._take_in(ledger, followed.run, settings, webhook_bytes=followed.said.webhook_bytes)
        self._is_taken_in.set()
        if self._engine is None:
            acknowledged = await followed.ask()
            await followed.look()
            self._is_handed_over = True
            followed.progress.nudge()
            messages.say_joined(self._view, followed.run.name, acknowledged)
            await self._say_reopened(ledger)
            self._begin_patience(around, settings)
            self._begin_growing(joining, ledger, followed.run)
            self._view.ready()

    async def _follow(self, followed: Followed, ledger: Ledger, held: ExitStack) -> bool:
        """Follows until the run is over, the person leaves, or, and then True, this process has the ledger's lock."""

        def is_left() -> bool:
            if followed.is_told_to_stop:
                self._stop.set()
            return self._stop.is_set() or bool(self._gave_up) or (self._is_handed_over and followed.is_over)

        async with anyio.create_task_group() as following:
            following.start_soon(followed.serve)
            following.start_soon(self._warn_when_stopped, followed)
            while True:
                await followed.progress.until(lambda: is_left() or followed.held_by is None)
                await followed.look()  # whoever has ended may have finished the run
                check_place(ledger)  # that may be why it has ended
                if is_left() or self._takes_over(held):
                    break
                await anyio.sleep(LOOK_S)
            following.cancel_scope.cancel()
        return not is_left()

    async def _warn_when_stopped(self, followed: Followed) -> None:
        await followed.progress.until(lambda: self._is_handed_over)
        await followed.until_over(self._view.warn)

    def _takes_over(self, held: ExitStack) -> bool:
        try:
            held.enter_context(self._lock())
        except LedgerBusyError:  # somebody was faster
            return False
        self._view.say("the process that worked on this ledger has ended: this one goes on in its place")
        return True

    async def _leave(self, followed: Followed, ledger: Ledger) -> Summary:
        """Ends the following, and the run, where whoever leaves wants that."""
        name, held_by = followed.run.name, followed.held_by
        if self._gave_up and held_by:
            await asked(ledger, Action.RELEASE, run=followed.run.id)
        is_left_there = not followed.is_told_to_stop  # else whoever works there ends, too
        if self._stop.is_set() and self._is_handed_over and held_by and not followed.is_over and is_left_there:
            self._goes_on_elsewhere = True
            if await self._view.stops(name, held_by):
                await asked(ledger, Action.RELEASE, run=followed.run.id)
                self._view.say(f"{name} is stopped; what is at the service is collected by {held_by}")
            else:
                messages.say_left(self._view, self._request, held_by)
        return await self._end(ledger, followed)

    # --- at its beginning

    async def _found(self, ledger: Ledger) -> tuple[Run, RunSettings]:
        """The run, made if it is new, and its settings from now on."""
        if self._request.source is not None and not self._joined:
            hold = self._dependencies.holding_intakes(ledger.path)
            turn = turn_to_take_in(ledger, self._request.name, hold=hold, say=self._view.say, stop=self._stop)
            await self._turn.enter_async_context(turn)
        if self._standing is not None:
            self._is_called((await as_it_is(ledger, self._standing.run)).name)
        run = await find_run(ledger, self._request, self._view, alone=self._engine is not None)
        self._is_called(run.name)  # the beginning of it may be given
        check_reach(run, self._request)
        if self._request.retry_failed and (await ledger.runs.wishes(run.id)).cancel:
            raise UsageError(
                f"{run.name} was cancelled, and {run_flags.RETRY_FAILED} reopens nothing of a cancelled run; lift that"
                f" with: {continue_command(self._request)}\nthen give this command again; it reopens what was"
                " cancelled, too"
            )
        return run, settings_of(run, self._request, now=self._clock.now())

    def _is_called(self, name: str) -> None:
        """The run's name by now: it may be renamed at any time."""
        self._request = msgspec.structs.replace(self._request, name=name)

    async def _take_in(self, ledger: Ledger, run: Run, settings: RunSettings, *, webhook_bytes: int) -> None:
        """Reads the input, if there is one, and makes the settings of the request those of the run."""
        source = self._request.source
        if source is not None:
            places = Places()
            environ = self._dependencies.environ
            reading = await reading_of(self._request, ledger, settings, environ, webhook_bytes=webhook_bytes)
            batches = result_files.row_batches(source, reading, places, only=self._request.only_rows)
            self._intake = Intake(ledger, run, source=", ".join(source.splitlines()), place_of=places.of)
            wanted = partial(drops, self._request, run, self._view)
            taken = await self._intake.take(batches, advice=self._refusal_advice, drops=wanted)
            self._intake = None
            messages.say_taken(self._view, run.name, taken)
            await self._turn.aclose()
        await ledger.runs.configure(run.id, settings)
        if self._request.retry_failed:
            self._retry = await ledger.commands.ask(Action.RETRY, run=run.id, argument=Retried())

    async def _say_reopened(self, ledger: Ledger) -> None:
        """What came of queueing the failed jobs again, which whoever works has done by now."""
        number, self._retry = self._retry, None
        if number is not None:
            command, name = await ledger.commands.answer(number), self._request.name
            if command.is_refused:
                self._view.warn(f"{name}: {command.outcome}: {continue_command(self._request)}")
            else:
                self._view.say(f"{name}: {command.outcome or 'what failed is queued again soon'}")

    def _refusal_advice(self) -> str:
        assert self._standing is not None
        return messages.refusal_advice(self._request, self._standing, self._safe_s())

    # --- ending

    async def _end(self, ledger: Ledger, standing: ServedRun) -> Summary:
        """Files and summary; raises `StoppedError` when the run could not go on, or was deleted."""
        standing.run = await as_it_is(ledger, standing.run)
        self._is_called(standing.run.name)
        request = self._request
        if self._files is not None:
            await self._write_files(ledger, standing.run, *self._files)
        summary = await self._summary(ledger, standing)
        if self._log is not None:
            await self._log.note_failures(ledger, standing.run.id)
        if not summary.interrupted and standing.progress.unfinished:
            why = await messages.stopped_advice(ledger, standing, self._gave_up)
            raise StoppedError(f"{why}: {resume_command(request)}")
        if summary.interrupted and not self._goes_on_elsewhere:
            is_reading = self._intake is not None
            messages.say_goodbye(self._view, request, standing, self._safe_s(), is_reading=is_reading)
        return summary

    async def _write_files(self, ledger: Ledger, run: Run, output: Path, errors: Path) -> None:
        include, writing = self._request.include, self._request.writing
        await check_not_appeared(ledger, run, self._seen, output, writing.format)
        growing = self._growing or Growing(ledger, run.id, output, include, self._view.warn)
        try:
            written = await result_files.write_files(ledger, run.id, output, errors, include=include, writing=writing)
        except StorageError:  # what has grown takes as much room
            growing.remove()
            written = await result_files.write_files(ledger, run.id, output, errors, include=include, writing=writing)
        growing.remove()
        self._written = written

    def _begin_growing(self, tasks: TaskGroup, ledger: Ledger, run: Run) -> None:
        if self._growing is None:
            output = None if self._files is None else self._files[0]
            self._growing = Growing(ledger, run.id, output, self._request.include, self._view.warn)
            tasks.start_soon(self._growing.serve)

    def _begin_patience(self, around: TaskGroup, settings: RunSettings) -> None:
        if settings.give_up_after_us is not None and not self._is_patient:
            self._is_patient = True
            around.start_soon(self._give_up, settings.give_up_after_us)

    async def _give_up(self, after_us: int) -> None:
        """Ends the run once it got nowhere for so long."""
        await until_over(lambda: self._standing, after_us, self._clock.now)
        assert self._standing is not None
        held_up = self._standing.held_up or self._standing.of_run.finding
        why = f"; {held_up}" if held_up else ""
        self._gave_up = f"it got nowhere for {format_duration(after_us)} ({run_flags.GIVE_UP_AFTER}){why}"
        if self._engine is not None:
            self._engine.stop()
        else:
            self._standing.progress.nudge()

    async def _summary(self, ledger: Ledger, standing: ServedRun) -> Summary:
        run = standing.run
        counts = await ledger.runs.counts(run=run.id)
        margins = await ledger.margins.of(run=run.id)
        safe_s = await safe_offline_s(ledger, run, counts, retention_us=standing.retention_us)
        summary = self._summary_of(standing, counts, margins, safe_s)
        return await with_failures(ledger, run, summary)

    def _summary_of(
        self, standing: ServedRun, counts: Mapping[str, int], margins: Margins, safe_s: float | None
    ) -> Summary:
        interrupted = self._stop.is_set() or standing.is_released
        summary = summary_of(
            counts, margins, standing, safe_offline_s=safe_s, wall_s=self._wall_s(), interrupted=interrupted
        )
        if self._written is None:
            return summary
        output, errors = str(written_to(self._request)), str(self._request.errors)
        return msgspec.structs.replace(summary, output=output, errors=errors, empty_columns=self._written.empty_columns)

    async def _cut_short(self, ledger: Ledger) -> Summary | None:
        """How far the run had come when an error ended it: by the ledger, or, where that cannot be read any more, by
        what was heard of it. None where the run had not begun: also where nothing but rows that never came in is open.
        """
        standing = self._standing
        if standing is None or (self._intake is not None and not standing.progress.unfinished):
            return None
        try:
            return await self._summary(ledger, standing)
        except StorageError:
            heard = standing.progress
            return self._summary_of(standing, heard.tallied, Margins(min=heard.margin_min_s), self._safe_s())

    # --- shown

    def _show(self, around: TaskGroup) -> None:
        if not self._is_shown:
            self._is_shown = True
            around.start_soon(self._view.follow, self._snapshot)

    def _snapshot(self) -> Snapshot:
        assert self._standing is not None
        rows_read = None if self._intake is None else self._intake.rows_read
        return snapshot_of(self._standing, rows_read=rows_read, now=self._clock.now(), wall_s=self._wall_s())

    def _safe_s(self) -> float | None:
        assert self._standing is not None
        return soonest_s(self._standing.said.runs.values(), self._clock.now())

    def _wall_s(self) -> float:
        return (self._clock.now() - self._started_at) / SECOND_US
