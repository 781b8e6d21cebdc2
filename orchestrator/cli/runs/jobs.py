"""`orchestrator jobs` and `orchestrator failures`: single jobs of a run, and the kinds of its failures."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, starmap
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.command_groups import ListedGroup
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams, tables
from orchestrator.cli.output.status_texts import kind_line
from orchestrator.cli.runs.control import show_control
from orchestrator.cli.runs.retry import failed_with, retry, sample_lines
from orchestrator.core.jobs.job_story import TimelineStep
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.text.figures import lasting, second
from orchestrator.core.text.wording import ELLIPSIS, counted, shortened
from orchestrator.errors import UsageError
from orchestrator.settings import connection_settings
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import MILLISECOND_US, SECOND_US
from orchestrator.views.jobs import ClusterRow, FoundJobs, JobRow, WholeJob

if TYPE_CHECKING:
    from rich.console import RenderableType  # at run time `--help` would pay for it
    from rich.table import Table

LIMIT: Final = 100
CLUSTERS: Final = 20
REASON_WIDTH: Final = 120
REMOTE_ID_WIDTH: Final = 8
BLOB_WIDTH: Final = 1_000
"""So many characters of an input or output, and an error, are shown without `--raw`."""

Limit = Annotated[
    int, typer.Option(str(connection_settings.LIMIT), "-n", metavar="N", min=1, help="Show at most so many.")
]
RunAndJob = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME] ID",
        autocompletion=options.run_names,
        help="The run, or the beginning of its name (default: the only one), and the job's custom_id.",
    ),
]
Raw = Annotated[bool, typer.Option("--raw", metavar="", help="Input, output and error whole, as they were stored.")]


commands = typer.Typer(
    cls=ListedGroup, rich_markup_mode="rich", help="The jobs of a run. Without a verb they are listed."
)


@commands.command("list")
@at_ledger("One JSON array on standard output.")
async def jobs_list(
    name: options.OnlyRun = None,
    where: options.Where = "",
    limit: Limit = LIMIT,
    *,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """List the jobs of a run that a filter means, in the order in which they were taken in.

    Example: orchestrator jobs prompts --where state=failed
    """
    from orchestrator.api.outcomes.job_queries import jobs_list

    found = await jobs_list(ledger, name, where, limit)
    if as_json:
        streams.put_json(found.jobs)
    elif found.jobs:
        tables.put_parts(_table(found.jobs))
    else:
        streams.say(f"{found.run} has no such jobs" if where else f"{found.run} has no jobs")
    for line in _remarks(found):
        streams.say(line)


@commands.command("show")
@at_ledger("One JSON object on standard output.")
async def job_show(job: RunAndJob, raw: Raw = False, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show one job: how it stands, all that happened to it and when, its input and its output.

    Example: orchestrator jobs show prompts night-17
    """
    from orchestrator.api.outcomes.job_detail import job_show

    *names, custom_id = job
    if len(names) > 1:
        raise UsageError(f"a run and a job are shown by two words, and these are {len(job)}")
    found = await job_show(ledger, names[0] if names else None, custom_id)
    if as_json:
        streams.put_json(found)
        return
    tables.put_parts(tables.lines(_facts(found, raw)), "", *_timeline(found.timeline, raw), *_failed(found, raw))


commands.command(hidden=True)(retry)


