"""One run in the foreground: taken in, served until it has its outcomes, written to its files, and summed up."""

from collections.abc import Mapping
from functools import partial

import anyio
import msgspec

from orchestrator import declared
from orchestrator.api import files, messages
from orchestrator.api.continuing import continue_command, resume_command
from orchestrator.api.identity import (
    check_given,
    check_reach,
    find_run,
    settings_of,
    with_files,
)
from orchestrator.api.look import safe_offline_s
from orchestrator.api.rescue import misplaced
from orchestrator.api.summary import snapshot_of, summary_of
from orchestrator.core.lifecycle import State
from orchestrator.engine.dependencies import Dependencies
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.observers.view import Silent, View
from orchestrator.engine.runs import RunSession
from orchestrator.engine.upkeep.reopening import reopen
from orchestrator.errors import StoppedError, StorageError, UsageError, leading
from orchestrator.ledger import Ledger
from orchestrator.ledger.margins import Margins
from orchestrator.ledger.runs import Run
from orchestrator.settings import RunRequest
from orchestrator.units import SECOND_US
from orchestrator.views import Snapshot, Summary


async def run(
    request: RunRequest,
    view: View | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> Summary:
    """Runs or resumes a batch until every job has an outcome, or `stop` is set.

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
        self._engine: Engine
        self._session: RunSession | None = None
        self._are_written = False  # the files
        self.so_far: Summary | None = None
        """How far the run had come when an error ended it; None where it had not begun."""

    async def run(self) -> Summary:
        """Everything, in order. What can be refused is refused before anything is opened."""
        request = self._request
        check_given(request)
        files.check_outputs(request.ledger, filter(None, (request.output, request.errors)))
        with self._dependencies.lock(request.ledger, now=self._clock.now()):
            connection = request.connection
            async with open_engine(request.ledger, connection, self._dependencies, self._view) as self._engine:
                try:
                    return await self._with_engine(self._engine)
                except Exception as error:
                    self.so_far = await self._cut_short(self._engine)
                    if (missing := self._engine.ledger.place.missing()) is not None:
                        raise await misplaced(self._engine.ledger, missing) from error
                    raise

    async def _with_engine(self, engine: Engine) -> Summary:
        messages.say_clock(self._view, engine.ledger.was_ahead_us)
        messages.say_unmarked(self._view, engine.ledger.unmarked)
        run = await find_run(engine.ledger, self._request)
        self._keep_to_files(run)
        check_reach(run, self._request)
        engine.use_key_for(run)
        await engine.learn_settings()
        engine.settings_of[run.id] = settings_of(run, self._request)
        await engine.listen()
        async with anyio.create_task_group() as around:
            async with engine.working():
                around.start_soon(self._stop_when_asked)
                session = self._session = await engine.take_on(run)
                around.start_soon(self._view.follow, partial(self._snapshot, session))
                await self._work(engine, session)
            summary = await self._end(engine, session)
            around.cancel_scope.cancel()
        return summary

    async def _stop_when_asked(self) -> None:
        await self._stop.wait()
        self._engine.stop()

    def _keep_to_files(self, run: Run) -> None:
        """A resume writes to where the run's files were written before, unless it is told where."""
        named, self._request = self._request, with_files(run, self._request)
        if self._request is named:
            return
        try:
            files.check_outputs(named.ledger, filter(None, (self._request.output, self._request.errors)))
        except UsageError as error:
            raise UsageError(
                f"{error} (the run's files were written there before; {declared.OUTPUT} names another)"
            ) from error
        self._view.say(f"results go to {self._request.output}, as before")

    # --- working

    async def _work(self, engine: Engine, session: RunSession) -> None:
        """Collects, reads the input, sends, and returns when there is nothing left to do."""
        recovered = await engine.collect()
        await self._take_in(engine, session)
        messages.say_recovered(self._view, recovered)
        await engine.keep_up()
        await session.send()
        await session.until_no_more_is_sent()
        while session.why_stopped is not None:
            self._view.warn(f"{session.why_stopped}: nothing more is sent")
            if not await session.until_collected(adoptable=self._request.connection.listen is not None):
                break
            await session.until_no_more_is_sent()
        await engine.finish()

    async def _take_in(self, engine: Engine, session: RunSession) -> None:
        """Reads the input, if there is one, and makes the settings of the request those of the run."""
        run, source = session.run, self._request.source
        if source is not None:
            batches = files.row_batches(
                source,
                environ=self._dependencies.environ,
                policy=engine.settings_of[run.id].policy,
                webhook_bytes=engine.webhook_bytes,
                body_bytes_max=self._request.body_bytes_max,
            )
            advice = partial(messages.refusal_advice, self._request, engine, session)
            messages.say_taken(self._view, run.name, await session.take_in(source, batches, advice=advice))
        await engine.ledger.runs.configure(run.id, engine.settings_of[run.id])
        if self._request.retry_failed:
            await self._reopen(run, engine.ledger)

    async def _reopen(self, run: Run, ledger: Ledger) -> None:
        """Queues the run's failed and cancelled jobs again, with fresh counters."""
        if (await ledger.runs.wishes(run=run.id)).cancel:
            lift = continue_command(self._request)
            self._view.warn(f"{run.name} is to be cancelled, so nothing of it is reopened; to lift that: {lift}")
            return
        reopened = await reopen(ledger, run.id, before=self._clock.now(), clock=self._clock)
        messages.say_reopened(self._view, failed=reopened[State.FAILED], cancelled=reopened[State.CANCELLED])

    # --- ending

    async def _end(self, engine: Engine, session: RunSession) -> Summary:
        """Files and summary; raises `StoppedError` when the run could not go on."""
        request = self._request
        if request.output is not None and request.errors is not None:
            await files.write_files(engine.ledger, session.run.id, request.output, request.errors)
            self._are_written = True
        summary = await self._summary(engine, session)
        if summary.interrupted:
            messages.say_goodbye(self._view, request, engine, session)
        elif session.progress.unfinished:
            raise StoppedError(f"{session.why_stopped}; mend that, then: {resume_command(request)}")
        return summary

    async def _summary(self, engine: Engine, session: RunSession) -> Summary:
        ledger, run = engine.ledger, session.run
        counts = await ledger.runs.counts(run=run.id)
        margins = await ledger.margins.of(run=run.id)
        retention_us = session.endpoint.retention_us(run.id)
        safe_s = await safe_offline_s(ledger, run, counts, retention_us=retention_us)
        return self._summary_of(engine, session, counts, margins, safe_s)

    def _summary_of(
        self, engine: Engine, session: RunSession, counts: Mapping[str, int], margins: Margins, safe_s: float | None
    ) -> Summary:
        interrupted = self._stop.is_set()
        summary = summary_of(
            counts, margins, engine, session, safe_offline_s=safe_s, wall_s=self._wall_s(), interrupted=interrupted
        )
        if not self._are_written:
            return summary
        return msgspec.structs.replace(summary, output=str(self._request.output), errors=str(self._request.errors))

    async def _cut_short(self, engine: Engine) -> Summary | None:
        """How far the run had come when an error ended it: by the ledger, or, where that cannot be read any more, by
        what was heard of it. None where the run had not begun.
        """
        session = self._session
        if session is None:
            return None
        try:
            return await self._summary(engine, session)
        except StorageError:
            heard = session.progress
            margins = Margins(min=heard.margin_min_s)
            return self._summary_of(engine, session, heard.tallied, margins, engine.endpoints.safe_offline_s())

    def _snapshot(self, session: RunSession) -> Snapshot:
        return snapshot_of(self._engine, session, wall_s=self._wall_s())

    def _wall_s(self) -> float:
        return (self._clock.now() - self._started_at) / SECOND_US
