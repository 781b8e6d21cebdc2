"""The breaker of a run, by the rules alone."""

from orchestrator.core.gates.brake_gates import SHOWN_AFTER_US, Brake
from orchestrator.core.gates.failure_breaker import (
    OFF,
    PROBE_EVERY_US,
    PROBES_MAX,
    Breaker,
    BreakerPhase,
    BreakerRules,
    BreakerState,
    RatedExecution,
)
from orchestrator.core.gates.gates import ANY, STOPPED, Closed, GateResult, Hold, Open
from orchestrator.core.text.next_step import plain

NOW = 1_000_000_000
RULES = BreakerRules(first=4, share=500_000, window=10)
BROKEN = RatedExecution(is_failed=True, kind=7, summary="failed: boom")
OTHER = RatedExecution(is_failed=True, kind=8, summary="failed: bang")
UNKNOWN = RatedExecution(is_failed=True)
WELL = RatedExecution(is_failed=False)


MANY = 100


def hold_of(result: GateResult) -> Hold:
    assert result.hold is not None
    return result.hold


def result(breaker: Breaker, *, now: int = NOW, at_service: int = 0, claiming: int = 0, left: int = MANY) -> GateResult:
    return breaker.gate_result(
        RULES, now, at_service=at_service, claiming=claiming, left=left, name="night run", word=plain
    )


def after(*executions: RatedExecution, state: BreakerState | None = None, failed: int = 0) -> Breaker:
    breaker = Breaker(state or BreakerState(), failed=failed)
    for each in executions:
        breaker.observe(each, RULES, NOW)
    return breaker


def test_before_the_first_success_no_more_go_than_have_to_fail() -> None:
    breaker = after()
    assert result(breaker) == Open(4)
    assert result(breaker, at_service=3) == Open(1)
    assert result(breaker, at_service=1, claiming=2) == Open(1)
    assert result(after(BROKEN, BROKEN), at_service=2) == Open(0)


def test_it_is_convinced_once_one_has_succeeded_and_it_has_not_tripped_since() -> None:
    assert not after().is_convinced(RULES)
    assert after().is_convinced(OFF)
    assert after(WELL).is_convinced(RULES)
    assert not after(BROKEN, BROKEN, BROKEN, BROKEN).is_convinced(RULES)


def test_that_the_first_jobs_are_waited_for_is_told_once_it_lasts() -> None:
    breaker = after()
    assert result(breaker, at_service=4) == Open(0)
    late = result(breaker, now=NOW + SHOWN_AFTER_US, at_service=4)
    assert isinstance(late, Open)
    assert "until one has succeeded" in hold_of(late).why
    assert result(breaker, now=NOW + SHOWN_AFTER_US, at_service=3) == Open(1)
    assert result(breaker, now=NOW + SHOWN_AFTER_US, at_service=4) == Open(0), "it begins anew"


def test_after_the_first_success_all_go() -> None:
    assert result(after(BROKEN, WELL), at_service=1_000) is ANY


def test_it_trips_as_the_first_have_failed_and_says_how() -> None:
    breaker = after(BROKEN, OTHER, BROKEN)
    told = breaker.observe(BROKEN, RULES, NOW)
    assert told is not None
    assert "the first 4 executions failed, 3 of them with: failed: boom" in told
    shut = result(breaker)
    assert isinstance(shut, Closed)
    assert shut.until == NOW + PROBE_EVERY_US
    assert "continue run night run goes on all the same" in shut.hold.why


def test_failures_of_which_nobody_knows_how_trip_it_as_well() -> None:
    assert after(*[UNKNOWN] * 4).state.why == "the first 4 executions failed"


def test_one_a_minute_goes_and_the_next_one_waits_for_its_minute() -> None:
    breaker = after(*[BROKEN] * 4)
    later = NOW + PROBE_EVERY_US
    single = result(breaker, now=later, at_service=50)
    assert isinstance(single, Open)
    assert single.most == 1
    assert isinstance(result(breaker, now=later, claiming=1), Closed), "it is on its way"
    breaker.claimed(later)
    assert result(breaker, now=later) == Closed(hold_of(single), later + PROBE_EVERY_US)


def test_what_never_worked_waits_for_people_after_some_single_jobs() -> None:
    breaker = after(*[BROKEN] * 4)
    for n in range(PROBES_MAX):
        assert isinstance(result(breaker, now=NOW + (n + 1) * PROBE_EVERY_US), Open)
        breaker.claimed(NOW + (n + 1) * PROBE_EVERY_US)
        assert breaker.observe(BROKEN, RULES, NOW) is None
    shut = result(breaker, now=NOW + 100 * PROBE_EVERY_US)
    assert isinstance(shut, Closed)
    assert shut.until is None
    assert shut.hold.sentence.startswith(f"{STOPPED}: the first 4 executions failed")


