"""One run in one process, from its request to its summary.

Stopping is nesting. The innermost group takes new work; the one around it holds requests in flight and gets a deadline;
the outermost writes, listens and shows, and ends last.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskGroup

from orchestrator.api import files, messages
from orchestrator.api.identity import (
    check_given,
    check_reach,
    continue_command,
    find_run,
    resume_command,
    settings_of,
    with_files,
)
from orchestrator.api.look import safe_offline_s
from orchestrator.api.rescue import misplaced
from orchestrator.api.signals import IN_FLIGHT_S_MAX, Stop
from orchestrator.api.summary import snapshot_of, summary_of
from orchestrator.client import Service
from orchestrator.client.allowance import within_connections
from orchestrator.client.descriptors import requests_part
from orchestrator.core import job as transitions
from orchestrator.core.job import PAID_TWICE, Job
from orchestrator.core.lifecycle import State
from orchestrator.core.notice import TOKEN_CHARS_MAX, hook_url
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.dependencies import Dependencies, Listening
from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.intake import Intake
from orchestrator.engine.local import LOCAL
from orchestrator.engine.observers.progress import Progress
from orchestrator.engine.observers.view import Silent, View
from orchestrator.engine.parts import Parts, Webhook
from orchestrator.engine.secrets import Secrets
from orchestrator.engine.task_pool import TaskPool
from orchestrator.errors import StoppedError, StorageError, UsageError, leading
from orchestrator.ledger import Ledger, open_ledger, reports, webhook_key
from orchestrator.ledger.control import wishes_of
from orchestrator.ledger.margins import Margins, margins_of
from orchestrator.ledger.reports import Run
from orchestrator.settings import RunRequest, RunSettings
from orchestrator.units import SECOND_US
from orchestrator.views import Snapshot, Summary
from orchestrator.web.addresses import parse_address, path_prefix, webhook_base_url
from orchestrator.web.application import application
from orchestrator.web.webhooks import Webhooks

FINISHED_S_MAX: Final = 1.0
"""How long they may go on when every job of the run has its outcome."""

CANCELS_S_MAX: Final = 30.0
"""How long a run that is over may take to cancel what is one too many; the rest is owed until the next process."""

REOPEN_PAGE: Final = 1_000


async def run(request: RunRequest, view: View | None = None, dependencies: Dependencies | None = None) -> Summary:
    """Runs or resumes a batch until every job has an outcome, or a signal interrupts it.

    Raises `UsageError` (nothing was sent), `StoppedError` where going on is pointless and other `OrchestratorError`s;
    everything so far is in the ledger. Whatever ends a run that had begun has an attribute `summary`, which says how
    far it came.
    """
    batch = Batch(request, view or Silent(), dependencies or Dependencies())
    try:
        return await batch.run()
    except BaseExceptionGroup as group:
        cause = leading(group)
        if not isinstance(cause, UsageError):
            cause.summary = batch.so_far  # type: ignore[attr-defined]  # a defect's exception may be anybody's
        raise cause from group


class Batch:
    """One run in one process."""

    def __init__(self, request: RunRequest, view: View, dependencies: Dependencies) -> None:
        self._request = request
        self._view = view
        self._around = dependencies
        self._clock = dependencies.clock
        self._started_at = dependencies.clock.now()
        self._stop = Stop(view)
        self._open_files = dependencies.open_files()
        self._connections = requests_part(self._open_files, listens=request.connection.listen is not None)
        self._settings_of: dict[int, RunSettings] = {}
        self._intake: Intake | None = None
        self._parts: Parts | None = None
        self._scrub: Callable[[bytes], bytes] = bytes
        self._hooks: Webhooks | None = None
        self._are_written = False  # the files
        self.so_far: Summary | None = None
        """How far the run had come when an error ended it; None where it had not begun."""

    async def run(self) -> Summary:
        """Everything, in order. What can be refused is refused before anything is opened."""
        request = self._request
        check_given(request)
        files.check_outputs(request.ledger, filter(None, (request.output, request.errors)))
        with self._around.lock(request.ledger, now=self._clock.now()):
            async with anyio.create_task_group() as watching:  # to the very end, or a signal would hit the closing
                if self._around.signals:
                    await watching.start(self._stop.watch)
                summary = await self._with_ledger()
                watching.cancel_scope.cancel()
            return summary

    async def _with_ledger(self) -> Summary:
        path = self._request.ledger
        connect = self._around.connect(path) if self._around.connect else None
        async with open_ledger(path, clock=self._clock, connect=connect, boot=self._around.boot) as ledger:
            try:
                async with anyio.create_task_group() as outer:
                    await outer.start(ledger.serve)
                    messages.say_clock(self._view, ledger.was_ahead_us)
                    messages.say_unmarked(self._view, ledger.unmarked)
                    summary = await self._work(ledger, outer)
                    outer.cancel_scope.cancel()
            except Exception as error:
                self.so_far = await self._cut_short(ledger)
                if (missing := ledger.place.missing()) is not None:
                    raise await misplaced(ledger, missing) from error
                raise
            return summary

    async def _work(self, ledger: Ledger, outer: TaskGroup) -> Summary:
        inbox = WebhookInbox(
            ledger=ledger,
            clock=self._clock,
            endpoint_of=self._endpoint_of,
            hint=self._hint,
            paid_twice=self._paid_twice,
            owed=self._owed,
        )
        secrets = Secrets(
            lambda: ledger.secret_names,
            self._around.environ,
            api_key=self._request.connection.api_key,
            warn=self._view.warn,
        )
        self._scrub = secrets.scrub
        listener, webhook = self._bind(inbox)
        await ledger.intake_remove_unfinished()
        run = await find_run(ledger, self._request)
        self._keep_to_files(run)
        check_reach(run, self._request)
        self._settings_of.update({each.id: each.settings for each in await ledger.read(reports.runs_all)})
        self._settings_of[run.id] = settings_of(run, self._request)
        async with self._service(run, outer) as service:
            if listener is not None and self._hooks is not None:
                self._hooks.share(service.down)
                await outer.start(listener.serve)
            return await self._with_service(run, ledger, outer, service, inbox, webhook)

    def _keep_to_files(self, run: Run) -> None:
        """A resume writes to where the run's files were written before, unless it is told where."""
        named, self._request = self._request, with_files(run, self._request)
        if self._request is named:
            return
        try:
            files.check_outputs(named.ledger, filter(None, (self._request.output, self._request.errors)))
        except UsageError as error:
            raise UsageError(f"{error} (the run's files were written there before; --output names another)") from error
        self._view.say(f"results go to {self._request.output}, as before")

    # --- the two ways to the service and back

    def _bind(self, inbox: WebhookInbox) -> tuple[Listening | None, Webhook | None]:
        """The webhook listener, bound at once, so that a port in use is found before anything is sent."""
        connection = self._request.connection
        if connection.listen is None:
            return None, None
        key = webhook_key(self._request.ledger)
        public = None if connection.webhook_url is None else webhook_base_url(connection.webhook_url)
        prefix = path_prefix(public) if public else ""
        self._hooks = Webhooks(key=key, sink=inbox, clock=self._clock, prefix=prefix, scrub=self._scrub)
        listener = self._around.listener(application(self._hooks), parse_address(connection.listen))
        return listener, Webhook(key, public or webhook_base_url(listener.url))

    @asynccontextmanager
    async def _service(self, run: Run, outer: TaskGroup) -> AsyncIterator[Service]:
        """The service that the run is for: over the network, or embedded."""
        connection = self._request.connection
        if run.service_url != LOCAL:
            limits = within_connections(connection.limits, self._connections)
            messages.warn_of_few_files(self._view, self._open_files, connection.limits, limits)
            connection = msgspec.structs.replace(connection, serverless_url=run.service_url, limits=limits)
            service = self._around.service(connection, self._clock)
            try:
                yield service
            finally:
                await service.aclose()
            return
        from orchestrator.api import embedded  # noqa: PLC0415  no other run needs the emulator

        settings = self._settings_of[run.id]
        emulator, deliverer = embedded.embedded(run.endpoint, connection, settings, self._clock)
        await outer.start(emulator.serve)
        try:
            yield embedded.in_process(emulator, connection, self._clock)
        finally:
            await deliverer.aclose()

    def _endpoint_of(self, endpoint_id: int) -> Endpoint | None:
        return None if self._parts is None else self._parts.endpoint_of(endpoint_id)

    def _hint(self, job: Job) -> None:
        if self._parts is not None:
            self._parts.hint(job)

    def _paid_twice(self, run: int, n: int) -> None:
        if self._parts is not None:
            self._parts.progress.tally(run, PAID_TWICE, n)

    def _owed(self) -> None:
        if self._parts is not None:
            self._parts.canceller.wake()

    # --- working

    async def _with_service(
        self, run: Run, ledger: Ledger, outer: TaskGroup, service: Service, inbox: WebhookInbox, webhook: Webhook | None
    ) -> Summary:
        progress = await self._progress(run, ledger)
        async with anyio.create_task_group() as group:
            task_pool = TaskPool(group)
            parts = self._parts = Parts(
                run=run,
                ledger=ledger,
                dependencies=self._around,
                settings_of=self._settings_of,
                inbox=inbox,
                progress=progress,
                webhook=webhook,
                task_pool=task_pool,
                view=self._view,
                scrub=self._scrub,
                requests_per_worker=self._request.connection.requests_per_worker,
                connections=self._connections,
            )
            await parts.add_endpoints(service)
            outer.start_soon(self._view.follow, partial(self._snapshot, parts))
            async with anyio.create_task_group() as taking:
                taking.start_soon(self._cancel_on, self._stop.asked, taking)
                taking.start_soon(self._cancel_on, parts.watch.lost, taking)
                await self._take_work(run, ledger, taking, parts, webhook)
                taking.cancel_scope.cancel()
            task_pool.close()
            group.cancel_scope.deadline = anyio.current_time() + self._patience_s(parts)
        await ledger.flush()
        task_pool.check()
        if (missing := ledger.place.missing()) is not None:
            raise StorageError(f"{missing} is not in its place any more")
        return await self._end(ledger, parts)

    def _patience_s(self, parts: Parts) -> float:
        """How long to wait for requests in flight: once every job has its outcome, no answer matters any more."""
        return IN_FLIGHT_S_MAX if parts.progress.unfinished else FINISHED_S_MAX

    async def _progress(self, run: Run, ledger: Ledger) -> Progress:
        counts = await ledger.read(partial(reports.counts_of, run=run.id))
        margins = await ledger.read(partial(margins_of, run=run.id))
        progress = Progress(run.id, counts, margin_min_s=margins.min, clock=self._clock)
        ledger.subscribe(progress.on_steps)
        return progress

    async def _cancel_on(self, news: anyio.Event, taking: TaskGroup) -> None:
        await news.wait()
        taking.cancel_scope.cancel()

    async def _take_work(
        self, run: Run, ledger: Ledger, taking: TaskGroup, parts: Parts, webhook: Webhook | None
    ) -> None:
        """Collects, reads the input, sends, and returns when there is nothing left to do.

        Collecting begins before the input is read, and with the first page of what an earlier process left: results may
        be about to expire.
        """
        await taking.start(parts.limits.serve)
        for collector in parts.collectors:
            await taking.start(collector.serve)
        recovered = await parts.janitor.recover(parts.adopt)
        await parts.inbox.recover()
        await taking.start(parts.inbox.serve)
        await parts.inbox.catch_up()
        await taking.start(parts.watch.serve)
        await taking.start(parts.pulse.serve)
        await self._take_in(run, ledger, parts, webhook)
        messages.say_recovered(self._view, recovered)
        await taking.start(parts.janitor.serve)
        await taking.start(parts.canceller.serve)
        await taking.start(parts.control.serve)
        await taking.start(parts.dispatcher().serve)
        await self._until_done(parts)
        with anyio.move_on_after(CANCELS_S_MAX):
            await parts.inbox.catch_up()
            await parts.canceller.finish()

    async def _take_in(self, run: Run, ledger: Ledger, parts: Parts, webhook: Webhook | None) -> None:
        """Reads the input, if there is one, and makes the settings of the request those of the run."""
        if self._request.source is not None:
            webhook_bytes = 0 if webhook is None else len(hook_url(webhook.base_url, "0" * TOKEN_CHARS_MAX))
            await self._read(run, ledger, parts, self._request.source, webhook_bytes)
        await ledger.run_configure(run.id, self._settings_of[run.id])
        if self._request.retry_failed:
            await self._reopen(run, ledger)

    async def _read(self, run: Run, ledger: Ledger, parts: Parts, source: str, webhook_bytes: int) -> None:
        self._intake = Intake(ledger, run, source=source)
        batches = files.row_batches(
            source,
            environ=self._around.environ,
            policy=self._settings_of[run.id].policy,
            webhook_bytes=webhook_bytes,
            body_bytes_max=self._request.body_bytes_max,
        )
        taken = await self._intake.take(batches, advice=partial(messages.refusal_advice, self._request, parts))
        self._intake = None
        parts.progress.add(State.QUEUED, taken.new)
        messages.say_taken(self._view, run.name, taken)

    async def _reopen(self, run: Run, ledger: Ledger) -> None:
        """Queues the run's failed and cancelled jobs again, with fresh counters."""
        if (await ledger.read(partial(wishes_of, run=run.id))).cancel:
            lift = continue_command(self._request)
            self._view.warn(f"{run.name} is to be cancelled, so nothing of it is reopened; to lift that: {lift}")
            return
        after, reopened = 0, Counter[State]()
        while page := await ledger.read(partial(reports.jobs_given_up, run=run.id, after=after, most=REOPEN_PAGE)):
            after = page[-1].id
            taken = await ledger.apply([transitions.reopened(job, at=self._clock.now()) for job in page])
            reopened.update(job.state for job in page if job.id in taken)
        messages.say_reopened(self._view, failed=reopened[State.FAILED], cancelled=reopened[State.CANCELLED])

    async def _until_done(self, parts: Parts) -> None:
        """Until every job has an outcome, or going on is pointless and nothing is left to collect."""
        progress, endpoint = parts.progress, parts.endpoint
        endpoint.on_change(progress.nudge)
        await progress.until(lambda: progress.unfinished == 0 or parts.why_stopped is not None)
        if parts.why_stopped is not None:
            self._view.warn(f"{parts.why_stopped}: nothing more is sent")
            adoptable = self._request.connection.listen is not None
            await progress.until(
                lambda: progress.to_collect(adoptable=adoptable) == 0 or endpoint.uncollectable is not None
            )

    # --- ending

    async def _end(self, ledger: Ledger, parts: Parts) -> Summary:
        """Files and summary; raises `StoppedError` when the run could not go on."""
        request = self._request
        if request.output is not None and request.errors is not None:
            await files.write_files(ledger, parts.run.id, request.output, request.errors)
            self._are_written = True
        summary = await self._summary(ledger, parts)
        if summary.interrupted:
            messages.say_goodbye(self._view, request, parts, is_reading=self._intake is not None)
        elif parts.progress.unfinished:
            raise StoppedError(f"{parts.why_stopped}; mend that, then: {resume_command(request)}")
        return summary

    async def _summary(self, ledger: Ledger, parts: Parts) -> Summary:
        counts = await ledger.read(partial(reports.counts_of, run=parts.run.id))
        margins = await ledger.read(partial(margins_of, run=parts.run.id))
        retention_us = parts.endpoint.retention_us(parts.run.id)
        safe_s = await safe_offline_s(ledger, parts.run, counts, retention_us=retention_us)
        return self._summary_of(parts, counts, margins, safe_s)

    def _summary_of(self, parts: Parts, counts: Mapping[str, int], margins: Margins, safe_s: float | None) -> Summary:
        interrupted = self._stop.asked.is_set()
        summary = summary_of(
            counts, margins, parts, safe_offline_s=safe_s, wall_s=self._wall_s(), interrupted=interrupted
        )
        if not self._are_written:
            return summary
        return msgspec.structs.replace(summary, output=str(self._request.output), errors=str(self._request.errors))

    async def _cut_short(self, ledger: Ledger) -> Summary | None:
        """How far the run had come when an error ended it: by the ledger, or, where that cannot be read any more, by
        what was heard of it. None where the run had not begun.
        """
        parts = self._parts
        if parts is None:
            return None
        try:
            return await self._summary(ledger, parts)
        except StorageError:
            heard = parts.progress
            return self._summary_of(parts, heard.tallied, Margins(min=heard.margin_min_s), parts.safe_offline_s())

    def _snapshot(self, parts: Parts) -> Snapshot:
        rows_read = None if self._intake is None else self._intake.rows_read
        return snapshot_of(parts, rows_read=rows_read, wall_s=self._wall_s())

    def _wall_s(self) -> float:
        return (self._clock.now() - self._started_at) / SECOND_US
