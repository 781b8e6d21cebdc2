"""What needs a person, of all that a ledger tells: the cause first, then what cures it. The first is the most urgent.

One cause is one need, however many runs it holds up. A cure is offered only where it helps once the cause is mended;
where it would pay for the same failure again, what to do before is said with it. What people have paused themselves
needs nobody.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec.structs import replace

from orchestrator.core.diagnosis.causes import Cause, Finding
from orchestrator.core.diagnosis.facts import RunState
from orchestrator.core.diagnosis.need_facts import (
    URGENCY,
    Cure,
    FlowTrouble,
    Need,
    NeedFacts,
    NeedKind,
    PipelineState,
    RunPlace,
    Subject,
)
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.gates.brake_gates import Brake
from orchestrator.core.gates.gates import Hold
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.core.text.wording import counted
from orchestrator.units import DAY_US

FORGOTTEN_US: Final = 7 * DAY_US
"""Of a pipeline that nobody scheduled, a failure that is older needs nobody any more."""

MEND: Final = "mend what it says first: what is tried again is paid again"
TRYING: Final = "mend what it says: single jobs find out by themselves whether all may go again"
GO_ON_OR_RETRY: Final = "see what has failed, and retry that once it is mended; or let the flow go on without it"
FAILED_FIRST: Final = "see why it failed, and mend that first: what is done again is paid again"

_HOLDS: Final = frozenset({Cause.RUN_BLOCKED, Cause.STOPPED})
"""What is found of a run that a gate holds."""

_BREAKS: Final = frozenset({Brake.BREAKER, Brake.FAILURES, Brake.CANARY})
"""What holds a run since too much of it fails."""

_GOES_ON: Final = frozenset({Brake.FAILURES, Brake.CANARY, Brake.BUDGET})
"""As long as these let single jobs go, nothing is wrong yet."""

_CHANGED: Final = frozenset({Brake.BUDGET, Brake.DEADLINE})
"""Nobody goes past these without changing them."""


def needs(facts: NeedFacts) -> tuple[Need, ...]:
    """What needs a person, the most urgent first; of one kind what has lasted longest. Nothing where all goes well."""
    diagnosed = findings(facts.diagnosis)
    blocked = [facts.places.get(each.about) for each in diagnosed if each.cause in _HOLDS]
    shown = {place.flow for place in blocked if place is not None}
    found = _together(facts, _of_runs(facts, diagnosed))
    found += (need for each in facts.pipelines for need in _of_pipeline(facts, each, shown))
    found += _of_unseen(facts, [each for each in facts.pipelines if each.unseen])
    found += _of_missed([each for each in facts.pipelines if each.missed])
    found += _of_messages(facts)
    return tuple(sorted(found, key=lambda need: (URGENCY[need.kind], need.since is None, need.since or 0)))


# --- of runs


def _of_runs(facts: NeedFacts, diagnosed: Iterable[Finding]) -> Iterator[Need]:
    """The first finding of each run, and of the ledger."""
    runs = {run.name: run for run in facts.diagnosis.runs}
    done: set[str] = set()
    for found in diagnosed:
        if found.about in done or not found.needs_person:
            continue
        run, place = runs.get(found.about), facts.places.get(found.about)
        need = _of_finding(found) if run is None or place is None else _of_run(facts, found, run, place)
        done.add(found.about)
        if need is not None:
            yield need


def _of_finding(found: Finding) -> Need:
    return Need(
        kind=NeedKind.FINDING,
        subject=Subject.ENGINE,
        name=found.about,
        cause=found.sentence,
        evidence=found.evidence,
        advice=found.advice,
    )


def _of_run(facts: NeedFacts, found: Finding, run: RunState, place: RunPlace) -> Need | None:
    """None where it is what people have asked, or what the process at work finds out by itself."""
    need = replace(_of_finding(found), subject=Subject.RUN, number=place.number, since=place.blocked_since)
    since = None if facts.diagnosis.is_worked_on else facts.last_heard
    if found.cause is Cause.PAUSED:
        return None
    if found.cause is Cause.RESULTS_EXPIRE:
        expires_at = facts.diagnosis.now + (run.safe_us or 0)
        return replace(need, kind=NeedKind.EXPIRING, expires_at=expires_at, since=since)
    if found.cause is Cause.BATCH_REFUSED:
        return replace(need, since=facts.diagnosis.now - run.no_batch_us, cure=Cure.CHANGE_BRAKES)
    if found.cause is Cause.BATCH_STUCK:
        quiet_us = max(each.quiet_us for each in run.stuck_batches)
        return replace(need, since=facts.diagnosis.now - quiet_us, cure=Cure.CHANGE_BRAKES)
    if found.cause is Cause.NO_PROCESS:
        return replace(need, kind=NeedKind.NOBODY, since=since)
    hold = run.blocked_by if facts.diagnosis.is_worked_on else run.hold
    return need if found.cause not in _HOLDS or hold is None else _of_hold(need, hold, place)


def _of_hold(need: Need, hold: Hold, place: RunPlace) -> Need | None:
    """A run that a gate holds: as its flow, where it has one, since that is what goes on."""
    if hold.gate == Brake.DEADLINE and not hold.stops:
        return replace(need, kind=NeedKind.LATE, cause=hold.why, cure=Cure.CHANGE_BRAKES)
    if hold.gate in _GOES_ON and not hold.stops:
        return None
    if hold.gate in _CHANGED:
        return replace(need, kind=NeedKind.ON_HOLD, cause=hold.why, cure=Cure.CHANGE_BRAKES)
    if hold.gate not in _BREAKS:  # the service, or the process at work, and no brake
        return need if hold.stops else replace(need, kind=NeedKind.ON_HOLD)
    if place.flow is not None:
        need = replace(need, subject=Subject.FLOW, number=place.flow, name=place.flow_name)
    need = replace(need, kind=NeedKind.BREAKER, cause=hold.why)
    return replace(need, advice=MEND, cure=Cure.CONTINUE) if hold.stops else replace(need, advice=TRYING)


def _together(facts: NeedFacts, found: Iterable[Need]) -> list[Need]:
    """One for each cause: that of the first run that has it. What one button cures stays apart."""
    by_cause: dict[tuple[object, ...], list[Need]] = {}
    for need in found:
        apart = () if need.cure is None else (need.subject, need.number)
        by_cause.setdefault((need.kind, need.cause, *apart), []).append(need)
    return [_one_of(facts, same) for same in by_cause.values()]


def _one_of(facts: NeedFacts, same: Sequence[Need]) -> Need:
    if len(same) == 1 or same[0].cure is not None:
        return same[0]  # of one flow several runs may be held
    more = replace(same[0], more=len(same) - 1)
    if more.kind is NeedKind.EXPIRING:
        return replace(more, expires_at=min(need.expires_at or 0 for need in same))
    if more.kind is NeedKind.NOBODY and not facts.diagnosis.is_worked_on:
        return replace(more, subject=Subject.ENGINE, number=None, advice=_serve(facts))
    return more


def _serve(facts: NeedFacts) -> str:
    return facts.diagnosis.word(Suggestion(NextStep.SERVE))


# --- of pipelines


def _of_pipeline(facts: NeedFacts, pipeline: PipelineState, shown: AbstractSet[int | None]) -> Iterator[Need]:
    for flow in pipeline.on_hold:
        if flow.number not in shown:
            yield _of_flow(NeedKind.ON_HOLD, flow, flow.why, advice=GO_ON_OR_RETRY, cure=Cure.CONTINUE)
    explained = shown | {flow.number for flow in pipeline.on_hold}
    if late := [flow for flow in pipeline.late if flow.number not in explained]:
        first = _of_flow(NeedKind.LATE, late[0], late[0].why, advice="see what its stages wait for")
        yield replace(first, more=len(late) - 1)
    if pipeline.failing is not None and not _is_forgotten(facts, pipeline, pipeline.failing):
        cause = f"failed: {pipeline.failing.why}"
        failing = _of_flow(NeedKind.FAILING, pipeline.failing, cause, advice=FAILED_FIRST, cure=Cure.RERUN)
        paused = pipeline.paused_note
        yield failing if paused is None else replace(failing, evidence=(f"its schedule is paused: {paused}",))
    if pipeline.untold:
        yield _of_untold(pipeline.name, pipeline.untold, pipeline.untold_problem, pipeline.untold_since)


def _of_flow(kind: NeedKind, flow: FlowTrouble, cause: str, *, advice: str, cure: Cure | None = None) -> Need:
    return Need(
        kind=kind,
        subject=Subject.FLOW,
        number=flow.number,
        name=flow.name,
        cause=cause,
        since=flow.since,
        advice=advice,
        cure=cure,
    )


def _is_forgotten(facts: NeedFacts, pipeline: PipelineState, flow: FlowTrouble) -> bool:
    if pipeline.is_scheduled or flow.since is None:
        return False
    return facts.diagnosis.now - flow.since > FORGOTTEN_US


def _of_unseen(facts: NeedFacts, pipelines: Sequence[PipelineState]) -> Iterator[Need]:
    """One for all: who looks at one schedule looks at the others."""
    if not pipelines:
        return
    first = min(pipelines, key=lambda each: each.unseen_since or 0)
    yield Need(
        kind=NeedKind.UNSEEN,
        subject=Subject.PIPELINE,
        number=first.number if len(pipelines) == 1 else None,
        name=first.name,
        more=len(pipelines) - 1,
        cause=first.unseen,
        since=first.unseen_since,
        advice=_serve(facts),
    )


def _of_missed(pipelines: Sequence[PipelineState]) -> Iterator[Need]:
    """One for all, since one cause has them all missed; each is made up for by itself."""
    if not pipelines:
        return
    first = min(pipelines, key=lambda each: each.missed_since or 0)
    fires = counted(sum(each.missed for each in pipelines), "fire")
    need = Need(
        kind=NeedKind.MISSED,
        subject=Subject.PIPELINE,
        number=first.number,
        name=first.name,
        more=len(pipelines) - 1,
        cause=f"{fires} missed: nobody looked at the schedule in time",
        since=first.missed_since,
        advice="make up for them, if what they would have done is still wanted",
    )
    yield replace(need, cure=Cure.MAKE_UP) if len(pipelines) == 1 else replace(need, number=None)


# --- of messages


def _of_messages(facts: NeedFacts) -> Iterator[Need]:
    if facts.owed:
        yield _of_untold("messages of runs", facts.owed, facts.owed_problem, facts.owed_since)


def _of_untold(name: str, number: int, problem: str, since: int | None) -> Need:
    return Need(
        kind=NeedKind.UNTOLD,
        subject=Subject.MESSAGES,
        name=name,
        cause=f"{counted(number, 'message')} could not be sent: {problem}",
        since=since,
        advice="mend what keeps them from arriving; they are sent again by themselves, or at once when asked",
        cure=Cure.RESEND,
    )
