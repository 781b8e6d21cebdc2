"""What the program says while it starts and stops."""

from orchestrator import declared
from orchestrator.api.continuing import resume_command
from orchestrator.core.policy import format_duration
from orchestrator.engine.engine import Engine
from orchestrator.engine.observers.view import View
from orchestrator.engine.runs import RunSession
from orchestrator.engine.upkeep.janitor import Recovered
from orchestrator.ledger.intakes import Taken
from orchestrator.settings import RunRequest
from orchestrator.units import MINUTE_US, SECOND_US


def say_taken(view: View, name: str, taken: Taken) -> None:
    """What reading the input came to."""
    known = taken.rows - taken.new
    more = f" ({known:,} known already)" if known else ""
    view.say(f"{name}: {_rows(taken.rows)} checked{more}")
    if taken.gone:
        view.say(f"{_jobs(taken.gone)} of the run no longer in the input: kept in the run")


def say_clock(view: View, ahead_us: int) -> None:
    """An earlier process has left times that lie in the future."""
    if ahead_us:
        ahead = format_duration(max(ahead_us // SECOND_US, 1) * SECOND_US)
        view.warn(
            f"the clock of a process that worked here before was at least {ahead} ahead of this one's: waits are cut"
            " short, and all that it had at the service is asked for at once"
        )


def say_unmarked(view: View, why: str | None) -> None:
    """The next process will not know what has left."""
    if why is not None:
        view.warn(f"{why}: after a crash all that was claimed counts as uncertain, and may be paid for twice")


def say_reopened(view: View, *, failed: int, cancelled: int) -> None:
    """Which jobs are to be tried again because somebody asked for it."""
    view.say(f"jobs reopened: {failed:,} failed, {cancelled:,} cancelled")


def say_recovered(view: View, recovered: Recovered) -> None:
    """What an earlier process left, and what going on will cost."""
    if recovered.outstanding:
        view.say(f"{_jobs(recovered.outstanding)} still at the service: collecting first")
    if recovered.to_repay:
        reasons = (
            (
                recovered.repay_uncertain,
                f"of which nobody knows whether the service took them ({declared.ON_UNCERTAIN})",
            ),
            (recovered.repay_expired, f"whose results have expired ({declared.ON_EXPIRED})"),
            (recovered.repay_timed_out, f"whose TTL at the service is over ({declared.TTL}, {declared.MAX_ATTEMPTS})"),
        )
        why = "; ".join(f"{n:,} {reason}" for n, reason in reasons if n)
        view.warn(f"up to {_jobs(recovered.to_repay)} may be paid again: {why}")


def say_goodbye(view: View, request: RunRequest, engine: Engine, session: RunSession) -> None:
    """How things stand for somebody who interrupted the run."""
    at_service = session.progress.at_service
    if at_service and session.endpoint.is_local:
        view.say(f"{_jobs(at_service)} had not come back from the embedded service; they will run again")
    elif at_service:
        view.say(f"{_jobs(at_service)} still at the service; {safe_text(engine.endpoints.safe_for_us())}")
    if session.rows_read is not None:
        view.say("the input was not read to its end, so nothing of it was taken in: give the same command again")
    elif session.progress.unfinished:
        view.say(f"continue with: {resume_command(request)}")


def refusal_advice(request: RunRequest, engine: Engine, session: RunSession) -> str:
    """What to know when a changed input was refused while jobs are at the service."""
    at_service = session.progress.at_service
    if not at_service:
        return ""
    return (
        f"{_jobs(at_service)} of this run at the service; {safe_text(engine.endpoints.safe_for_us())}; "
        f"to go on without reading the input: {resume_command(request)}"
    )


def safe_text(left_us: int | None) -> str:
    """How long it is safe to stay away, which is `left_us`: rounded down, to whole minutes where it is that long."""
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