@commands.command("cancel")
@at_ledger("One JSON object on standard output.")
async def cancel_jobs(
    name: options.RunName, where: options.Where = "", yes: Yes = False, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Cancel the unfinished jobs of a run that a filter means, here and at the service; the run goes on.

    Example: orchestrator jobs cancel prompts --where 'line>500'
    """
    from orchestrator.api.outcomes.job_queries import cancel_preview
    from orchestrator.api.runs.process_commands import cancel_jobs

    if not where.strip():
        raise UsageError(f"which jobs? Name them by --where; the whole run is cancelled by: orchestrator cancel {name}")
    preview = await cancel_preview(ledger, name, where)
    if not preview.count:
        raise UsageError(f"{preview.run} has no unfinished jobs like that; nothing was done")
    for line in sample_lines(preview):
        streams.say(line)
    confirm(f"cancel {counted(preview.count, 'job')} of {preview.run}?", yes=yes)
    found = await cancel_jobs(ledger, preview.run, preview.where)
    show_control(found, "to go on without these jobs", as_json=as_json)


@at_ledger("One JSON array on standard output.")
async def failures(
    name: options.OnlyRun = None, limit: Limit = CLUSTERS, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Show a run's failures by their kinds, and which to try again.

    Of each kind: how many, since when, what they say, and jobs to try.

    Example: orchestrator failures prompts
    """
    from orchestrator.api.outcomes.job_queries import failures

    found = await failures(ledger, name, limit)
    if as_json:
        streams.put_json(found.clusters)
        return
    failed = [cluster for cluster in found.clusters if cluster.count]
    if not failed:
        again = counted(found.retried_executions, "execution")
        besides = f": {again} failed, and such jobs are tried again" if found.retried_executions else ""
        streams.say(f"{found.run} has no failures{besides}")
    else:
        streams.say(f"{found.run}: {counted(found.jobs, 'job')} without a result, in {counted(found.kinds, 'kind')}")
        for cluster in failed:
            tables.put_lines(list(_cluster_lines(cluster)))
        if more := found.kinds - len(failed):
            are = "is" if more == 1 else "are"
            streams.say(f"{counted(more, 'more kind')} {are} not shown; {connection_settings.LIMIT} N shows more")
    tables.put_lines(list(_retried_lines(found.clusters)))


def _table(jobs: Sequence[JobRow]) -> "Table":
    """A line for each job."""
    figures = (
        tables.Figures("line", [f"{job.line:,}" for job in jobs], can_go=1),
        tables.Figures("state", [job.state for job in jobs], is_right=False),
        tables.Figures("attempts", [f"{job.attempts:,}" for job in jobs], can_go=2),
        tables.Figures("ended (UTC)", [_clock(job.ended_at) for job in jobs], is_right=False, can_go=3),
    )
    errors = tables.Figures("error", [failed_with(job.class_, job.error or "") for job in jobs])
    return tables.of_names("id", [job.custom_id for job in jobs], figures, remarks=errors)


def _remarks(found: FoundJobs) -> Iterator[str]:
    at_least = "" if found.is_exact else "at least "
    read = f"; read for that: {counted(found.inputs_read, 'input')}" if found.inputs_read else ""
    if len(found.jobs) < found.count or not found.is_exact:
        yield f"{len(found.jobs):,} of {at_least}{found.count:,} jobs{read}"
    elif read:
        yield f"{counted(found.count, 'job')}{read}"


def _retried_lines(clusters: Sequence[ClusterRow]) -> Iterator[str]:
    """The kinds of executions that failed and were tried again."""
    retried = [(each.cluster, each.retried) for each in clusters if each.retried]
    if retried:
        yield "executions that failed and were tried again, or will be:"
    for cluster, kind in sorted(retried, key=lambda each: -each[1].count):
        yield f"   {kind.count:,} {kind.class_}: {kind_line(kind)}, retried={cluster}"


def _cluster_lines(cluster: ClusterRow) -> Iterator[str]:
    share = f"{100 * cluster.share:.1f} %"
    yield f"{cluster.number}. {cluster.count:,} ({share}) {cluster.class_}: {shortened(cluster.sample, BLOB_WIDTH)}"
    yield f"   from {_clock(cluster.first_at)} to {_clock(cluster.last_at)} UTC, cluster={cluster.cluster}"
    yield f"   to try: {', '.join(cluster.try_ids)}"


def _facts(found: WholeJob, raw: bool) -> Iterator[tuple[str, str]]:
    job = found.job
    yield "job", f"{job.custom_id}, line {job.line:,} of {found.run}"
    yield "state", job.state if job.class_ in {None, job.state} else f"{job.state}, {job.class_}"
    is_reopened = any(step.event == Event.REOPENED for step in found.timeline)
    since = " since it was queued again" if is_reopened else ""
    yield "attempts", f"{job.attempts}{since}; {found.paid_at_most} {'in all ' if since else ''}may have been paid"
    if found.max_attempts is not None:
        yield "at most", f"{counted(found.max_attempts, 'attempt')}, since it was tried again so"
    if found.priority:
        yield "priority", f"{found.priority} within its run"
    batches = [each.batch for each in found.submissions[-1:] if each.batch is not None]
    yield "endpoint", ", in ".join([found.endpoint, *batches])
    if found.policy is not None:
        yield "policy", bytes(found.policy).decode()
    if found.remote_id is not None:
        yield "there", f"{found.remote_id}{f', {found.status}' if found.status else ''}"
    if found.delay_ms is not None or found.execution_ms is not None:
        yield "took", f"{_took(found.delay_ms)} in the queue, {_took(found.execution_ms)} to execute"
    if found.error:
        yield "error", found.error if raw else shortened(job.error or "", BLOB_WIDTH)
    if job.cluster is not None:
        yield "cluster", job.cluster
    if found.metadata is not None:
        yield "metadata", _blob(found.metadata, raw)
    yield "input", _blob(found.input, raw)
    if found.output is not None:
        yield "output", _blob(found.output, raw)


def _timeline(timeline: Sequence[TimelineStep], raw: bool) -> Iterator["RenderableType"]:
    """The events, day by day. What the service calls the submission stands where it is another one than before; the
    beginning tells them apart.
    """
    steps = list(zip(timeline, (None, *timeline), strict=False))
    for day, of_day in groupby(steps, key=lambda pair: _clock(pair[0].at).split()[0]):
        yield tables.columns(
            (f"{day} UTC", "after", "event", "attempt", "reason", "there"), starmap(partial(_step, raw), of_day)
        )


def _failed(found: WholeJob, raw: bool) -> Iterator["RenderableType"]:
    """What its executions said that failed and were tried again."""
    if found.failed_executions:
        rows = (
            (
                _clock(each.at),
                each.attempt,
                "" if each.execution_ms is None else _took(each.execution_ms),
                f"{each.class_}: {each.error if raw else shortened(each.error, BLOB_WIDTH)}",
            )
            for each in found.failed_executions
        )
        yield from ("", tables.columns(("failed (UTC)", "attempt", "took", "error"), rows))


def _step(raw: bool, step: TimelineStep, before: TimelineStep | None) -> tuple[object, ...]:
    reason = step.reason if step.class_ is None or step.class_ in step.reason else f"{step.class_}: {step.reason}"
    is_new = step.remote_id and (before is None or step.remote_id != before.remote_id)
    return (
        _clock(step.at).split()[1],
        lasting(step.after_us / SECOND_US) if step.after_us else "",
        step.event,
        step.attempt,
        shortened(reason if step.settings is None else f"{reason}, with {step.settings}", REASON_WIDTH),
        _beginning(step.remote_id or "", raw) if is_new else "",
    )


def _beginning(remote_id: str, raw: bool) -> str:
    return remote_id if raw or len(remote_id) <= REMOTE_ID_WIDTH else remote_id[:REMOTE_ID_WIDTH] + ELLIPSIS


def _took(ms: int | None) -> str:
    return "an unknown time" if ms is None else lasting(ms * MILLISECOND_US / SECOND_US)


def _blob(blob: msgspec.Raw | str | None, raw: bool) -> str:
    if blob is None:
        return "it cannot be read any more"
    text = blob if isinstance(blob, str) else bytes(blob).decode(errors="replace")
    return text if raw else shortened(text, BLOB_WIDTH)


def _clock(at: int | None) -> str:
    return "" if at is None else second(at)