def test_a_single_job_that_was_not_sent_after_all_does_not_count() -> None:
    breaker = after(*[BROKEN] * 4)
    breaker.given_back()
    assert breaker.state.probes == 0
    breaker.claimed(NOW)
    breaker.given_back()
    assert breaker.state.probes == 0
    closed = after()
    closed.given_back()
    closed.claimed(NOW)
    assert closed.state == BreakerState()


def test_what_has_worked_is_tried_for_ever() -> None:
    breaker = after(*[WELL] * 4, *[BROKEN] * 6)
    assert breaker.state.phase is BreakerPhase.OPEN
    for n in range(50):
        assert isinstance(result(breaker, now=NOW + (n + 1) * PROBE_EVERY_US), Open)
        breaker.claimed(NOW + (n + 1) * PROBE_EVERY_US)


def test_a_success_half_opens_it_once_it_has_paused_and_none_of_before() -> None:
    breaker = after(*[BROKEN] * 4)
    assert breaker.observe(WELL, RULES, NOW + PROBE_EVERY_US - 1) is None, "it was at the service when it tripped"
    assert breaker.state.phase is BreakerPhase.OPEN
    assert "half open" in (breaker.observe(WELL, RULES, NOW + PROBE_EVERY_US) or "")
    resumed = Breaker(BreakerState(phase=BreakerPhase.OPEN, probes=PROBES_MAX, probe_at=NOW), failed=4)
    resumed.begin(RULES, NOW, left=MANY)
    resumed.claimed(NOW)
    assert "half open" in (resumed.observe(WELL, RULES, NOW + 1) or ""), "it is the single one"


def test_the_first_success_half_opens_it_and_as_many_as_at_first_go() -> None:
    breaker = after(*[BROKEN] * 4)
    breaker.observe(WELL, RULES, NOW + PROBE_EVERY_US)
    half = result(breaker, at_service=1)
    assert isinstance(half, Open)
    assert (half.most, breaker.state.phase) == (3, BreakerPhase.HALF_OPEN)
    breaker.observe(BROKEN, RULES, NOW)
    half = result(breaker, at_service=1)
    assert isinstance(half, Open)
    assert half.most == 2, "of those four one has ended"
    assert breaker.observe(BROKEN, RULES, NOW) is None
    assert breaker.observe(WELL, RULES, NOW) is None
    assert "closed again" in (breaker.observe(WELL, RULES, NOW) or ""), "half of them"
    assert result(breaker, at_service=1_000) is ANY


def test_it_trips_again_where_most_of_those_fail() -> None:
    breaker = after(*[BROKEN] * 4)
    for each in (WELL, BROKEN, BROKEN):
        breaker.observe(each, RULES, NOW + PROBE_EVERY_US)
    assert "3 of 3 executions failed again" in (breaker.observe(BROKEN, RULES, NOW) or "")
    assert breaker.state.phase is BreakerPhase.OPEN


def test_later_it_trips_by_most_of_the_latest_and_one_kind() -> None:
    assert after(*[WELL] * 5, *[BROKEN] * 5).state.phase is BreakerPhase.CLOSED, "half is not more than half"
    assert after(*[WELL] * 4, *[BROKEN] * 5).state.phase is BreakerPhase.CLOSED, "not so many yet"
    tripped = after(*[WELL] * 20, *[BROKEN] * 6)
    assert tripped.state.phase is BreakerPhase.OPEN
    assert tripped.state.why == "6 of the last 10 executions failed, 6 of them with: failed: boom"
    assert after(*[WELL] * 20, BROKEN, OTHER, BROKEN, OTHER, BROKEN, OTHER).state.phase is BreakerPhase.CLOSED
    assert after(*[WELL] * 20, *[UNKNOWN] * 4, BROKEN, OTHER).state.phase is BreakerPhase.OPEN, (
        "nothing speaks against it"
    )


def test_people_have_it_go_on_and_everything_counts_anew() -> None:
    breaker = after(*[BROKEN] * 4)
    breaker.go_on()
    assert result(breaker) == Open(4)
    for _ in range(3):
        assert breaker.observe(BROKEN, RULES, NOW) is None
    assert breaker.observe(BROKEN, RULES, NOW) is not None


