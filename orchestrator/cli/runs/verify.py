"""`orchestrator verify`: whether the ledger and the files that were written from it are sound, and agree."""

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from orchestrator.cli.framework.flags import OnlyRun, flag
from orchestrator.cli.framework.flags_to_requests import verify_request
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.cli.runs.run import SIGNAL_EXIT_CODE_BASE
from orchestrator.core.text.wording import counted
from orchestrator.settings import output_settings, run_request
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from orchestrator.api.outcomes.verify import Verification  # at run time `--help` would pay for it

T = TypeVar("T")

FINDINGS_EXIT_CODE = 1
INCOMPLETE = "incomplete"


_FLAGS: Final = {
    "name": flag(run_request.NAME, "The same as NAME."),
    "output": flag(run_request.OUTPUT, "A results file to compare with the ledger."),
    "errors": flag(run_request.ERRORS, "The errors file beside it. Default: OUTPUT.errors.jsonl."),
}

_Complete = Annotated[
    bool, typer.Option("--complete", metavar="", help="Take it for wrong that the files lack a job of the run.")
]


@at_ledger(
    "One JSON object on standard output at the end.", output_settings.OUTPUT_FORMAT, output_settings.ORDER, **_FLAGS
)
async def verify(run: OnlyRun = None, complete: _Complete = False, *, choices: Choices, as_json: bool) -> int:
    """Check a ledger, and the files that were written from it.

    Each input has one outcome, and nothing was changed since.

    Example: orchestrator verify --output results.jsonl
    """
    from orchestrator.api.outcomes.verify import verify

    request = verify_request(run, choices, complete=complete)
    return show_verification(await until_interrupted(partial(verify, request, show_progress)), as_json=as_json)


async def until_interrupted(audit: Callable[[], Awaitable[T]]) -> T:
    """What `audit` finds. Ctrl-C and SIGTERM end the process at once, whatever it waits for."""
    import anyio

    async with anyio.create_task_group() as group:
        await group.start(_leave_when_interrupted)
        found = await audit()
        group.cancel_scope.cancel()
    return found


async def _leave_when_interrupted(*, task_status: "TaskStatus[None]") -> None:
    """At once: nothing is written that could be cut off, and the database's check of its file cannot be called off."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for signum in signals:
            streams.leave(SIGNAL_EXIT_CODE_BASE + signum)


def show_progress(what: str, done: int, total: int) -> None:
    """Says what is looked at, and how far that is."""
    numbers = f": {done:,} of {total:,}" if total else f": {done:,}" if done else ""
    streams.say(f"looking at {what}{numbers}")


def show_verification(verification: "Verification", *, as_json: bool) -> int:
    """Prints what was found; returns the exit code."""
    if as_json:
        streams.put_json(verification)
    else:
        tables.put_lines(verification_lines(verification))
    return 0 if verification.ok else FINDINGS_EXIT_CODE


def verification_lines(verification: "Verification") -> list[str]:
    """What was found, for people."""
    figures, files = verification.figures, verification.files
    lines = []
    for finding in verification.findings:
        lines.append(f"{finding.kind}: {counted(finding.count, 'problem')}")
        lines += [f"  {example}" for example in finding.examples]
        if finding.count > len(finding.examples):
            lines.append(f"  ... and {finding.count - len(finding.examples):,} more")
        lines.append(f"  what to do: {finding.advice}")
    if files is not None and not any(finding.kind == INCOMPLETE for finding in verification.findings):
        lines += files.lacks
    looked_at = (
        f"{counted(figures.runs, 'run')}, {counted(figures.jobs, 'job')}, {counted(figures.events, 'event')},"
        f" {counted(figures.submissions, 'submission')}, {counted(figures.outcomes, 'outcome')}"
        f" ({figures.checksums:,} with a checksum), {figures.file_bytes / 1e6:,.1f} MB"
    )
    if figures.saved_files:
        looked_at += f"; {counted(figures.saved_files, 'saved file')}"
    if files is not None:
        looked_at += f"; {counted(files.results, 'line')} of results, {files.errors:,} of errors"
    verdict = "ok" if verification.ok else counted(sum(each.count for each in verification.findings), "problem")
    lines.append(f"{verdict}: {verification.ledger}: {looked_at}; {verification.wall_s:,.1f} s")
    return lines
