"""What needs a person: the cause first, one need for one cause, and a cure only where it helps."""

import pytest
from msgspec.structs import replace

from orchestrator.core.diagnosis.facts import Facts, LedgerState, RunState, StuckBatch
from orchestrator.core.diagnosis.need_facts import (
    Cure,
    FlowTrouble,
    Need,
    NeedFacts,
    NeedKind,
    PipelineState,
    RunPlace,
    Subject,
)
from orchestrator.core.diagnosis.needs import FAILED_FIRST, FORGOTTEN_US, MEND, TRYING, needs
from orchestrator.core.gates.brake_gates import Brake
from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US

NOW = 100 * DAY_US
AT_WORK = LedgerState(path="l.db", holder="process 7 since noon")
NOBODY = LedgerState(path="l.db")
RUN = RunState(name="night", endpoint="abc", counts={"queued": 10, "outstanding": 3})
BROKEN = Hold(Brake.BREAKER, "20 of 20 failed: ImportError")
HELD_FLOW = FlowTrouble(number=55, name="p@1", why="the breaker", since=NOW - HOUR_US)
PIPELINE = PipelineState(number=3, name="p")


def of(
    *runs: RunState,
    ledger: LedgerState = AT_WORK,
    pipelines: tuple[PipelineState, ...] = (),
    flow: int | None = None,
    **more: object,
) -> tuple[Need, ...]:
    numbered = enumerate(runs, 1)
    places = {
        run.name: RunPlace(number=n, flow=flow, flow_name="p@1" if flow else "", blocked_since=NOW - HOUR_US)
        for n, run in numbered
    }
    facts = NeedFacts(
        diagnosis=Facts(ledger=ledger, runs=runs, now=NOW),
        places=places,
        last_heard=NOW - DAY_US,
        pipelines=pipelines,
    )
    return needs(replace(facts, **more))


def kinds(found: tuple[Need, ...]) -> list[NeedKind]:
    return [need.kind for need in found]


def test_where_all_goes_well_nothing_does() -> None:
    assert of() == of(RUN) == of(RUN, pipelines=(PIPELINE,)) == needs(NeedFacts(diagnosis=Facts())) == ()


def test_a_batch_that_is_stuck_is_one_since_nothing_comes_of_it() -> None:
    stuck = StuckBatch(batch="batch_7", rows=5_000, ended=0, quiet_us=13 * HOUR_US)
    [need] = of(replace(RUN, stuck_batches=(stuck,)))
    assert (need.kind, need.subject, need.since) == (NeedKind.FINDING, Subject.RUN, NOW - 13 * HOUR_US)
    assert (need.cure, need.cause.partition(" ")[0]) == (Cure.CHANGE_BRAKES, "batch_7")


def test_a_run_for_which_no_batch_is_made_is_one_since_then() -> None:
    [need] = of(replace(RUN, no_batch="the service refused it (400)", no_batch_us=HOUR_US))
    assert (need.kind, need.since, need.cure) == (NeedKind.FINDING, NOW - HOUR_US, Cure.CHANGE_BRAKES)


def test_what_people_have_paused_needs_nobody() -> None:
    assert of(replace(RUN, is_paused=True)) == ()


def test_an_open_breaker_is_mended_before_the_run_goes_on() -> None:
    [need] = of(replace(RUN, blocked_by=BROKEN))
    assert (need.kind, need.subject, need.number, need.name) == (NeedKind.BREAKER, Subject.RUN, 1, "night")
    assert (need.cause, need.since) == ("20 of 20 failed: ImportError", NOW - HOUR_US)
    assert (need.advice, need.cure) == (MEND, Cure.CONTINUE)


def test_the_hold_of_a_stage_is_one_need_and_its_flow_goes_on() -> None:
    """Neither is it told a second time of the flow, nor that the flow is late because of it."""
    pipeline = replace(PIPELINE, on_hold=[HELD_FLOW], late=[HELD_FLOW])
    [need] = of(replace(RUN, blocked_by=BROKEN), flow=55, pipelines=(pipeline,))
    assert (need.kind, need.subject, need.number, need.name) == (NeedKind.BREAKER, Subject.FLOW, 55, "p@1")
    [other] = of(pipelines=(pipeline,))
    assert (other.kind, other.number, other.cause, other.cure) == (NeedKind.ON_HOLD, 55, "the breaker", Cure.CONTINUE)


@pytest.mark.parametrize("brake", [Brake.BUDGET, Brake.DEADLINE])
def test_to_go_past_an_amount_or_a_time_that_is_changed(brake: Brake) -> None:
    """To let the run go on alone would stop it again: its flow is not told to go on, either."""
    held = replace(RUN, blocked_by=Hold(brake, "it is reached"))
    [need] = of(held, flow=55, pipelines=(replace(PIPELINE, on_hold=[HELD_FLOW]),))
    assert (need.kind, need.subject, need.cure) == (NeedKind.ON_HOLD, Subject.RUN, Cure.CHANGE_BRAKES)
    [dead] = of(replace(RUN, counts={"queued": 10}, hold=Hold(brake, "it is reached")), ledger=NOBODY)
    assert (dead.kind, dead.cure) == (NeedKind.ON_HOLD, Cure.CHANGE_BRAKES)


