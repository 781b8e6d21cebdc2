"""What the program says while it starts and stops."""

from typing import Final

from orchestrator.app.identity import resume_command
from orchestrator.app.parts import Parts
from orchestrator.app.view import View
from orchestrator.core.policy import format_duration
from orchestrator.ledger.intakes import Taken
from orchestrator.services.janitor import Recovered
from orchestrator.settings import RunRequest

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US


def say_taken(view: View, name: str, taken: Taken) -> None:
    """What reading the input came to."""
    known = taken.rows - taken.new
    more = f" ({known:,} known already)" if known else ""
    view.say(f"{name}: {_rows(taken.rows)} checked{more}")
    if taken.gone:
        view.say(f"{_jobs(taken.gone)} of the run no longer in the input: kept in the run")


def say_recovered(view: View, recovered: Recovered) -> None:
    """What an earlier process left, and what going on will cost."""
    if recovered.outstanding:
        view.say(f"{_jobs(recovered.outstanding)} still at the service: collecting first")
    if recovered.to_repay:
        view.warn(
            f"up to {_jobs(recovered.to_repay)} may be paid again: whether the service took them is unknown, "
            "or their results have expired (--on-uncertain and --on-expired decide)"
        )


def say_goodbye(view: View, request: RunRequest, parts: Parts, *, is_reading: bool) -> None:
    """How things stand for somebody who interrupted the run."""
    at_service = parts.progress.at_service
    if at_service and parts.endpoint.is_local:
        view.say(f"{_jobs(at_service)} had not come back from the embedded service; they will run again")
    elif at_service:
        view.say(f"{_jobs(at_service)} still at the service; {safe_text(parts)}")
    if is_reading:
        view.say("the input was not read to its end, so nothing of it was taken in: give the same command again")
    elif parts.progress.unfinished:
        view.say(f"continue with: {resume_command(request)}")


def refusal_advice(request: RunRequest, parts: Parts) -> str:
    """What to know when a changed input was refused while jobs are at the service."""
    at_service = parts.progress.at_service
    if not at_service:
        return ""
    return (
        f"{_jobs(at_service)} of this run at the service; {safe_text(parts)}; "
        f"to go on without reading the input: {resume_command(request)}"
    )


def safe_text(parts: Parts) -> str:
    """How long it is safe to stay away: rounded down, to whole minutes where it is that long."""
    left_us = parts.safe_for_us()
    if left_us is None:
        return "no result can expire yet"
    if left_us < SECOND_US:
        return "results may have expired already"
    unit = MINUTE_US if left_us >= MINUTE_US else SECOND_US
    return f"it is safe to stay away for {format_duration(left_us // unit * unit)}"


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def _jobs(n: int) -> str:
    return "1 job" if n == 1 else f"{n:,} jobs"
