"""`orchestrator progress`: how far resumable jobs are."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.cli.runs.run import SIGNAL_EXIT_CODE_BASE
from orchestrator.core.text.figures import lasting
from orchestrator.core.text.wording import shortened
from orchestrator.settings import connection_settings
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.views.runs.job_progress import JobProgress, RunProgress

LIMIT: Final = 100
MESSAGE_WIDTH: Final = 40

Limit = Annotated[
    int, typer.Option(str(connection_settings.LIMIT), "-n", metavar="N", min=1, help="Show at most so many jobs.")
]
Follow = Annotated[
    bool,
    typer.Option("--follow", metavar="", help="Show what changes, until each job has its outcome; Ctrl-C ends it."),
]


@at_ledger("A JSON array, or with `--follow` a line for each job whenever it has changed.")
async def progress(
    name: flags.OnlyRun = None, follow: Follow = False, limit: Limit = LIMIT, *, ledger: LedgerAddress, as_json: bool
) -> int:
    """Show how far the resumable jobs of a run are.

    That is: what their workers reported last, and their checkpoints.

    Example: orchestrator progress prompts
    """
    from orchestrator.api.runs.job_progress import follow_progress, progress
    from orchestrator.cli.framework.signals import stop_on_signals
    from orchestrator.cli.output.consoles import console_for_stderr

    if not follow:
        show_jobs_progress(await progress(ledger, name, limit), as_json=as_json)
        return 0
    console = console_for_stderr(quiet=True)
    async with stop_on_signals(console) as stop:
        await follow_progress(ledger, name, limit, partial(show_jobs_changed, as_json=as_json), stop=stop)
    return 0 if console.signal is None else SIGNAL_EXIT_CODE_BASE + console.signal


def show_jobs_progress(found: "RunProgress", *, as_json: bool) -> None:
    """Prints how far the jobs are."""
    if as_json:
        streams.put_json(found.jobs)
    else:
        _put(found)


def show_jobs_changed(found: "RunProgress", *, as_json: bool) -> None:
    """The same of those that have changed, each of which is a line of JSON."""
    if not as_json:
        _put(found)
        return
    for job in found.jobs:
        streams.put_json(job)


_HEADINGS: Final = ("job", "state", "segment", "done", "message", "reported", "checkpoint", "executed")


def _put(found: "RunProgress") -> None:
    if not found.jobs:
        streams.say(f"each job of {found.run} has its outcome")
        return
    tables.put_parts(tables.columns(_HEADINGS, (_cells(job, found.at) for job in found.jobs)))
    if not found.is_whole:
        streams.say(f"there are more jobs without an outcome; {connection_settings.LIMIT} N shows more")


def _cells(job: "JobProgress", now: int) -> tuple[object, ...]:
    return (
        job.custom_id,
        job.state,
        job.segment or "",
        "" if job.share is None else f"{100 * job.share:.0f} %",
        "" if job.message is None else shortened(job.message, MESSAGE_WIDTH),
        _ago(job.reported_at, now),
        _ago(job.checkpoint_at, now),
        lasting(job.executed_s) if job.executed_s else "",
    )


def _ago(at: int | None, now: int) -> str:
    return "" if at is None else f"{lasting(max(0, now - at) / SECOND_US)} ago"
