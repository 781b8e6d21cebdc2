"""Rules about limits: which of them keeps queued jobs waiting, and what the service refuses or does not want."""

from collections.abc import Iterator
from typing import Final

from orchestrator.core.diagnosis.causes import Cause, Finding, finding
from orchestrator.core.diagnosis.facts import Facts, RunState, Sending
from orchestrator.core.gates import gates
from orchestrator.core.limits.stray_refusals import VERIFIED_FROM
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.next_step import NextStep

BINDING_SHARE: Final = 0.9
"""A limit of which so much is used is what keeps jobs waiting. Less than all: a look falls between two requests."""

RATE_BINDS: Final = "the rate limit of /run binds"
CONCURRENCY_BINDS: Final = "the limit on requests at once binds"
UNWANTED: Final = "the service wants no question about jobs for now: results are collected later"
STRAY_429S: Final = "429s that our rate does not cause"


def binding_limits(facts: Facts) -> Iterator[Finding]:
    """Which of the limits keeps queued jobs waiting, where nothing else does."""
    for run in facts.open_runs:
        if not facts.is_worked_on or not run.queued or run.is_paused or run.is_unserved or run.blocked_by is not None:
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


def _sending(facts: Facts, run: RunState, sending: Sending) -> Iterator[Finding]:
    of_rate = f"{sending.used:,} of {sending.allowance:,} requests in this window, {sending.throttled:,} answered 429"
    if sending.share < 1:
        of_rate += f"; the service takes {sending.share:.0%} of the limit: it is lower, or somebody else sends there"
    set_limit = "nothing; if the service grants you more: "
    if sending.queue_full:
        advice = "nothing; more workers let the queue get shorter"
        yield _limited(run, Cause.QUEUE_FULL, gates.QUEUE_FULL, of_rate, advice)
    elif sending.used >= BINDING_SHARE * sending.allowance:
        advice = set_limit + facts.next_step(NextStep.CHANGE_RATE, run)
        yield _limited(run, Cause.RATE_LIMIT, RATE_BINDS, of_rate, advice)
    elif sending.concurrent is not None and sending.in_flight >= BINDING_SHARE * sending.concurrent:
        at_once = f"{sending.in_flight:,} of {sending.concurrent:,} requests at once; {of_rate}"
        advice = set_limit + facts.next_step(NextStep.CHANGE_CONCURRENCY, run)
        yield _limited(run, Cause.CONCURRENCY, CONCURRENCY_BINDS, at_once, advice)


def _limited(run: RunState, cause: Cause, sentence: str, evidence: str, advice: str) -> Finding:
    queued = f"{run.queued:,} queued; {evidence}"
    return finding(cause, run.name, sentence, queued, advice=advice, needs_person=False)


def unwanted(facts: Facts) -> Iterator[Finding]:
    """A rest that the service wants, which is obeyed as far as no result is lost by that."""
    for run in facts.open_runs:
        if not facts.is_worked_on or not run.unwanted_us or not run.at_service:
            continue
        left = f"it wants none for {rough_duration(run.unwanted_us)} more; {run.at_service:,} at the service"
        if run.safe_us is not None:
            left += f", of which the first result may be gone in {rough_duration(run.safe_us)}"
        advice = "nothing: where a result would be lost by that, single ones are asked for all the same"
        yield finding(Cause.QUESTIONS_UNWANTED, run.name, UNWANTED, left, advice=advice, needs_person=False)


def stray_refusals(facts: Facts) -> Iterator[Finding]:
    """Where the rate stays although requests are answered 429."""
    for run in facts.open_runs:
        sending = run.sending
        if not facts.is_worked_on or sending is None or not sending.stray:
            continue
        is_tried = sending.stray > VERIFIED_FROM
        why = "as many at a lower rate" if is_tried else "too few for a lower rate to gain anything"
        yield finding(
            Cause.STRAY_REFUSALS,
            run.name,
            STRAY_429S,
            f"{sending.stray:.1%} of the requests to /{sending.stray_operation}: {why}",
            advice="nothing: the rate stays, and what is refused is sent again at no cost; a gateway may do it, or what"
            " else uses the key",
            needs_person=False,
        )
