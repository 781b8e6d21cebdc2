"""What the program says while it starts and stops: what was taken in, what a killed process left, how to go on after
Ctrl-C.
"""

from orchestrator.api.runs.next_command import pause_command, resume_command
from orchestrator.api.runs.process_commands import Acknowledged
from orchestrator.core.text.durations import format_duration
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.core.text.wording import collect_again, counted
from orchestrator.engine.maintenance.janitor import Recovered
from orchestrator.engine.observers.served_run import ServedRun
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import StoppedError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.intake_writes import IntakeResult
from orchestrator.ledger.transactions.patience import Trouble
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.command_names import command
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX, LOCAL
from orchestrator.units import SECOND_US
from orchestrator.views.json_values import iso_8601

STOPPING = (
    f"stopping: requests in flight have up to {IN_FLIGHT_S_MAX:.0f} s to end; "
    "a second Ctrl-C leaves at once: no result is lost, but what is in flight may be paid for twice"
)


def say_taken(console: Console, name: str, taken: IntakeResult) -> None:
    """What reading the input came to."""
    known = taken.rows - taken.new
    more = f" ({known:,} known already)" if known else ""
    console.info(f"{name}: {counted(taken.rows, 'row')} checked{more}")
    say_changed(console, name, taken)
    if left := taken.gone - taken.dropped.removed:
        drop = f"; {taken.unsuccessful:,} of them have not succeeded: {run_request.REPLACE_INPUT} drops those"
        console.info(
            f"{name}: {counted(left, 'job')} of the run no longer in the input: kept in the run"
            f"{drop if taken.unsuccessful else ''}"
        )


def say_changed(console: Console, name: str, taken: IntakeResult) -> None:
    """What an intake has changed of jobs that were there before."""
    _say_corrected(console, name, taken)
    if taken.dropped.removed or taken.dropped.cancelled:
        stay = f"; {taken.dropped.cancelled:,} more are cancelled at the service" if taken.dropped.cancelled else ""
        console.info(f"{name}: {counted(taken.dropped.removed, 'job')} no longer in the input: dropped{stay}")


def _say_corrected(console: Console, name: str, taken: IntakeResult) -> None:
    """Rows have other inputs than the jobs that they were."""
    if done := taken.corrected.done:
        console.info(
            f"{name}: {counted(done, 'row')} with another input than before: tried anew with it, under the same ids"
        )
    if late := taken.corrected.late:
        console.warn(
            f"{name}: {counted(late, 'job')} had left with another input than the file has by now: give the command"
            " again once they have ended"
        )


def say_opened(console: Console, ledger: Ledger) -> None:
    """What is not as usual with a ledger that this process begins to work on."""
    _say_clock(console, ledger.was_ahead_us)
    _say_unmarked(console, ledger.unmarked)