def test_a_run_that_ends_too_late_needs_somebody_before_it_does() -> None:
    [need] = of(replace(RUN, blocked_by=Hold(Brake.DEADLINE, "it will miss it", stops=False)))
    assert (need.kind, need.cause, need.cure) == (NeedKind.LATE, "it will miss it", Cure.CHANGE_BRAKES)


def test_a_breaker_that_tries_single_jobs_needs_somebody_and_no_button() -> None:
    """It finds out by itself whether it was mended; until somebody has done that each of them is paid in vain."""
    [need] = of(replace(RUN, blocked_by=Hold(Brake.BREAKER, "half of 40 failed", stops=False)))
    assert (need.kind, need.cause, need.advice, need.cure) == (NeedKind.BREAKER, "half of 40 failed", TRYING, None)


@pytest.mark.parametrize("brake", [Brake.FAILURES, Brake.CANARY, Brake.BUDGET])
def test_what_is_found_out_by_itself_needs_nobody(brake: Brake) -> None:
    assert of(replace(RUN, blocked_by=Hold(brake, "the canary is out", stops=False))) == ()


def test_what_no_button_cures_says_what_does() -> None:
    [need] = of(replace(RUN, blocked_by=Hold(Gate.UNSERVABLE, "there is no key", stops=False)))
    assert (need.kind, need.cause, need.cure) == (NeedKind.ON_HOLD, "there is no key", None)
    assert need.advice
    refused = Hold(Gate.FAILING, "the key is refused")
    [need] = of(replace(RUN, blocked_by=refused, stopped_status=401))
    assert (need.kind, need.subject, need.number, need.cure) == (NeedKind.FINDING, Subject.RUN, 1, None)
    [gone] = of(replace(RUN, counts={"queued": 10}, refused="no such key", refused_status=401), ledger=NOBODY)
    assert gone.kind is NeedKind.FINDING


def test_a_run_of_which_nothing_else_is_known_needs_what_its_finding_says() -> None:
    facts = NeedFacts(diagnosis=Facts(ledger=AT_WORK, runs=[replace(RUN, blocked_by=BROKEN)], now=NOW))
    [need] = needs(facts)
    assert (need.kind, need.subject, need.number) == (NeedKind.FINDING, Subject.ENGINE, None)


def test_one_cause_is_one_need_however_many_runs_it_holds_up() -> None:
    several = [replace(RUN, name=name) for name in ("a", "b", "c")]
    [need] = of(*several, ledger=NOBODY)
    assert (need.kind, need.subject, need.number, need.more) == (NeedKind.NOBODY, Subject.ENGINE, None, 2)
    assert (need.since, need.cure, need.advice) == (NOW - DAY_US, None, "serve")
    [alone] = of(several[0], ledger=NOBODY)
    assert (alone.subject, alone.number, alone.more, alone.advice) == (Subject.RUN, 1, 0, "resume run a")
    unserved = [replace(each, is_unserved=True, counts={"queued": 1}) for each in several]
    [need] = of(*unserved)
    assert (need.kind, need.subject, need.more, need.since) == (NeedKind.NOBODY, Subject.RUN, 2, None)
    refused = Hold(Gate.FAILING, "the key is refused")
    [need] = of(*(replace(each, blocked_by=refused, stopped_status=401) for each in several))
    assert (need.kind, need.more) == (NeedKind.FINDING, 2)


def test_what_one_button_each_cures_stays_apart_but_for_stages_of_one_flow() -> None:
    broken = [replace(RUN, name=name, blocked_by=BROKEN) for name in ("a", "b")]
    assert [(need.name, need.more) for need in of(*broken)] == [("a", 0), ("b", 0)]
    [need] = of(*broken, flow=55)
    assert (need.name, need.more) == ("p@1", 0)


def test_results_that_expire_come_first_with_the_soonest_moment() -> None:
    """That nobody is at work is why, and no second need."""
    soon, sooner = replace(RUN, safe_us=5 * MINUTE_US), replace(RUN, name="b", safe_us=MINUTE_US)
    [need] = of(soon, sooner, ledger=NOBODY)
    assert (need.kind, need.more, need.expires_at, need.since) == (
        NeedKind.EXPIRING,
        1,
        NOW + MINUTE_US,
        NOW - DAY_US,
    )
    [stuck] = of(replace(soon, is_uncollectable=True))
    assert (stuck.kind, stuck.expires_at, stuck.since) == (NeedKind.EXPIRING, NOW + 5 * MINUTE_US, None)


