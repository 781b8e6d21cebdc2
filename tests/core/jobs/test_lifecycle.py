"""The table of a job's life: every pair of state and event, and what can be reached."""

from collections.abc import Mapping
from itertools import product

import pytest

from orchestrator.core.jobs.lifecycle import (
    TERMINAL,
    TRANSITIONS,
    Event,
    IllegalStep,
    State,
    ended,
    is_legal,
    next_state,
    replay,
    unfinished,
)

LEGAL = {
    "queued": {"claimed": "submitting", "completed": "succeeded", "abandoned": "failed", "cancelled": "cancelled"},
    "submitting": {
        "accepted": "outstanding",
        "adopted": "outstanding",
        "unanswered": "uncertain",
        "deferred": "queued",
        "retried": "queued",
        "completed": "succeeded",
        "abandoned": "failed",
    },
    "uncertain": {
        "adopted": "outstanding",
        "retried": "queued",
        "completed": "succeeded",
        "abandoned": "failed",
        "cancelled": "cancelled",
    },
    "outstanding": {
        "deferred": "queued",
        "retried": "queued",
        "continued": "queued",
        "completed": "succeeded",
        "abandoned": "failed",
        "cancelled": "cancelled",
    },
    "succeeded": {"revoked": "failed"},
    "failed": {"completed": "succeeded", "reopened": "queued"},
    "cancelled": {"completed": "succeeded", "reopened": "queued"},
}
"""The table once more, in words: whoever changes it has to mean it."""


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair_of_state_and_event_leads_where_the_table_says_or_is_illegal(state: State, event: Event) -> None:
    expected = LEGAL[state.value].get(event.value)

    assert is_legal(state, event) is (expected is not None)
    if expected is not None:
        assert next_state(state, event) is State(expected)
    else:
        with pytest.raises(IllegalStep, match=f"a job that is {state} cannot be {event}") as caught:
            next_state(state, event)
        assert (caught.value.state, caught.value.event) == (state, event)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(State)


def _where(event: Event) -> set[State]:
    return {state for state in State if is_legal(state, event)}


def test_a_result_is_welcome_whenever_it_comes_unless_there_is_one() -> None:
    assert _where(Event.COMPLETED) == set(State) - {State.SUCCEEDED}


def test_a_webhook_can_beat_the_answer_to_a_submission() -> None:
    assert _where(Event.ADOPTED) == {State.SUBMITTING, State.UNCERTAIN}


def test_only_a_person_reopens_and_only_what_did_not_succeed() -> None:
    assert _where(Event.REOPENED) == {State.FAILED, State.CANCELLED}
    assert set(TRANSITIONS[State.FAILED]) == set(TRANSITIONS[State.CANCELLED]) == {Event.COMPLETED, Event.REOPENED}


def test_a_succeeded_job_has_no_future_unless_a_person_changes_what_a_result_is() -> None:
    assert dict(TRANSITIONS[State.SUCCEEDED]) == {Event.REVOKED: State.FAILED}
    assert _where(Event.REVOKED) == {State.SUCCEEDED}


def _reachable(start: State, table: Mapping[State, Mapping[Event, State]] = TRANSITIONS) -> set[State]:
    found, edge = {start}, [start]
    while edge:
        new = set(table[edge.pop()].values()) - found
        found |= new
        edge += new
    return found


def test_every_state_can_be_reached_from_queued() -> None:
    assert _reachable(State.QUEUED) == set(State)


@pytest.mark.parametrize("state", State)
def test_an_end_can_be_reached_from_every_state(state: State) -> None:
    assert _reachable(state) & TERMINAL


def test_the_ends_are_the_states_that_are_left_for_another_end_only_unless_a_person_reopens_the_job() -> None:
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED} == TERMINAL
    for state in State:
        left_for = {after for event, after in TRANSITIONS[state].items() if event is not Event.REOPENED}
        assert (left_for <= TERMINAL) is (state in TERMINAL)


def test_nothing_is_sent_for_a_job_at_an_end_unless_a_person_reopens_it() -> None:
    table: dict[State, dict[Event, State]] = {
        state: {event: after for event, after in row.items() if event is not Event.REOPENED}
        for state, row in TRANSITIONS.items()
    }
    assert {state for state in State if State.SUBMITTING not in _reachable(state, table)} == TERMINAL


def test_events_are_replayed_from_queued_and_lead_nowhere_where_one_is_illegal_or_unknown() -> None:
    assert replay([]) is State.QUEUED
    assert replay(["claimed", Event.ACCEPTED, "completed"]) is State.SUCCEEDED
    assert replay(["claimed", "claimed"]) is None
    assert replay(["beamed"]) is None


def test_unfinished_are_the_jobs_that_are_not_at_an_end() -> None:
    assert unfinished({}) == 0
    assert unfinished({state.value: 1 for state in State}) == len(State) - len(TERMINAL)


def test_jobs_have_ended_or_are_unfinished() -> None:
    counts = {
        State.SUCCEEDED: 3,
        State.FAILED: 2,
        State.CANCELLED: 1,
        State.QUEUED: 5,
        State.OUTSTANDING: 4,
        "total": 15,
    }
    assert (ended(counts), unfinished(counts)) == (6, 9)