def _say_clock(console: Console, ahead_us: int) -> None:
    """An earlier process has left times that lie in the future."""
    if ahead_us:
        ahead = format_duration(max(ahead_us // SECOND_US, 1) * SECOND_US)
        console.warn(
            f"the clock of a process that worked here before was at least {ahead} ahead of this one's: waits are cut"
            " short, and all that it had at the service is asked for at once"
        )


def _say_unmarked(console: Console, why: str | None) -> None:
    """The next process will not know what has left."""
    if why is not None:
        console.warn(f"{why}: after a crash all that was claimed counts as uncertain, and may be paid for twice")


def say_when_away(console: Console, ledger: Ledger) -> None:
    """From now on: that the ledger cannot be used and since when, and that it can be used again."""
    began = 0

    def say(trouble: Trouble | None) -> None:
        nonlocal began
        if trouble is None:
            lasted = format_duration(max((ledger.now() - began) // SECOND_US, 1) * SECOND_US)
            console.info(f"the ledger can be used again, after {lasted}: the work goes on")
        else:
            began = trouble.since
            console.warn(f"{trouble.error.while_waiting}. Since {iso_8601(began)} nothing is sent; it is tried again")

    ledger.patience.subscribe(say)


def say_recovered(console: Console, recovered: Recovered) -> None:
    """What an earlier process left, and what going on will cost."""
    if recovered.outstanding:
        console.info(f"{counted(recovered.outstanding, 'job')} still at the service: collecting first")
    if recovered.to_repay:
        reasons = (
            (
                recovered.repay_uncertain,
                f"of which nobody knows whether the service took them ({run_settings.ON_UNCERTAIN})",
            ),
            (recovered.repay_expired, f"whose results have expired ({run_settings.ON_EXPIRED})"),
            (
                recovered.repay_timed_out,
                f"whose TTL at the service is over ({job_policy.TTL}, {run_settings.MAX_ATTEMPTS})",
            ),
        )
        why = "; ".join(f"{n:,} {reason}" for n, reason in reasons if n)
        console.warn(f"up to {counted(recovered.to_repay, 'job')} may be paid again: {why}")


def say_saved_elsewhere(console: Console, name: str, settings: run_settings.RunSettings, by: str) -> None:
    """Outputs become files on machines that whoever began the run may never look at."""
    folders = sorted({rule.folder for rule in settings.save if not is_object_url(rule.template)})
    if folders:
        console.warn(
            f"{name}: each machine that collects results writes files below {' and '.join(folders)} of its own, at"
            f" first {by}: they are lost with it. Save to a store ({SAVE} MEMBER=s3://BUCKET/...), or to a folder"
            " that all machines share"
        )


def say_joined(console: Console, name: str, acknowledged: Acknowledged) -> None:
    """Another process works on the ledger, and is to serve the run."""
    if acknowledged.by is None:
        return  # it has ended meanwhile
    console.info(
        f"{name} is handed to {acknowledged.by}, which works on this ledger with limits, a listener and API keys of its"
        f" own: {acknowledged.outcome or 'it has not answered yet'}"
    )


def say_left(console: Console, request: RunRequest, served_by: str) -> None:
    """Nobody follows any more, and the run goes on."""
    console.info(f"{request.name} goes on in {served_by}, for as long as that one works")
    console.info(f"follow it with: {resume_command(request)}")
    console.info(f"stop it with: {pause_command(request)}")


def say_goodbye(
    console: Console, request: RunRequest, standing: ServedRun, safe_s: float | None, *, is_reading: bool
) -> None:
    """How things stand for somebody who interrupted the run."""
    at_service = standing.progress.at_service
    if at_service and standing.run.service_url == LOCAL:
        console.info(f"{counted(at_service, 'job')} had not come back from the embedded service; they will run again")
    elif at_service:
        console.info(f"{counted(at_service, 'job')} still at the service; {safe_text(safe_s)}")
    if is_reading:
        console.info("the input was not read to its end, so nothing of it was taken in: give the same command again")
    elif standing.progress.unfinished or standing.progress.to_be_saved:
        console.info(f"continue with: {resume_command(request)}")


async def stopped_error(ledger: Ledger, request: RunRequest, standing: ServedRun, gave_up: str) -> StoppedError:
    """Why a run ends that has not finished, with the command that goes on with it; `gave_up`: why it was given up."""
    if gave_up:
        why = f"{gave_up}. Go on with"
    elif standing.why_stopped is None:
        why = "jobs were queued again as this process ended; go on with"
    elif await ledger.runs.is_untouched(standing.run.id):
        why = f"{standing.why_stopped}; mend that (a wrong id: add {run_request.ENDPOINT} ID), then"
    else:
        why = f"{standing.why_stopped}; mend that, then"
    return StoppedError(f"{why}: {resume_command(request)}")


def unsaved_error(request: RunRequest, standing: ServedRun) -> StoppedError:
    """That a run has ended, and results of it have not become the files that they should; with the command that makes
    these.
    """
    why = "" if standing.why_stopped is None else f": {standing.why_stopped}"
    found = counted(standing.progress.to_be_saved, "result")
    return StoppedError(f"{found} without files{why}; mend that, then: {resume_command(request)}")


def refusal_advice(request: RunRequest, standing: ServedRun, safe_s: float | None) -> str:
    """What to know when a changed input was refused while jobs are at the service."""
    at_service = standing.progress.at_service
    if not at_service:
        return ""
    cancel = Suggestion(step=NextStep.CANCEL_JOBS, name=request.name)
    return (
        f"{counted(at_service, 'job')} of this run at the service; {safe_text(safe_s)}; "
        f"to cancel some of them, which --where names: {command(cancel)}; "
        f"to go on without reading the input: {resume_command(request)}"
    )


def safe_text(left_s: float | None) -> str:
    """How soon to collect again, before `left_s` seconds have passed; None where nothing can expire."""
    return "no result can expire yet" if left_s is None else collect_again(left_s)
