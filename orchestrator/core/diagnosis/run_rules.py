"""What holds runs up: rules that look at facts and return findings, the first cause first.

A rule knows one group of causes. Whatever a gate says is said here in the gate's words. Times are microseconds.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from orchestrator.core.diagnosis import service_rules
from orchestrator.core.diagnosis.facts import Facts, LedgerState, RunState, Sending, WebhookState
from orchestrator.core.diagnosis.findings import RANK, Cause, Finding
from orchestrator.core.gates import gates
from orchestrator.core.gates.brakes import Brake, Hold
from orchestrator.core.limits.rate_controller import VERIFIED_FROM
from orchestrator.core.service.answers import POINTLESS
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.units import MIB, MINUTE_US

EXPIRING_US: Final = 10 * MINUTE_US
"""So long before the first result may be gone, somebody should hear that nobody collects."""

DISK_BYTES_MIN: Final = 256 * MIB
"""So much room is no more than some minutes of results, and what SQLite's log may take."""

BINDING_SHARE: Final = 0.9
"""A limit of which so much is used is what keeps jobs waiting. Less than all: a look falls between two requests."""

NOBODY: Final = "nobody works on this ledger: nothing is sent or collected"
SILENT: Final = "the process that holds this ledger does nothing"
ASKED: Final = "nobody works on this ledger: what was asked of the run is not done"
UNSERVED: Final = "nobody asked the process at work for this run: nothing of it is sent"
EXPIRING: Final = "results are about to expire, and nobody collects them"
WEBHOOKS_MISSING: Final = "webhooks do not arrive: results are asked for instead"
READABLE: Final = (
    "asked with the key that is set here, it says how the endpoint is: this key may read and not submit, or it is not"
    " the one that was refused"
)
RATE_BINDS: Final = "the rate limit of /run binds"
CONCURRENCY_BINDS: Final = "the limit on requests at once binds"
UNWANTED: Final = "the service wants no question about jobs for now: results are collected later"
STRAY_429S: Final = "429s that our rate does not cause"

_BY_REASON: Final[Mapping[str, Cause]] = {
    POINTLESS[401]: Cause.KEY_REFUSED,
    POINTLESS[403]: Cause.KEY_REFUSED,
    POINTLESS[404]: Cause.ENDPOINT_UNKNOWN,
    POINTLESS[410]: Cause.ENDPOINT_UNKNOWN,
}

_ADVICE: Final[Mapping[Cause, str]] = {
    Cause.KEY_REFUSED: "set ORCHESTRATOR_API_KEY, or the profile's variable, to a key that may use this"
    " endpoint, and give the command again",
    Cause.ENDPOINT_UNKNOWN: "see whether the endpoint's id, not its name, and the service's URL are right, and it is"
    " still there",
    Cause.STOPPED: "mend what it says; a process at work tries again by itself, at most every 10 minutes",
}