def test_a_ledger_needs_what_its_findings_say() -> None:
    [need] = of(RUN, ledger=replace(AT_WORK, free_bytes=1))
    assert (need.kind, need.subject, need.name) == (NeedKind.FINDING, Subject.ENGINE, "l.db")


def test_each_trouble_of_a_pipeline() -> None:
    late = [replace(HELD_FLOW, number=n, name=f"p@{n}", why="has not ended") for n in (60, 61)]
    pipeline = PipelineState(
        number=3,
        name="p",
        paused_note="3 in a row",
        late=late,
        failing=FlowTrouble(number=50, name="p@0", why="no input", since=NOW - DAY_US),
        missed=28,
        missed_since=NOW - 2 * DAY_US,
        unseen="the fire of noon is due",
        unseen_since=NOW - HOUR_US,
        untold=2,
        untold_problem="no connection",
        untold_since=NOW,
    )
    found = {need.kind: need for need in of(pipelines=(pipeline,))}
    assert list(found) == [NeedKind.UNSEEN, NeedKind.LATE, NeedKind.FAILING, NeedKind.MISSED, NeedKind.UNTOLD]
    assert (found[NeedKind.UNSEEN].subject, found[NeedKind.UNSEEN].cure) == (Subject.PIPELINE, None)
    assert found[NeedKind.UNSEEN].advice == "serve"
    assert (found[NeedKind.LATE].number, found[NeedKind.LATE].more, found[NeedKind.LATE].cure) == (60, 1, None)
    failing = found[NeedKind.FAILING]
    assert (failing.cause, failing.cure, failing.advice) == ("failed: no input", Cure.RERUN, FAILED_FIRST)
    assert failing.evidence == ("its schedule is paused: 3 in a row",)
    missed = found[NeedKind.MISSED]
    assert (missed.number, missed.cure, missed.since) == (3, Cure.MAKE_UP, NOW - 2 * DAY_US)
    assert missed.cause.startswith("28 fires missed")
    assert found[NeedKind.UNTOLD].cause == "2 messages could not be sent: no connection"
    assert (found[NeedKind.UNTOLD].subject, found[NeedKind.UNTOLD].cure) == (Subject.MESSAGES, Cure.RESEND)


def test_fires_of_several_pipelines_that_nobody_has_seen_are_one_need() -> None:
    unseen = [
        replace(PIPELINE, number=n, name=f"p{n}", unseen=f"fire {n} is due", unseen_since=NOW - n) for n in (1, 2)
    ]
    [need] = of(pipelines=tuple(unseen))
    assert (need.kind, need.subject, need.number, need.more) == (NeedKind.UNSEEN, Subject.PIPELINE, None, 1)
    assert (need.name, need.cause, need.since) == ("p2", "fire 2 is due", NOW - 2)


def test_fires_that_several_pipelines_missed_are_one_need_and_each_is_made_up_for_by_itself() -> None:
    missed = [replace(PIPELINE, number=n, name=f"p{n}", missed=n, missed_since=NOW - n) for n in (1, 2)]
    [need] = of(pipelines=tuple(missed))
    assert (need.kind, need.subject, need.number, need.more) == (NeedKind.MISSED, Subject.PIPELINE, None, 1)
    assert (need.name, need.since, need.cure) == ("p2", NOW - 2, None)
    assert need.cause.startswith("3 fires missed")


def test_an_old_failure_of_what_nobody_scheduled_is_forgotten() -> None:
    failed = replace(HELD_FLOW, since=NOW - FORGOTTEN_US - 1)
    scheduled = replace(PIPELINE, failing=failed)
    assert kinds(of(pipelines=(scheduled,))) == [NeedKind.FAILING]
    assert of(pipelines=(replace(scheduled, is_scheduled=False),)) == ()
    recent = replace(scheduled, is_scheduled=False, failing=replace(failed, since=NOW - DAY_US))
    assert kinds(of(pipelines=(recent,))) == [NeedKind.FAILING]
    unknown = replace(scheduled, is_scheduled=False, failing=replace(failed, since=None))
    assert kinds(of(pipelines=(unknown,))) == [NeedKind.FAILING]


def test_messages_of_runs_that_wait_need_somebody() -> None:
    [need] = of(owed=1, owed_problem="refused", owed_since=NOW - 1)
    assert (need.kind, need.cause) == (NeedKind.UNTOLD, "1 message could not be sent: refused")


def test_the_most_urgent_comes_first_and_of_one_kind_what_has_lasted_longest() -> None:
    failing = [
        PipelineState(number=n, name=f"p{n}", failing=replace(HELD_FLOW, number=n, name=f"p{n}@1", since=since))
        for n, since in ((1, NOW - 1), (2, None), (3, NOW - 9))
    ]
    found = of(replace(RUN, blocked_by=BROKEN), pipelines=tuple(failing))
    assert [need.name for need in found] == ["night", "p3@1", "p1@1", "p2@1"]
