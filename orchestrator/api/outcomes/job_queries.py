"""The jobs of a run that a filter means, the kinds of its failures, and one job as a whole."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from orchestrator.api.outcomes.retried_failures import retried_kinds
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.diagnosis.failed_executions import RetriedKind
from orchestrator.core.filters.filter import And, Filter
from orchestrator.core.filters.filter_parser import FilterError, cluster_key, cluster_name, parse
from orchestrator.core.jobs.run_counters import RETRIED_EXECUTIONS
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import counted
from orchestrator.engine.commands.cancel_jobs import IS_UNFINISHED
from orchestrator.engine.commands.retry_jobs import GIVEN_UP
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.reports.failed_executions import RetriedKindRow
from orchestrator.ledger.reports.job_queries import Cluster, JobName
from orchestrator.ledger.reports.selected_jobs import SelectedJob
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.views.jobs import ClusterRow, Failures, FoundJobs, JobRow

PAGE: Final = 1_000
SCAN_MAX: Final = 1_000_000
"""After so many inputs that were read a list stops, and says so."""

TRIES: Final = 3
"""So many jobs of a cluster are named, to be looked at or tried first."""

RANK_MAX: Final = 1_000
"""The kinds of failures that have a number; there are rarely more than a few dozen."""


class JobsPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that a command would change."""

    run: str
    where: str
    """The filter of the jobs, with the cluster that was named."""

    count: int
    is_exact: bool = True
    """Else there are at least so many."""

    execution_s: float | None
    """What the executions of these took last, all in all, by the first ones; None where the service did not say."""

    is_paid: bool
    """Whether a service executes them, rather than a command or a function on this machine."""

    sample: tuple[JobRow, ...]


async def jobs_list(ledger: LedgerAddress, name: str | None, where: str, limit: int) -> FoundJobs:
    """Up to `limit` jobs of the run `name` that `where` means, in the order in which they were taken in.

    Raises `UsageError` where there is no such run, or `where` is no filter.
    """
    async with read_ledger(ledger) as opened:
        run = await run_named(opened, name)
        chosen = filter_of(where, now=opened.now())
        jobs: list[JobRow] = []
        after, read, is_last = 0, 0, False
        while not is_last and read < SCAN_MAX and len(jobs) < limit:
            page = await opened.reports.job_queries.page(run.id, chosen, after=after, most=min(PAGE, limit - len(jobs)))
            jobs += [job.row for job in page.jobs]
            after, is_last, read = page.after, page.is_last, read + page.inputs_read
        count, is_exact = len(jobs), is_last
        if len(jobs) == limit and not is_last:
            whole = await opened.reports.job_queries.count(run.id, chosen)
            count, is_exact = max(count, whole.n), whole.is_exact
            read = max(read, whole.looked_at)
        return FoundJobs(run=run.name, jobs=jobs, count=count, is_exact=is_exact, inputs_read=read)


def filter_of(where: str, *, now: int) -> Filter:
    """The filter that `where` is. Raises `UsageError`."""
    try:
        return parse(where, now=now)
    except FilterError as error:
        raise UsageError(f"the filter cannot be understood: {error}") from None


async def failures(ledger: LedgerAddress, name: str | None, limit: int) -> Failures:
    """The `limit` largest kinds of failures of the run `name`. Raises `UsageError` where there is no such run."""
    async with read_ledger(ledger) as opened:
        return await failures_of(opened, await run_named(opened, name), limit)


async def failures_of(ledger: Ledger, run: Run, limit: int, *, is_counted: bool = True) -> Failures:
    """The `limit` largest kinds of failures of `run`; see `retried_kinds`."""
    kinds, total = await ledger.reports.job_queries.clustered(run.id)
    largest = await ledger.reports.job_queries.clusters(run.id, most=limit)
    keys = [each.error_key for each in largest]
    first = await ledger.reports.job_queries.first_of_kinds(run.id, keys, most=TRIES)
    rows = [_cluster(number, each, total, first.get(each.error_key, ())) for number, each in enumerate(largest, 1)]
    rows += _retried(rows, limit, await retried_kinds(ledger, run, is_counted=is_counted))
    counts = await ledger.runs.counts(run=run.id)
    return Failures(
        run=run.name, jobs=total, kinds=kinds, clusters=rows, retried_executions=counts.get(RETRIED_EXECUTIONS, 0)
    )


