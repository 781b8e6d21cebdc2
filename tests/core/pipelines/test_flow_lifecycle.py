"""The life of a flow: every state, every event."""

import pytest

from orchestrator.core.pipelines.flow_lifecycle import (
    BEGUN,
    ENDED,
    LIVE,
    TRANSITIONS,
    FlowEvent,
    FlowKind,
    FlowState,
    after,
    before,
    flow_end,
    late_from,
)


def reached(state: FlowState) -> set[FlowState]:
    """All states that can follow, however long it takes."""
    found: set[FlowState] = set()
    ahead = [state]
    while ahead:
        new = set(TRANSITIONS[ahead.pop()].values()) - found
        found |= new
        ahead += new
    return found


def test_every_state_has_a_row_can_be_reached_and_comes_to_an_end() -> None:
    assert set(TRANSITIONS) == set(FlowState)
    assert reached(FlowState.WAITING) == set(FlowState) - {FlowState.WAITING}
    assert all(reached(state) & ENDED for state in LIVE)


def test_only_a_person_who_has_something_done_again_leads_out_of_an_end() -> None:
    assert {event for state in ENDED for event in TRANSITIONS[state]} == {FlowEvent.REOPENED}
    assert set(FlowState) == ENDED | LIVE
    assert set() == ENDED & LIVE
    assert {FlowState.RUNNING, FlowState.ON_HOLD} == BEGUN


@pytest.mark.parametrize("event", FlowEvent)
def test_an_event_leads_to_one_state_wherever_it_may_happen(event: FlowEvent) -> None:
    assert before(event)
    assert {TRANSITIONS[state][event] for state in before(event)} == {after(event)}


def test_a_flow_that_waits_can_begin_be_cancelled_or_be_skipped() -> None:
    assert set(TRANSITIONS[FlowState.WAITING]) == {FlowEvent.STARTED, FlowEvent.CANCELLED, FlowEvent.SKIPPED}


@pytest.mark.parametrize(
    ("succeeded", "others", "event"),
    [(3, 0, FlowEvent.SUCCEEDED), (3, 1, FlowEvent.PARTIAL), (0, 2, FlowEvent.FAILED), (0, 0, FlowEvent.SUCCEEDED)],
)
def test_how_a_flow_ends_is_told_by_its_last_jobs(succeeded: int, others: int, event: FlowEvent) -> None:
    assert flow_end(succeeded=succeeded, others=others) is event


@pytest.mark.parametrize(
    ("kind", "recorded_at", "started_at", "due_at", "since"),
    [
        (FlowKind.SCHEDULED, 5_000, None, 1_007, 1_000),  # made up for: it is late, and its jitter makes it no later
        (FlowKind.SCHEDULED, 1_001, 3_000, 1_007, 1_000),  # others were before it: that makes it no later, either
        (FlowKind.BACKFILL, 5_000, 5_001, 0, 5_001),
        (FlowKind.BACKFILL, 5_000, 8_000, 0, 8_000),  # others were before it, as they should
        (FlowKind.BACKFILL, 5_000, None, 0, None),
        (FlowKind.TRIGGERED, 500, None, 0, 1_000),  # for a time to come
        (FlowKind.TRIGGERED, 5_000, None, 0, 5_000),
        (FlowKind.SCHEDULED, 1_001, 9_000, 9_000, 9_000),  # it had ended, and went on when somebody asked for that
        (FlowKind.BACKFILL, 5_000, 9_000, 9_000, 9_000),
    ],
)
def test_a_flow_is_late_from_its_fire_from_when_it_was_asked_for_or_from_its_turn_in_a_backfill(
    kind: FlowKind, recorded_at: int, started_at: int | None, due_at: int, since: int | None
) -> None:
    found = late_from(kind, fire_at=1_000, recorded_at=recorded_at, started_at=started_at, due_at=due_at, jitter_us=10)
    assert found == since
