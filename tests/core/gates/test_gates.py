"""Why nothing is sent: each gate, and what they say together."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.gates.gates import (
    ANY,
    CANCELLED,
    PAUSED,
    REFUSED,
    STOPPED,
    UNANSWERED,
    Closed,
    EndpointFacts,
    Gate,
    GateResult,
    Hold,
    Open,
    RoomFacts,
    RunFacts,
    first_hold,
    is_deep,
    narrowest,
    recalls,
    requested_stop,
    room_results,
    run_results,
    shallow,
    suspected,
)
from orchestrator.core.gates.refusal_backoff import PAUSE_US_MAX

NOW = 1_000_000_000
LATER = NOW + 5
FREE = RoomFacts(
    urgent=0,
    at_service=0,
    own=1,
    status_per_s=200.0,
    retention_us=1_800_000_000,
    queue_depth="auto",
    finished_per_s=0.0,
    running=0,
    line_is_full=False,
    input_bytes=1,
)


def shown(gate: Gate, sentence: str) -> Hold:
    """What keeps jobs from being sent, in that sentence."""
    hold = Hold(gate, sentence, stops=False)
    assert hold.sentence == sentence
    return hold


def of(run: RunFacts | None = None, **endpoint: object) -> list[GateResult]:
    return run_results(run or RunFacts(), msgspec.convert(endpoint, EndpointFacts), NOW)


def test_where_nothing_is_wrong_any_number_may_be_sent() -> None:
    assert narrowest(of()) == ANY
    assert first_hold(of()) is None
    assert not recalls(of())


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (RunFacts(cancelled=True, paused=True, stopped="it fails"), Closed(shown(Gate.CANCELLED, CANCELLED))),
        (RunFacts(paused=True, stopped="it fails"), Closed(shown(Gate.PAUSED, PAUSED))),
        (
            RunFacts(stopped="it fails", lacks="KEY", lacks_until=LATER),
            Closed(Hold(Gate.FAILING, "it fails"), recalls=True),
        ),
        (RunFacts(lacks="no KEY", lacks_until=LATER), Closed(Hold(Gate.LACKING, "no KEY"), LATER, recalls=True)),
        (RunFacts(lacks="no KEY", lacks_until=NOW), Closed(Hold(Gate.LACKING, "no KEY"), recalls=True)),
    ],
)
def test_what_people_asked_of_a_run_and_what_stops_it_comes_before_what_the_endpoint_suffers(
    run: RunFacts, expected: Closed
) -> None:
    results = of(run, stopped="no such endpoint", suspect_until=LATER)
    assert narrowest(results) == expected
    assert first_hold(results) == expected.hold
    wished = expected.hold if expected.hold.gate in (Gate.PAUSED, Gate.CANCELLED) else None
    assert requested_stop(cancelled=run.cancelled, paused=run.paused) == wished


def test_a_pause_leaves_what_is_claimed_to_be_sent_and_a_stop_takes_it_back() -> None:
    assert not recalls(of(RunFacts(paused=True)))
    assert recalls(of(RunFacts(paused=True), stopped="no such endpoint"))
    assert recalls(of(RunFacts(stopped="it fails")))


def test_a_stopped_endpoint_is_closed_until_it_is_probed() -> None:
    why = Hold(Gate.STOPPED, "no such endpoint")
    assert why.sentence == f"{STOPPED}: no such endpoint"
    assert narrowest(of(stopped="no such endpoint", probed_at=LATER)) == Closed(why, LATER, recalls=True)
    assert narrowest(of(stopped="no such endpoint", probed_at=NOW)) == Closed(why, recalls=True)
    assert narrowest(of(stopped="no such endpoint")) == Closed(why, recalls=True)


def test_a_suspect_endpoint_says_until_when_it_is() -> None:
    until = round(datetime(2026, 1, 1, 14, 5, 59, tzinfo=UTC).timestamp() * 1e6)
    told = "the service no longer knows many of our jobs; sending is paused until 14:05 UTC"
    assert suspected(until) == told


def test_a_suspect_endpoint_is_closed_unless_single_submissions_find_out_anyway() -> None:
    assert narrowest(of(suspect_until=LATER)) == Closed(shown(Gate.SUSPECT, suspected(LATER)), LATER)
    assert narrowest(of(suspect_until=NOW)) == ANY
    assert narrowest(of(suspect_until=LATER, submissions_refused_until=NOW)) == Open(1)


def test_while_submissions_are_refused_single_ones_go_at_pauses() -> None:
    assert narrowest(of(submissions_refused_until=LATER)) == Closed(shown(Gate.REFUSED, REFUSED), LATER, recalls=True)
    assert narrowest(of(submissions_refused_until=NOW)) == Open(1)
    assert narrowest(of(submissions_refused_until=NOW, in_flight=3)) == Open(0)
    assert first_hold(of(submissions_refused_until=NOW)) == shown(Gate.REFUSED, REFUSED)


def test_while_questions_are_refused_nothing_is_sent_until_the_next_one_can_have_been_answered() -> None:
    assert narrowest(of(questions_refused_until=NOW)) == Closed(shown(Gate.REFUSED, REFUSED), NOW + PAUSE_US_MAX)
    assert narrowest(of(questions_refused_until=NOW - PAUSE_US_MAX)) == ANY


def test_while_no_submission_is_answered_single_ones_go_at_pauses() -> None:
    assert narrowest(of(unanswered_until=LATER)) == Closed(shown(Gate.UNANSWERED, UNANSWERED), LATER)
    assert narrowest(of(unanswered_until=LATER, by_retry=True)) == Closed(shown(Gate.UNANSWERED, UNANSWERED), LATER)
    assert narrowest(of(unanswered_until=NOW)) == Open(1)
    assert narrowest(of(unanswered_until=NOW, in_flight=1)) == Open(0)
    assert narrowest(of(unanswered_until=NOW, in_flight=1, by_retry=True)) == ANY
    assert first_hold(of(unanswered_until=NOW)) == shown(Gate.UNANSWERED, UNANSWERED)
    assert not recalls(of(unanswered_until=LATER))


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 1_000),
        ({"running": 50}, 1_050),
        ({"finished_per_s": 10.0, "at_service": 100}, 5_900),
        ({"queue_depth": 7, "at_service": 3}, 4),
        ({"queue_depth": 7, "at_service": 9}, 0),
        ({"queue_depth": "off", "status_per_s": 0.1}, 120),
        ({"queue_depth": "off", "status_per_s": 0.1, "at_service": 130}, 0),
        ({"line_is_full": True}, 0),
        ({"input_bytes": 0}, 0),
    ],
)
def test_the_narrowest_of_what_can_be_collected_and_of_the_queue_s_depth_is_the_room(
    changes: dict[str, object], most: int
) -> None:
    assert narrowest(room_results(msgspec.structs.replace(FREE, **changes), NOW)) == Open(most)


RESULTS = st.lists(
    st.one_of(
        st.builds(Open, st.none() | st.integers(0, 9)),
        st.builds(Closed, st.builds(Hold, st.sampled_from(list(Gate)), st.just("")), st.none() | st.integers(0, 9)),
    ),
    max_size=8,
)


@given(results=RESULTS)
def test_the_first_that_is_closed_counts_and_else_the_narrowest(results: list[GateResult]) -> None:
    closed = [result for result in results if isinstance(result, Closed)]
    bounds = [result.most for result in results if isinstance(result, Open) and result.most is not None]
    expected: GateResult = closed[0] if closed else Open(min(bounds, default=None))
    assert narrowest(results) == expected
    assert first_hold(results) == (closed[0].hold if closed else None)


def test_a_run_that_has_nothing_at_the_service_does_not_wait_for_the_queue_of_others() -> None:
    deep = msgspec.structs.replace(FREE, at_service=5_000, own=5_000)
    assert is_deep(deep)
    assert shallow(deep, NOW) == Open(0)
    assert shallow(msgspec.structs.replace(deep, own=0), NOW) == Open(1)
    assert not is_deep(FREE)
    assert not is_deep(msgspec.structs.replace(deep, queue_depth="off"))
