"""A run in a program's hands."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from os import PathLike, fspath
from typing import Final, Literal, Unpack, overload

from orchestrator.api.admin.revalidate import RecheckedRun, carried_out, looked, wanted_of
from orchestrator.api.admin.run_export import Exported, exported, note_export, places_of_files
from orchestrator.api.admin.saved_outputs import made_of
from orchestrator.api.foreground.progress_line import ProgressLine
from orchestrator.api.foreground.summary import snapshot_of
from orchestrator.api.outcomes.job_queries import failures_of, where_of
from orchestrator.api.outcomes.outcome_pages import WantedRows, finished_jobs
from orchestrator.api.python.ledger_session import AttachedRun, LedgerSession
from orchestrator.api.python.results import Key, Order, Result, first_key, page_from
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.job_progress import progress_of_jobs, resumable
from orchestrator.api.runs.keyword_options import (
    OF_OUTPUT,
    Duration,
    OutputOptions,
    check_known,
    choices_of,
    grace_of,
    retry_choice,
    saves_of,
    validators_of,
    writing_of,
)
from orchestrator.engine.observers.served_run import as_it_is
from orchestrator.errors import StoppedError
from orchestrator.ledger.commands.command_types import Action, CancelledRun
from orchestrator.units import SECOND_US
from orchestrator.user_code import RaisedPlainly
from orchestrator.views import jobs, status
from orchestrator.views.runs.job_progress import JobProgress

RETRIED_S_MAX: Final = 600.0
"""How long a retry may take to be carried out: some seconds for a hundred thousand jobs."""


class Run:
    """A run of the ledger that an `Orchestrator` serves or follows. Made by `submit` and `run`, not by hand.

    Leaving it, by an exception, a cancellation or the end of the program, leaves the run as it is in the ledger: the
    same `submit`, or `run(name)`, goes on with it.

        run = await orc.submit(inputs, endpoint="abc123", name="captions")
        async for result in run.results():
            print(result.custom_id, result.output)
    """

    def __init__(self, session: LedgerSession, attached: AttachedRun) -> None:
        self._session = session
        self._attached = attached

    def __repr__(self) -> str:
        return f"<Run {self.name!r}: {self.counts['succeeded']:,} of {self.counts['total']:,} succeeded>"

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self._attached.run.name

    @property
    def counts(self) -> Mapping[str, int]:
        """Its jobs at this moment: `total`, and one number for each state, as in `run.counts["succeeded"]`."""
        counts = self._attached.standing.progress.counts
        return {"total": sum(counts.values()), **counts}

    async def wait(self, *, progress: bool = False) -> Mapping[str, int]:
        """Waits until every job has its outcome; returns `counts`. With `progress` a line on standard error shows how
        it goes on meanwhile.

        Raises `StoppedError` where going on is pointless until somebody changes something.
        """
        self._session.check_open()
        with self._progress_line(shown=progress):
            await self._attached.until(lambda: self._attached.is_over)
        with RaisedPlainly():
            self._check_end()
        return self.counts

    async def results(
        self, *, order: Order = "completion", after: str | None = None, progress: bool = False
    ) -> AsyncGenerator[Result, None]:
        """Each job that has ended, and each that does, until all have: as they end, or in the order of the input.

        Failed and cancelled jobs are among them. `after` is the `custom_id` of the last one that need not come again.
        A job that is queued again and ends once more comes once more. `progress` is as with `wait`. Raises as `wait`,
        once all that ended have come.
        """
        with RaisedPlainly():
            async for page in self.pages(order=order, after=after, progress=progress):
                for result in page:
                    yield result

    async def pages(
        self, *, order: Order, after: str | None, progress: bool = False
    ) -> AsyncGenerator[list[Result], None]:
        """The same, as many at a time as are there. Raises `UserCodeError` for what the inputs raise."""
        self._session.check_open()
        key = await first_key(self._session.ledger, self._attached.run, order, after)
        with self._progress_line(shown=progress) as line:
            async for page in self._pages(order, key):
                line.clear()  # whoever gets them may print
                yield page
        self._check_end()

    @contextmanager
    def _progress_line(self, *, shown: bool) -> Iterator[ProgressLine]:
        """One that is drawn inside of the block, if wanted."""
        clock = self._session.dependencies.clock
        began_at = clock.now()

        def look() -> status.Snapshot:
            standing = self._attached.standing
            return snapshot_of(standing, rows_read=None, wall_s=(clock.now() - began_at) / SECOND_US)

        line = ProgressLine(look)
        drawing = self._session.background.start(line.serve) if shown else None
        try:
            yield line
        finally:
            if drawing is not None:
                drawing.cancel()
            line.clear()

    async def _pages(self, order: Order, key: Key) -> AsyncGenerator[list[Result], None]:
        attached = self._attached
        while True:
            self._session.check_open()
            seen, is_over = attached.version, attached.is_over
            page, key, is_latest = await page_from(self._session.ledger, attached.run.id, order, key)
            if page:
                yield page
            elif is_latest and is_over:
                break
            elif is_latest:
                await attached.until(lambda version=seen: attached.version != version or attached.is_over)  # type: ignore[misc]

    def _check_end(self) -> None:
        """Raises where the run did not come to its end."""
        attached = self._attached
        if attached.error is not None:
            raise attached.error
        standing = attached.standing
        if standing.progress.unfinished:
            why = standing.why_stopped or "somebody has asked that no more of it is sent"
            raise StoppedError(f"{self.name}: {why}; mend that, then go on with run({self.name!r})") from None

    async def progress(self, *, limit: int = 100) -> list[JobProgress]:
        """How far its first `limit` jobs without an outcome are, where they are resumable: `custom_id`, `state`,
        `segment`, `share`, `message`, `reported_at`, `checkpoint_at` and `executed_s`. Raises `UsageError` else.

            for job in await run.progress():
                print(job.custom_id, job.share, job.message)
        """
        self._session.check_open()
        return list((await progress_of_jobs(self._session.ledger, resumable(self._attached.run), limit)).jobs)

    # --- what is asked of it

    async def pause(self) -> None:
        """Nothing more of it is sent; what is at the service is collected."""
        await self._session.ask(self._attached, Action.PAUSE)

    async def unpause(self) -> None:
        """Lifts `pause` and `cancel`."""
        await self._session.ask(self._attached, Action.CONTINUE)

    async def cancel(self, *, grace: Duration | None = None) -> None:
        """Cancels its unfinished jobs, here and at the service: with a `grace` each resumable one there once it has a
        newer checkpoint, and after so long at the latest. Raises `UsageError` for a grace where none is resumable.
        """
        grace_us = grace_of(grace)
        if grace_us:
            resumable(self._attached.run)
        await self._session.ask(self._attached, Action.CANCEL, CancelledRun(grace_us))

    async def retry(
        self,
        *,
        where: str = "",
        cluster: str | int | None = None,
        execution_timeout: Duration | None = None,
        ttl: Duration | None = None,
        max_attempts: int | None = None,
        endpoint: str | None = None,
    ) -> str:
        """Queues its failed and cancelled jobs again, or those that a filter means (see the reference), of one
        kind of failures by its number or name in `failures`; returns what came of it, in words.

        These jobs keep what else is said, until they are retried once more; `None` leaves them the run's settings.
        `endpoint` is the id or the name of another endpoint of the same service, to which they go.
        Raises `UsageError` for a filter that is none, and where the run is to be cancelled: `unpause` it.

            await run.retry(where="class=timed_out", execution_timeout="30m")
        """
        ledger, run = self._session.ledger, self._attached.run
        asked_for = retry_choice(
            await where_of(ledger, run, where, None if cluster is None else str(cluster)),
            None if endpoint is None else await self._endpoint_id(endpoint),
            choices_of(execution_timeout=execution_timeout, ttl=ttl, max_attempts=max_attempts),
        )
        done = await self._session.ask(self._attached, Action.RETRY, asked_for, within_s=RETRIED_S_MAX)
        return done.outcome or "it is asked, and nobody has answered yet"

    async def _endpoint_id(self, given: str) -> str:
        """The id of the endpoint that is called so, where the run's account is the one that can be asked."""
        session = self._session
        if self._attached.run.service_url != session.connection.serverless_url.rstrip("/"):
            return given
        return await EndpointNames(connection=session.connection, dependencies=session.dependencies).id_of(given)

    async def recheck(
        self,
        *,
        schema: str | PathLike[str] | None = None,
        check: str | None = None,
        require_output: bool | None = None,
        dry_run: bool = False,
    ) -> RecheckedRun:
        """Judges what it has collected anew, by its validator with these changes, each file as it is now: results that
        are none any more are tried again by policy, or have failed, and failures that are results by now count. Returns
        how many jobs: `looked_at`, `rejected`, `again` (of these), `accepted`; with `dry_run` nothing is changed.

        Raises `UsageError` where the validator cannot be had or cannot say, and where the run's rows were handed on.

            await run.recheck(schema="caption.schema.json")
        """
        self._session.check_open()
        ledger = self._session.ledger
        run = await as_it_is(ledger, self._attached.run)
        changes = validators_of(schema=schema, check=check, require_output=require_output)
        wanted = await wanted_of(ledger, run, changes)
        found = await looked(ledger, run, wanted)
        if dry_run:
            return found
        return carried_out(
            found, await self._session.ask(self._attached, Action.RECHECK, wanted, within_s=RETRIED_S_MAX)
        )

    async def export(
        self,
        path: str | PathLike[str],
        *,
        errors: str | PathLike[str] | None = None,
        format: Literal["jsonl", "csv", "tsv", "parquet", "openai-batch"] | None = None,  # noqa: A002  as the flag
        where: str = "",
        save: Mapping[str, str] | Sequence[str] | None = None,
        **options: Unpack[OutputOptions],
    ) -> Exported:
        """Writes its results to `path` and its errors beside it, as it stands, also while it goes on; what is not said
        is as with `orchestrator runs export`. With `save`, members of its results become files first, as far as they
        are none yet. Returns where they are, and how many `results` and `failures`.

        Raises `UsageError` where they cannot be written so, `MisfitError` where the format cannot hold a value, and
        `StorageError` where a file cannot be written at all.

            await run.export("captions.parquet", flatten=["output.caption"])
            await run.export("images.jsonl", save={"output.image": "out/{custom_id}.png"})
        """
        self._session.check_open()
        check_known(options, OF_OUTPUT, "export")
        writing, include = writing_of(options, format)
        output, beside = places_of_files(fspath(path), None if errors is None else fspath(errors))
        ledger, run = self._session.ledger, self._attached.run
        if rules := saves_of(save):
            await made_of(ledger, await as_it_is(ledger, run), rules, self._session.dependencies)
        found = await exported(ledger, run, output, beside, include=include, where=where, writing=writing)
        await note_export(ledger, run, output, where=where, writing=writing)
        return found

    @overload
    async def failures(self, *, cluster: Literal[True] = True, limit: int = 20) -> list[jobs.ClusterRow]: ...
    @overload
    async def failures(self, *, cluster: Literal[False], limit: int = 20) -> list[Result]: ...
    async def failures(self, *, cluster: bool = True, limit: int = 20) -> list[jobs.ClusterRow] | list[Result]:
        """The largest kinds of its failures, each with its `number`, `cluster`, `count`, `share`, `class_`, `sample`,
        and `try_ids`, some `custom_id`s; or, without `cluster`, the first jobs that have failed, in input order.

            for kind in await run.failures(cluster=True):
                print(kind.count, kind.sample)
        """
        self._session.check_open()
        ledger, run = self._session.ledger, self._attached.run
        if cluster:
            return list((await failures_of(ledger, run, limit)).clusters)
        failed: list[Result] = []
        async with aclosing(finished_jobs(ledger, run.id, WantedRows.ERRORS, inputs=True)) as jobs:
            async for job in jobs:
                failed.append(Result.of(job))
                if len(failed) >= limit:
                    break
        return failed