def _cluster(number: int, cluster: Cluster, total: int, first: Sequence[JobName]) -> ClusterRow:
    return ClusterRow(
        number=number,
        cluster=cluster_name(cluster.error_key),
        count=cluster.n,
        share=cluster.n / total,
        class_=cluster.trouble,
        sample=summary_of(cluster.message or ""),
        first_at=cluster.first_at,
        last_at=cluster.last_at,
        try_ids=tuple(job.custom_id for job in first),
        try_jobs=tuple(job.job for job in first),
    )


def _retried(
    rows: list[ClusterRow], limit: int, found: Sequence[tuple[RetriedKindRow, RetriedKind]]
) -> list[ClusterRow]:
    """The kinds of executions that were tried again: those that are in `rows` stand there from now on, and the others
    are returned, of which no job has failed.
    """
    named = {cluster_name(kind.error_key): view for kind, view in found}
    rows[:] = [replace(row, retried=named.get(row.cluster)) for row in rows]
    others = [(kind, view) for kind, view in found if not kind.failed_jobs][: max(0, limit - len(rows))]
    return [
        ClusterRow(
            number=number,
            cluster=cluster_name(kind.error_key),
            count=0,
            share=0.0,
            class_=kind.trouble,
            sample=kind.sample,
            first_at=kind.first_at,
            last_at=kind.last_at,
            try_ids=(),
            retried=view,
        )
        for number, (kind, view) in enumerate(others, len(rows) + 1)
    ]


async def retry_preview(ledger: LedgerAddress, name: str | None, where: str, cluster: str | None) -> JobsPreview:
    """What of the run `name` a retry would queue again: the failed and cancelled jobs that `where` means, of the kind
    that is called `cluster`, or has that number in the list of kinds.

    Raises `UsageError`.
    """
    async with read_ledger(ledger) as opened:
        run = await run_named(opened, name)
        where = await where_of(opened, run, where, cluster)
        return await jobs_preview(opened, run, where, of=GIVEN_UP)


async def cancel_preview(ledger: LedgerAddress, name: str | None, where: str) -> JobsPreview:
    """The unfinished jobs of the run `name` that `where` means. Raises `UsageError`."""
    async with read_ledger(ledger) as opened:
        return await jobs_preview(opened, await run_named(opened, name), where, of=IS_UNFINISHED)


async def jobs_preview(
    ledger: Ledger, run: Run, where: str, *, of: Filter, inputs_max: int | None = None
) -> JobsPreview:
    """Of the jobs that are `of` some kind, those that `where` means; the count is exact, unless more than `inputs_max`
    inputs would have to be read.
    """
    chosen = And((of, filter_of(where, now=ledger.now())))
    whole = await ledger.reports.job_queries.count(run.id, chosen, inputs_max=inputs_max)
    first = await _first(ledger, run, chosen)
    took_ms = [job.execution_ms for job in first if job.execution_ms is not None]
    return JobsPreview(
        run=run.name,
        where=where,
        count=whole.n,
        is_exact=whole.is_exact,
        execution_s=whole.n * sum(took_ms) / len(took_ms) / 1_000 if took_ms else None,
        is_paid=run.service_url != LOCAL,
        sample=tuple(job.row for job in first[:TRIES]),
    )


async def where_of(ledger: Ledger, run: Run, where: str, cluster: str | None) -> str:
    """A filter for what `where` means of the kind of failures `cluster`: see `retry_preview`. Raises `UsageError`."""
    filter_of(where, now=ledger.now())
    if cluster is None:
        return where
    of_kind = f"cluster={cluster_name(await _key(ledger, run, cluster))}"
    return f"{of_kind} ({where})" if where.strip() else of_kind


async def _first(ledger: Ledger, run: Run, chosen: Filter) -> list[SelectedJob]:
    """The first jobs of `run` that are `chosen`: those of the first page that has any."""
    page = await ledger.reports.job_queries.page(run.id, chosen, most=PAGE)
    while not page.jobs and not page.is_last:
        page = await ledger.reports.job_queries.page(run.id, chosen, after=page.after, most=PAGE)
    return list(page.jobs)


async def _key(ledger: Ledger, run: Run, cluster: str) -> int:
    if cluster.isascii() and cluster.isdigit() and 1 <= int(cluster) <= RANK_MAX:
        listed = await ledger.reports.job_queries.clusters(run.id, most=int(cluster))
        if len(listed) < int(cluster):
            raise UsageError(f"{run.name} has {counted(len(listed), 'kind')} of failures, and no number {cluster}")
        return listed[-1].error_key
    try:
        return cluster_key(cluster)
    except ValueError as error:
        raise UsageError(str(error)) from None
