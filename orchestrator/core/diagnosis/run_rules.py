"""Rules about single runs: what people asked of them, what their gates say, and what keeps jobs from going out.

Whatever a gate says is said here in the gate's words.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.core.batches.stuck import stuck_sentence
from orchestrator.core.diagnosis import service_rules
from orchestrator.core.diagnosis.causes import Cause, Finding, finding
from orchestrator.core.diagnosis.facts import Facts, RunState, WebhookState
from orchestrator.core.diagnosis.service_rules import HEADERS_ADVICE
from orchestrator.core.gates import gates
from orchestrator.core.gates.brake_gates import Brake
from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.core.service.profiles import is_by_url
from orchestrator.core.text.durations import format_duration, rough_duration
from orchestrator.core.text.next_step import NextStep
from orchestrator.core.text.wording import counted
from orchestrator.units import MILLISECOND_US, MINUTE_US

WEBHOOKS_MISSING: Final = "webhooks do not arrive: results are asked for instead"
DIFFERENT_MEMBERS: Final = "its members allow an execution different times: what ends at one is cut off at another"
BATCH_WAITS_US: Final = 15 * MINUTE_US
"""For so long nobody need hear that a batch waits."""

READABLE: Final = (
    "asked with the key that is set here, it says how the endpoint is: this key may read and not submit, or it is not"
    " the one that was refused"
)

_BY_STATUS: Final[Mapping[int | None, Cause]] = {
    401: Cause.KEY_REFUSED,
    403: Cause.KEY_REFUSED,
    404: Cause.ENDPOINT_UNKNOWN,
    410: Cause.ENDPOINT_UNKNOWN,
}

_ADVICE: Final[Mapping[Cause, str]] = {
    Cause.KEY_REFUSED: "set ORCHESTRATOR_API_KEY, or the profile's variable, to a key that may use this"
    " endpoint, and give the command again",
    Cause.ENDPOINT_UNKNOWN: "see whether the endpoint's id, not its name, and the service's URL are right, and it is"
    " still there",
    Cause.STOPPED: "mend what it says; a process at work tries again by itself, at most every 10 minutes",
}

_ADVICE_AT_URL: Final[Mapping[Cause, str]] = {
    Cause.KEY_REFUSED: HEADERS_ADVICE + ", and give the command again",
    Cause.ENDPOINT_UNKNOWN: "see whether the URL is right, and the path, and whether the server takes POST there",
}
"""Where the endpoint is one."""

_TRYING: Final = frozenset({Gate.SUSPECT, Gate.REFUSED, Gate.UNANSWERED})
"""The process at work finds out by itself when they open again."""

_CHANGED: Final[Mapping[str, str]] = {Brake.BUDGET: "a larger amount", Brake.DEADLINE: "a later time"}
"""The brakes past which nobody goes without changing them, each with what it needs."""


def standstill(facts: Facts) -> Iterator[Finding]:
    """What people asked of a run, and what its gates say."""
    for run in facts.open_runs:
        if run.is_paused:
            if run.queued:
                advice = facts.next_step(NextStep.UNPAUSE_RUN, run)
                yield finding(Cause.PAUSED, run.name, gates.PAUSED, f"{run.queued:,} queued", advice=advice)
        elif facts.is_worked_on:
            if run.blocked_by is not None:
                yield from _of_gate(facts, run, run.blocked_by)
        elif run.hold is not None and run.queued:
            yield _of_hold(facts, run, run.hold)
        elif (refusal := refusal_of(facts, run)) is not None:
            yield _of_refusal(facts, run, refusal)


def _of_hold(facts: Facts, run: RunState, hold: Hold) -> Finding:
    """A brake has stopped it, and nobody works any more: to resume it alone would stop it again."""
    if hold.gate in _CHANGED:
        change = facts.next_step(NextStep.CHANGE_BRAKES, run)
        lift = f"give it {_CHANGED[hold.gate]}, by the flag of: {change}"
    else:
        lift = f"mend what it says, and have it go on: {facts.next_step(NextStep.CONTINUE_RUN, run)}"
    return finding(
        Cause.RUN_BLOCKED,
        run.name,
        hold.sentence,
        f"{hold.gate} stopped it when somebody worked on it last; {run.queued:,} queued",
        advice=f"{lift}; then {facts.resume(run)}",
    )


def refusal_of(facts: Facts, run: RunState) -> str | None:
    """Why the last process to submit came to a standstill, where it is to go on and nothing tells that this is over."""
    if run.refused is None or not run.queued or run.is_paused or run.is_cancelled:
        return None
    service = facts.service_of(run)
    is_there = service is not None and service.health is not None
    return None if is_there and _cause_of(run.refused_status) is Cause.ENDPOINT_UNKNOWN else run.refused


def _of_refusal(facts: Facts, run: RunState, refusal: str) -> Finding:
    """Nobody works any more, or the process at work finds out anew whether it was mended."""
    cause = _cause_of(run.refused_status)
    again = "" if facts.is_worked_on else f": {facts.resume(run)}"
    return finding(
        cause,
        run.name,
        f"{gates.STOPPED}: {refusal}",
        f"submissions were answered so {rough_duration(run.refused_us)} ago; {run.queued:,} queued",
        *_readable(facts, run, cause),
        advice=f"{_advice(run, cause)}{again}",
    )


def _cause_of(status: int | None) -> Cause:
    return _BY_STATUS.get(status, Cause.STOPPED)


def _advice(run: RunState, cause: Cause) -> str:
    of_urls = _ADVICE_AT_URL if is_by_url(run.service_url) else {}
    return of_urls.get(cause, _ADVICE[cause]).format(run.endpoint)


def _readable(facts: Facts, run: RunState, cause: Cause) -> tuple[str, ...]:
    """What it tells of a key that was refused when jobs were submitted that it may ask how the endpoint is."""
    service = None if is_by_url(run.service_url) else facts.service_of(run)  # how it is a server tells anybody
    return (READABLE,) if cause is Cause.KEY_REFUSED and service is not None and service.health is not None else ()


def _is_explained(facts: Facts, run: RunState, hold: Hold) -> bool:
    """Whether the way to the service, or what it says itself, tells more of why single requests go."""
    service = facts.service_of(run)
    is_shut = service is not None and (service.failure is not None or service.status in POINTLESS)
    return is_shut or (hold.gate == Gate.UNANSWERED and run.unreachable_us is not None)


def _of_gate(facts: Facts, run: RunState, hold: Hold) -> Iterator[Finding]:
    cause = Cause.RUN_BLOCKED
    evidence: tuple[str, ...] = ()
    if hold.gate == Gate.REFUSED and run.refused is not None:
        yield _of_refusal(facts, run, run.refused)
        return
    if hold.gate in _TRYING:
        if _is_explained(facts, run, hold):
            return
        cause, advice = Cause.TRYING, "nothing: the process at work tries again by itself, and goes on once that helps"
    elif hold.stops:
        cause = _cause_of(run.stopped_status)
        advice, evidence = _advice(run, cause), _readable(facts, run, cause)
    else:
        advice = "do what it says; the process at work tries again every 30 s"
    evidence = (f"the process at work says so; {run.queued:,} queued", *evidence)
    yield finding(cause, run.name, hold.sentence, *evidence, advice=advice, needs_person=cause is not Cause.TRYING)


def reach(facts: Facts) -> Iterator[Finding]:
    """Whether requests of the process at work get through."""
    asked = {(each.endpoint, each.service_url) for each in facts.services if each.failure is not None}
    for run in facts.open_runs:
        if facts.is_worked_on and run.unreachable_us is not None and (run.endpoint, run.service_url) not in asked:
            yield finding(
                Cause.UNREACHABLE,
                run.name,
                service_rules.UNREACHABLE,
                f"no request of the process at work got through for {rough_duration(run.unreachable_us)}",
                advice="see whether this machine reaches the network; the process at work goes on by itself then",
            )


def webhooks(facts: Facts) -> Iterator[Finding]:
    """Where webhooks come, this machine need not reach its own URL: it may be to be reached from outside only."""
    tested = facts.webhook
    if not facts.is_worked_on or any(run.webhooks_come for run in facts.runs):
        return
    if tested is not None and not tested.is_ours:
        yield _of_webhook_url(tested)
        return
    from_here = () if tested is None else (f"{tested.url} is answered as it should be, from this machine",)
    for run in facts.open_runs:
        if run.webhooks_fail:
            yield finding(
                Cause.WEBHOOK_UNREACHABLE,
                run.name,
                WEBHOOKS_MISSING,
                "most webhooks of finished jobs have not come, as the process at work says",
                *from_here,
                advice="see whether the webhook URL can be reached from outside; until then the run is only slower",
            )


def _of_webhook_url(tested: WebhookState) -> Finding:
    if tested.failure is not None:
        return finding(
            Cause.WEBHOOK_UNREACHABLE,
            tested.url,
            "the webhook URL cannot be reached",
            tested.failure,
            advice="see whether its name, its port and what forwards to the listener are right; until then results are"
            " asked for",
        )
    return finding(
        Cause.WEBHOOK_ANSWERED,
        tested.url,
        "something else answers at the webhook URL",
        f"it answered {tested.status}, and not as the listener of this ledger does",
        advice="see where the URL leads: it has to reach the listener, path and all; until then results are asked for",
    )


def members(facts: Facts) -> Iterator[Finding]:
    """Which members of pools take no part, while others do: where none does, that is told of the run."""
    for run in facts.open_runs if facts.is_worked_on else ():
        well = [each.endpoint for each in run.members if each.why is None]
        for member in run.members:
            if member.why is None:
                continue
            name = f"{run.name}: {member.endpoint}"
            gets = "gets single jobs" if member.is_tried else "gets nothing"
            left = f"what waited there goes to {', '.join(well)}" if well else "no member is well"
            advice = "nothing, if that passes: single jobs find out; else mend it, or leave it out of the pool"
            yield finding(
                Cause.MEMBER_UNWELL, name, f"it {gets}: {member.why}", left, advice=advice, needs_person=not well
            )


def different_members(facts: Facts) -> Iterator[Finding]:
    """Which pools have members where executions may take different times, as neither the run nor the account says one
    for all: a row that ends at one of them is cut off at another.
    """
    for run in facts.open_runs:
        at = {each.endpoint: each.timeout_ms for each in facts.services if each.service_url == run.service_url}
        told = {member: ms for member in run.pool if (ms := at.get(member)) is not None}
        if run.timeout_ms is None and len(set(told.values())) > 1:
            said = ", ".join(f"{member}: {_may_take(ms)}" for member, ms in told.items())
            advice = (
                "give the run a time-out for its executions, which then holds at all of them, or its endpoints the same"
            )
            yield finding(Cause.MEMBERS_DIFFER, run.name, DIFFERENT_MEMBERS, said, advice=advice)


def stuck_batches(facts: Facts) -> Iterator[Finding]:
    """Which runs have batches at the service of which nothing comes any more."""
    for run in facts.open_runs if facts.is_worked_on else ():
        if not run.stuck_batches:
            continue
        first = max(run.stuck_batches, key=lambda each: each.quiet_us)
        ended = (
            f"{first.ended:,} of {counted(first.rows, 'row')} have ended, the last of them"
            if first.ended
            else "finalized"
        )
        by = ", and one that was finalized later has ended" if first.is_overtaken else ""
        others = len(run.stuck_batches) - 1
        more = [f"so {'is' if others == 1 else 'are'} {counted(others, 'other')}"] if others else []
        change = facts.next_step(NextStep.CHANGE_BRAKES, run)
        advice = (
            "look for it in the service's console; what is left of it leaves by /run once the run is to be finished by"
            f" a time, by the flag of: {change}"
        )
        sentence = stuck_sentence(first.batch, first.rows)
        said = f"{ended} {rough_duration(first.quiet_us)} ago{by}"
        yield finding(Cause.BATCH_STUCK, run.name, sentence, said, *more, advice=advice)


def refused_batches(facts: Facts) -> Iterator[Finding]:
    """For which runs the service makes no batch, for as long as nothing of theirs would make room there."""
    for run in facts.open_runs if facts.is_worked_on else ():
        if run.no_batch is None or not run.queued or run.no_batch_us < BATCH_WAITS_US:
            continue
        advice = (
            "see in the service's console which batches there are, drafts among them; what is left leaves by /run"
            f" once it is to be finished by a time, by the flag of: {facts.next_step(NextStep.CHANGE_BRAKES, run)}"
        )
        since = f"for {rough_duration(run.no_batch_us)}; {run.queued:,} queued"
        yield finding(Cause.BATCH_REFUSED, run.name, f"no batch is made for it: {run.no_batch}", since, advice=advice)


def waiting_batches(facts: Facts) -> Iterator[Finding]:
    """Which runs wait for the service to begin with their batches, for which it promises no time."""
    for run in facts.open_runs if facts.is_worked_on else ():
        if run.batches_waiting and run.batches_wait_us >= BATCH_WAITS_US:
            batches = counted(run.batches_waiting, "batch", "batches")
            waiting = f"{batches} with {counted(run.rows_waiting, 'row')} in all: the service has not begun"
            said = f"for {rough_duration(run.batches_wait_us)} by now, and it promises no time"
            advice = "nothing, if it may take a night; a run that is to be finished by some time leaves it in time"
            yield finding(Cause.BATCH_WAITS, run.name, waiting, said, advice=advice, needs_person=False)


def _may_take(ms: int) -> str:
    return format_duration(ms * MILLISECOND_US) if ms else "as long as the service allows"