def test_another_process_goes_on_from_what_is_known() -> None:
    counted = Breaker(BreakerState(), failed=4)
    counted.begin(RULES, NOW, left=MANY)
    assert counted.state.phase is BreakerPhase.OPEN, "it had to trip, and nobody wrote that down"
    windowed = Breaker(BreakerState(has_succeeded=True), failed=9, latest=[*[WELL] * 4, *[BROKEN] * 6])
    windowed.begin(RULES, NOW, left=MANY)
    assert windowed.state.phase is BreakerPhase.OPEN
    waiting = Breaker(
        BreakerState(phase=BreakerPhase.OPEN, probe_at=NOW + 90 * PROBE_EVERY_US, has_succeeded=True), failed=9
    )
    waiting.begin(RULES, NOW, left=MANY)
    assert waiting.state.probe_at == NOW + PROBE_EVERY_US, "the clock was ahead"
    exhausted = Breaker(BreakerState(phase=BreakerPhase.OPEN, probes=PROBES_MAX, probe_at=NOW + 9), failed=9)
    exhausted.begin(RULES, NOW, left=MANY)
    assert isinstance(result(exhausted), Open), "one finds out whether it was mended"
    exhausted.claimed(NOW)
    assert isinstance(result(exhausted, now=NOW + PROBE_EVERY_US), Closed)


def test_off_it_stops_nothing_and_still_counts() -> None:
    breaker = Breaker(BreakerState(), failed=0)
    for _ in range(500):
        assert breaker.observe(BROKEN, OFF, NOW) is None
    breaker.begin(OFF, NOW, left=MANY)
    assert breaker.gate_result(OFF, NOW, at_service=0, claiming=0, left=MANY, name="run", word=plain) is ANY
    assert breaker.observe(BROKEN, RULES, NOW) is not None, "switched on it knows"


def test_what_people_have_tried_again_is_judged_by_itself() -> None:
    breaker = after(*[BROKEN] * 4)
    breaker.try_again()
    assert result(breaker) == Open(4)
    assert breaker.observe(BROKEN, RULES, NOW) is None, "those of before do not count"
    healthy = after(WELL, *[BROKEN] * 5)
    healthy.try_again()
    assert result(healthy, at_service=1_000) is ANY, "what has worked goes on meanwhile"
    assert [healthy.observe(BROKEN, RULES, NOW) for _ in range(9)] == [None] * 9
    assert healthy.observe(BROKEN, RULES, NOW) is not None


def test_where_few_are_left_that_never_worked_it_waits_for_people_at_once() -> None:
    breaker = after(*[BROKEN] * 4)
    shut = result(breaker, now=NOW + PROBE_EVERY_US, left=4)
    assert isinstance(shut, Closed)
    assert shut.until is None
    assert "of 4 jobs that are left none goes to find out more" in shut.hold.why
    assert "of 1 job that is left" in hold_of(result(breaker, left=1)).why
    assert isinstance(result(breaker, now=NOW + PROBE_EVERY_US, left=5), Open)
    breaker.begin(RULES, NOW, left=4)
    assert isinstance(result(breaker, left=4), Open), "who has the run go on sees how it is"
    breaker.claimed(NOW)
    assert result(breaker, now=NOW + PROBE_EVERY_US, left=3) == Closed(
        Hold(Brake.BREAKER, shut.hold.why.replace("4 jobs", "3 jobs").replace("the first 3", "the first 4"))
    )


def test_where_few_are_left_that_have_worked_it_waits_for_people_after_some_single_jobs() -> None:
    breaker = after(*[WELL] * 4, *[BROKEN] * 6)
    for n in range(PROBES_MAX):
        assert isinstance(result(breaker, now=NOW + (n + 1) * PROBE_EVERY_US, left=4), Open)
        breaker.claimed(NOW + (n + 1) * PROBE_EVERY_US)
    later = NOW + 100 * PROBE_EVERY_US
    assert getattr(result(breaker, now=later, left=4), "until", 0) is None
    assert isinstance(result(breaker, now=later, left=5), Open)


def test_single_ones_take_a_minute_each_and_half_open_they_have_a_pace_of_their_own() -> None:
    breaker = after(*[BROKEN] * 4)
    assert breaker.crawl_us(RULES, MANY) == PROBE_EVERY_US
    assert breaker.crawl_us(RULES, 4) is None, "none goes"
    assert breaker.crawl_us(OFF, MANY) is None
    breaker.observe(WELL, RULES, NOW + PROBE_EVERY_US)
    assert breaker.crawl_us(RULES, MANY) == 0
    assert after(WELL).crawl_us(RULES, MANY) is None
