"""Rules about a ledger and its disk: who works on it, and what waits for somebody who does."""

from collections.abc import Iterator
from typing import Final

from orchestrator.core.diagnosis.causes import Cause, Finding, finding
from orchestrator.core.diagnosis.facts import Facts, RunState
from orchestrator.core.diagnosis.run_rules import refusal_of
from orchestrator.core.jobs.deadlines import EXPIRING_US
from orchestrator.core.pods.paid_pod import TROUBLE_SENTENCES, PodTrouble
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.figures import money
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.units import MIB

DISK_BYTES_MIN: Final = 256 * MIB
"""So much room is no more than some minutes of results, and what SQLite's log may take."""

NOBODY: Final = "nobody works on this ledger: nothing is sent or collected"
SILENT: Final = "the process that holds this ledger does nothing"
ASKED: Final = "nobody works on this ledger: what was asked of the run is not done"
UNSERVED: Final = "nobody asked the process at work for this run: nothing of it is sent"
EXPIRING: Final = "results are about to expire, and nobody collects them"


def usable_ledger(facts: Facts) -> Iterator[Finding]:
    """Whether anybody can work on the ledger."""
    ledger = facts.ledger
    if ledger is None:
        return
    if ledger.newer is not None:
        advice = "upgrade this program, or use the one that wrote it"
        yield finding(
            Cause.LEDGER_NEWER, ledger.path, "a newer program has written this ledger", ledger.newer, advice=advice
        )
    if ledger.network is not None:
        yield finding(
            Cause.LEDGER_ON_NETWORK,
            ledger.path,
            "this ledger is on a network disk, where nobody can work on it safely",
            f"its file system is {ledger.network}",
            advice="move it to a disk of this machine",
        )
    silence = ledger.busy
    if silence is None and ledger.holder is not None and not facts.is_worked_on and any(map(_waits, facts.runs)):
        silence = f"{ledger.holder}; it has said nothing for {rough_duration(ledger.silent_us)}"
    if silence is not None:
        advice = "let it go on if it was stopped (kill -CONT PID), or end it and give its command again"
        yield finding(Cause.LEDGER_IN_USE, ledger.path, SILENT, silence, advice=advice)


def _waits(run: RunState) -> bool:
    """Whether there is anything to do for a process at work."""
    return run.unfinished > 0 or bool(run.asked)


def disk(facts: Facts) -> Iterator[Finding]:
    """Whether there is room for results."""
    ledger = facts.ledger
    if ledger is None or ledger.free_bytes is None or ledger.free_bytes >= DISK_BYTES_MIN or not facts.open_runs:
        return
    yield finding(
        Cause.DISK_FULL,
        ledger.path,
        "the disk of this ledger is nearly full",
        f"{ledger.free_bytes / MIB:,.1f} MiB more can be written",
        advice="free some space there; a run that was stopped by it is resumed",
    )


def process(facts: Facts) -> Iterator[Finding]:
    """Whether anybody does something for the runs at all."""
    if facts.ledger is None or (facts.ledger.holder is not None and not facts.is_worked_on):
        return
    for run in facts.runs:
        if facts.is_worked_on:
            if run.is_unserved and run.queued and run.blocked_by is None and not (run.is_paused or run.is_cancelled):
                yield _no_process(facts, run, UNSERVED, facts.ledger.holder or "")
        elif refusal_of(facts, run) is not None:
            continue  # that is why nobody does
        elif run.at_service or (run.queued and not (run.is_paused or run.is_cancelled) and run.hold is None):
            yield _no_process(facts, run, NOBODY, *_asked(run))
        elif run.asked:
            yield _no_process(facts, run, ASKED, *_asked(run))


def _asked(run: RunState) -> tuple[str, ...]:
    return (f"asked {rough_duration(run.asked_us)} ago: {', '.join(run.asked)}",) if run.asked else ()


def _no_process(facts: Facts, run: RunState, sentence: str, *evidence: str) -> Finding:
    at_work = (f"{run.queued:,} queued, {run.at_service:,} at the service",) if run.unfinished else ()
    return finding(Cause.NO_PROCESS, run.name, sentence, *at_work, *evidence, advice=facts.resume(run))


def expiry(facts: Facts) -> Iterator[Finding]:
    """Whether results are about to be lost."""
    for run in facts.open_runs:
        is_collected = facts.is_worked_on and run.unreachable_us is None and not run.is_uncollectable
        if run.safe_us is None or run.safe_us > EXPIRING_US or is_collected:
            continue
        when = f"the first may be gone in {rough_duration(run.safe_us)}" if run.safe_us else "some may be gone already"
        advice = "see to what keeps the process at work from asking for them"
        yield finding(
            Cause.RESULTS_EXPIRE,
            run.name,
            EXPIRING,
            f"{run.at_service:,} at the service; {when}",
            advice=advice if facts.is_worked_on else facts.resume(run),
        )


def left_raised(facts: Facts) -> Iterator[Finding]:
    """Workers that were raised for runs, and that nobody who works may still want."""
    if facts.is_worked_on:
        return
    restore = facts.word(Suggestion(NextStep.RESTORE_WORKERS))
    for each in facts.raised_workers:
        yield finding(
            Cause.WORKERS_RAISED,
            each.endpoint,
            f"the endpoint still has {each.raised} instead of {each.before}, raised for a run: they are paid",
            f"raised {rough_duration(max(facts.now - each.since, 0))} ago, and not put back",
            advice=f"{restore}; whoever works on this ledger next puts them back, too",
        )


def pods_without_work(facts: Facts) -> Iterator[Finding]:
    """Pods that are paid and do nothing, or that nobody ends."""
    for each in facts.paid_pods:
        trouble = each.trouble(facts.now, is_worked_on=facts.is_worked_on)
        if trouble is None:
            continue
        tidy = f"{facts.word(Suggestion(NextStep.RESTORE_WORKERS))}; whoever works on this ledger next ends it, too"
        see = f"see to it in the account: its id is {each.shown}"
        wait = f"its run, {each.run}, sends nothing: pause it, and its pods end"
        cost = "" if not each.per_hour else f", for {money(each.per_hour)} an hour"
        yield finding(
            Cause.PODS_PAID,
            each.shown,
            TROUBLE_SENTENCES[trouble],
            f"for {each.run}, since {rough_duration(max(facts.now - each.since, 0))}{cost}",
            advice={PodTrouble.LEFT: tidy, PodTrouble.STAYS: see, PodTrouble.IDLE: wait}[trouble],
            needs_person=trouble is not PodTrouble.IDLE,
        )