def findings(facts: Facts) -> tuple[Finding, ...]:
    """What holds the runs up, the first cause first. Nothing where all goes as it should."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: RANK[finding.cause]))


# --- of the ledger, and of who works on it


def _ledger(facts: Facts) -> Iterator[Finding]:
    ledger = facts.ledger
    if ledger is None:
        return
    if ledger.newer is not None:
        yield Finding(
            cause=Cause.LEDGER_NEWER,
            about=ledger.path,
            sentence="a newer program has written this ledger",
            evidence=(ledger.newer,),
            advice="upgrade this program, or use the one that wrote it",
            needs_person=True,
        )
    if ledger.network is not None:
        yield Finding(
            cause=Cause.LEDGER_ON_NETWORK,
            about=ledger.path,
            sentence="this ledger is on a network disk, where nobody can work on it safely",
            evidence=(f"its file system is {ledger.network}",),
            advice="move it to a disk of this machine",
            needs_person=True,
        )
    if ledger.busy is not None:
        yield _held_ledger(ledger, ledger.busy)
    elif ledger.held_by is not None and not facts.is_worked_on and any(map(_waits, facts.runs)):
        yield _held_ledger(ledger, f"{ledger.held_by}; it has said nothing for {rough_duration(ledger.silent_us)}")


def _waits(run: RunState) -> bool:
    """Whether there is anything to do for a process at work."""
    return run.unfinished > 0 or bool(run.asked)


def _held_ledger(ledger: LedgerState, evidence: str) -> Finding:
    return Finding(
        cause=Cause.LEDGER_HELD,
        about=ledger.path,
        sentence=SILENT,
        evidence=(evidence,),
        advice="let it go on if it was stopped (kill -CONT PID), or end it and give its command again",
        needs_person=True,
    )


def _disk(facts: Facts) -> Iterator[Finding]:
    ledger = facts.ledger
    if ledger is None or ledger.free_bytes is None or ledger.free_bytes >= DISK_BYTES_MIN or not facts.open_runs:
        return
    yield Finding(
        cause=Cause.DISK_FULL,
        about=ledger.path,
        sentence="the disk of this ledger is nearly full",
        evidence=(f"{ledger.free_bytes / MIB:,.1f} MiB more can be written",),
        advice="free some space there; a run that was stopped by it is resumed",
        needs_person=True,
    )


def _nobody(facts: Facts) -> Iterator[Finding]:
    """Whether anybody does something for the runs at all."""
    if facts.ledger is None or (facts.ledger.held_by is not None and not facts.is_worked_on):
        return
    for run in facts.runs:
        if facts.is_worked_on:
            if run.is_unserved and run.queued and run.held is None and not (run.is_paused or run.is_cancelled):
                yield _no_process(facts, run, UNSERVED, (facts.ledger.held_by or "",))
        elif _refusal(facts, run) is not None:
            continue  # that is why nobody does
        elif run.at_service or (run.queued and not (run.is_paused or run.is_cancelled) and run.hold is None):
            yield _no_process(facts, run, NOBODY, _asked(run))
        elif run.asked:
            yield _no_process(facts, run, ASKED, _asked(run))


def _asked(run: RunState) -> tuple[str, ...]:
    return (f"asked {rough_duration(run.asked_us)} ago: {', '.join(run.asked)}",) if run.asked else ()


def _no_process(facts: Facts, run: RunState, sentence: str, evidence: tuple[str, ...]) -> Finding:
    at_work = (f"{run.queued:,} queued, {run.at_service:,} at the service",) if run.unfinished else ()
    return Finding(
        cause=Cause.NO_PROCESS,
        about=run.name,
        sentence=sentence,
        evidence=(*at_work, *evidence),
        advice=facts.resume(run),
        needs_person=True,
    )


def _expiring(facts: Facts) -> Iterator[Finding]:
    for run in facts.open_runs:
        is_collected = facts.is_worked_on and run.unreachable_us is None and not run.is_uncollectable
        if run.safe_us is None or run.safe_us > EXPIRING_US or is_collected:
            continue
        when = f"the first may be gone in {rough_duration(run.safe_us)}" if run.safe_us else "some may be gone already"
        advice = "see to what keeps the process at work from asking for them"
        yield Finding(
            cause=Cause.RESULTS_EXPIRE,
            about=run.name,
            sentence=EXPIRING,
            evidence=(f"{run.at_service:,} at the service; {when}",),
            advice=advice if facts.is_worked_on else facts.resume(run),
            needs_person=True,
        )


# --- of single runs, by what the process at work says


def _held(facts: Facts) -> Iterator[Finding]:
    """What people asked of a run, and what its gates say."""
    for run in facts.open_runs:
        if run.is_paused and run.queued:
            yield Finding(
                cause=Cause.PAUSED,
                about=run.name,
                sentence=gates.PAUSED,
                evidence=(f"{run.queued:,} queued",),
                advice=facts.next_step(NextStep.UNPAUSE_RUN, run),
                needs_person=True,
            )
        elif run.held is not None and not run.is_paused and facts.is_worked_on:
            yield from _of_gate(facts, run, run.held)
        elif not facts.is_worked_on and not run.is_paused and run.hold is not None and run.queued:
            yield _of_hold(facts, run, run.hold)
        elif not facts.is_worked_on and not run.is_paused and (refusal := _refusal(facts, run)) is not None:
            yield _of_refusal(facts, run, refusal)


def _of_hold(facts: Facts, run: RunState, hold: Hold) -> Finding:
    """A brake has stopped it, and nobody works any more: to resume it alone would stop it again."""
    if hold.brake in _CHANGED:
        lift = f"give it {_CHANGED[hold.brake]}, by the flag of: {facts.next_step(NextStep.CHANGE_BRAKES, run)}"
    else:
        lift = f"mend what it says, and have it go on: {facts.next_step(NextStep.CONTINUE_RUN, run)}"
    return Finding(
        cause=Cause.RUN_HELD,
        about=run.name,
        sentence=f"{gates.STOPPED}: {hold.why}",
        evidence=(f"{hold.brake} stopped it when somebody worked on it last; {run.queued:,} queued",),
        advice=f"{lift}; then {facts.resume(run)}",
        needs_person=True,
    )


_CHANGED: Final[Mapping[str, str]] = {Brake.BUDGET: "a larger amount", Brake.DEADLINE: "a later time"}
"""The brakes past which nobody goes without changing them, each with what it needs."""


def _refusal(facts: Facts, run: RunState) -> str | None:
    """Why the last process to submit came to a standstill, where it is to go on and nothing tells that this is over."""
    if run.refused is None or not run.queued or run.is_paused or run.is_cancelled:
        return None
    service = facts.service_of(run)
    is_there = service is not None and service.health is not None
    return None if is_there and _cause_of(run.refused) is Cause.ENDPOINT_UNKNOWN else run.refused


def _of_refusal(facts: Facts, run: RunState, refusal: str) -> Finding:
    """Nobody works any more, or the process at work finds out anew whether it was mended."""
    cause = _cause_of(refusal)
    again = "" if facts.is_worked_on else f": {facts.resume(run)}"
    return Finding(
        cause=cause,
        about=run.name,
        sentence=f"{gates.STOPPED}: {refusal}",
        evidence=(
            f"submissions were answered so {rough_duration(run.refused_us)} ago; {run.queued:,} queued",
            *_readable(facts, run, cause),
        ),
        advice=f"{_ADVICE[cause]}{again}",
        needs_person=True,
    )


def _cause_of(refusal: str) -> Cause:
    return next((cause for reason, cause in _BY_REASON.items() if reason in refusal), Cause.STOPPED)


def _readable(facts: Facts, run: RunState, cause: Cause) -> tuple[str, ...]:
    """What it tells of a key that was refused when jobs were submitted that it may ask how the endpoint is."""
    service = facts.service_of(run)
    return (READABLE,) if cause is Cause.KEY_REFUSED and service is not None and service.health is not None else ()


def _is_told(facts: Facts, run: RunState, held: str) -> bool:
    """Whether the way to the service, or what it says itself, tells more of why single requests go."""
    service = facts.service_of(run)
    is_shut = service is not None and (service.failure is not None or service.status in POINTLESS)
    return is_shut or (held == gates.UNANSWERED and run.unreachable_us is not None)


def _of_gate(facts: Facts, run: RunState, held: str) -> Iterator[Finding]:
    cause = Cause.RUN_HELD
    evidence: tuple[str, ...] = ()
    if held == gates.REFUSED and run.refused is not None:
        yield _of_refusal(facts, run, run.refused)
        return
    if held.startswith((gates.SUSPECT, gates.REFUSED, gates.UNANSWERED)):
        if _is_told(facts, run, held):
            return
        cause, advice = Cause.TRYING, "nothing: the process at work tries again by itself, and goes on once that helps"
    elif held.startswith(gates.STOPPED):
        cause = _cause_of(held)
        advice, evidence = _ADVICE[cause], _readable(facts, run, cause)
    else:
        advice = "do what it says; the process at work tries again every 30 s"
    yield Finding(
        cause=cause,
        about=run.name,
        sentence=held,
        evidence=(f"the process at work says so; {run.queued:,} queued", *evidence),
        advice=advice,
        needs_person=cause is not Cause.TRYING,
    )


def _unreachable(facts: Facts) -> Iterator[Finding]:
    told = {(each.endpoint, each.service_url) for each in facts.services if each.failure is not None}
    for run in facts.open_runs:
        if facts.is_worked_on and run.unreachable_us is not None and (run.endpoint, run.service_url) not in told:
            yield Finding(
                cause=Cause.UNREACHABLE,
                about=run.name,
                sentence=service_rules.UNREACHABLE,
                evidence=(f"no request of the process at work got through for {rough_duration(run.unreachable_us)}",),
                advice="see whether this machine reaches the network; the process at work goes on by itself then",
                needs_person=True,
            )


def _webhooks(facts: Facts) -> Iterator[Finding]:
    """Where webhooks come, this machine need not reach its own URL: it may be to be reached from outside only."""
    tested = facts.webhook
    if not facts.is_worked_on or any(run.webhooks_come for run in facts.runs):
        return
    if tested is not None and not tested.is_ours:
        yield _webhook_finding(tested)
        return
    for run in facts.open_runs:
        if run.webhooks_fail:
            from_here = () if tested is None else (f"{tested.url} is answered as it should be, from this machine",)
            yield Finding(
                cause=Cause.WEBHOOK_UNREACHABLE,
                about=run.name,
                sentence=WEBHOOKS_MISSING,
                evidence=("most webhooks of finished jobs have not come, as the process at work says", *from_here),
                advice="see whether the webhook URL can be reached from outside; until then the run is only slower",
                needs_person=True,
            )


def _webhook_finding(tested: WebhookState) -> Finding:
    if tested.failure is not None:
        return Finding(
            cause=Cause.WEBHOOK_UNREACHABLE,
            about=tested.url,
            sentence="the webhook URL cannot be reached",
            evidence=(tested.failure,),
            advice="see whether its name, its port and what forwards to the listener are right; until then results are"
            " asked for",
            needs_person=True,
        )
    return Finding(
        cause=Cause.WEBHOOK_ANSWERED,
        about=tested.url,
        sentence="something else answers at the webhook URL",
        evidence=(f"it answered {tested.status}, and not as the listener of this ledger does",),
        advice="see where the URL leads: it has to reach the listener, path and all; until then results are asked for",
        needs_person=True,
    )


def _limits(facts: Facts) -> Iterator[Finding]:
    """Which of the limits keeps queued jobs waiting, where nothing else does."""
    for run in facts.open_runs:
        if not facts.is_worked_on or not run.queued or run.is_paused or run.is_unserved or run.held is not None:
            continue
        if run.is_bound:
            yield _limited(
                run,
                Cause.OUTSTANDING_BOUND,
                gates.OUTSTANDING,
                f"{run.at_service:,} at the service",
                "nothing; a higher limit of /status or a longer retention, where the service grants them, lets more go",
            )
        elif run.sending is not None:
            yield from _sending(facts, run, run.sending)


def _unwanted(facts: Facts) -> Iterator[Finding]:
    """A rest that the service wants, which is obeyed as far as no result is lost by that."""
    for run in facts.open_runs:
        if not facts.is_worked_on or not run.unwanted_us or not run.at_service:
            continue
        left = f"it wants none for {rough_duration(run.unwanted_us)} more; {run.at_service:,} at the service"
        if run.safe_us is not None:
            left += f", of which the first result may be gone in {rough_duration(run.safe_us)}"
        yield Finding(
            cause=Cause.QUESTIONS_UNWANTED,
            about=run.name,
            sentence=UNWANTED,
            evidence=(left,),
            advice="nothing: where a result would be lost by that, single ones are asked for all the same",
            needs_person=False,
        )


def _raised(facts: Facts) -> Iterator[Finding]:
    """Workers that were raised for runs, and that nobody who works may still want."""
    if facts.is_worked_on:
        return
    restore = facts.word(Suggestion(NextStep.RESTORE_WORKERS))
    for each in facts.raised_workers:
        yield Finding(
            cause=Cause.WORKERS_RAISED,
            about=each.endpoint,
            sentence=f"the endpoint still has {each.raised} instead of {each.before}, raised for a run: they are paid",
            evidence=(f"raised {rough_duration(max(facts.now - each.since, 0))} ago, and not put back",),
            advice=f"{restore}; whoever works on this ledger next puts them back, too",
            needs_person=True,
        )


def _stray(facts: Facts) -> Iterator[Finding]:
    """Where the rate stays although requests are answered 429."""
    for run in facts.open_runs:
        sending = run.sending
        if not facts.is_worked_on or sending is None or not sending.stray:
            continue
        why = (
            "as many at a lower rate" if sending.stray > VERIFIED_FROM else "too few for a lower rate to gain anything"
        )
        yield Finding(
            cause=Cause.STRAY_REFUSALS,
            about=run.name,
            sentence=STRAY_429S,
            evidence=(f"{sending.stray:.1%} of the requests to /{sending.stray_operation}: {why}",),
            advice="nothing: the rate stays, and what is refused is sent again at no cost; a gateway may do it, or what"
            " else uses the key",
            needs_person=False,
        )


def _sending(facts: Facts, run: RunState, sending: Sending) -> Iterator[Finding]:
    of_rate = f"{sending.used:,} of {sending.allowance:,} requests in this window, {sending.throttled:,} answered 429"
    if sending.share < 1:
        of_rate += f"; the service takes {sending.share:.0%} of the limit: it is lower, or somebody else sends there"
    set_limit = "nothing; if the service grants you more: "
    if sending.queue_full:
        advice = "nothing; more workers let the queue get shorter"
        yield _limited(run, Cause.QUEUE_FULL, gates.QUEUE_FULL, of_rate, advice)
    elif sending.used >= BINDING_SHARE * sending.allowance:
        yield _limited(
            run,
            Cause.RATE_LIMIT,
            RATE_BINDS,
            of_rate,
            set_limit + facts.next_step(NextStep.CHANGE_RATE, run),
        )
    elif sending.concurrent is not None and sending.in_flight >= BINDING_SHARE * sending.concurrent:
        at_once = f"{sending.in_flight:,} of {sending.concurrent:,} requests at once; {of_rate}"
        advice = set_limit + facts.next_step(NextStep.CHANGE_CONCURRENCY, run)
        yield _limited(run, Cause.CONCURRENCY, CONCURRENCY_BINDS, at_once, advice)


def _limited(run: RunState, cause: Cause, sentence: str, evidence: str, advice: str) -> Finding:
    return Finding(
        cause=cause,
        about=run.name,
        sentence=sentence,
        evidence=(f"{run.queued:,} queued; {evidence}",),
        advice=advice,
        needs_person=False,
    )


RULES: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    _ledger,
    _disk,
    _nobody,
    _expiring,
    _held,
    _unreachable,
    _webhooks,
    _limits,
    _unwanted,
    _raised,
    _stray,
    service_rules.way,
    service_rules.answer,
    service_rules.clock,
    service_rules.workers,
)
