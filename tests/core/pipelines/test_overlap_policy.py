"""What becomes of fires that meet each other: each case of the table, and what holds for all."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.pipelines.flow_lifecycle import BEGUN, FlowKind, FlowState
from orchestrator.core.pipelines.overlap_policy import (
    NEWER,
    STILL_RUNNING,
    TOO_MANY,
    WAITING_MAX,
    BackfillPace,
    Live,
    backfill_left_us,
    rule,
    startable,
)
from orchestrator.core.pipelines.pipeline import Overlap

WAITING, RUNNING, HELD = FlowState.WAITING, FlowState.RUNNING, FlowState.ON_HOLD
BACKFILL, TRIGGERED = FlowKind.BACKFILL, FlowKind.TRIGGERED
NOW = 10_000


def live(id_: int, state: FlowState, kind: FlowKind = FlowKind.SCHEDULED, *, parallel: int = 1) -> Live:
    """A flow whose fire is the later the higher its number."""
    return Live(id_, kind, state, id_, NOW, parallel=parallel)


def test_in_a_queue_everything_waits() -> None:
    ruled = rule(Overlap.QUEUE, 1, [3, 4], [live(1, RUNNING), live(2, WAITING)])
    assert ruled == ({}, {}, {})


def test_of_a_full_queue_the_newest_are_skipped() -> None:
    waiting = [live(n, WAITING) for n in range(WAITING_MAX - 1)]
    assert rule(Overlap.QUEUE, 1, [200, 201, 202], waiting).skipped == {201: TOO_MANY, 202: TOO_MANY}


def test_what_a_person_asked_for_takes_no_place_in_the_queue() -> None:
    asked = [live(n, WAITING, kind) for n in range(WAITING_MAX) for kind in (BACKFILL, TRIGGERED)]
    assert rule(Overlap.QUEUE, 1, [200], asked).skipped == {}


def test_of_the_latest_one_waits_and_older_ones_are_skipped() -> None:
    flows = [live(1, RUNNING), live(2, WAITING), live(3, WAITING, TRIGGERED)]
    assert rule(Overlap.LATEST, 1, [4, 5, 6], flows) == ({4: NEWER, 5: NEWER}, {2: NEWER}, {})
    assert rule(Overlap.LATEST, 1, [], flows) == ({}, {}, {})


def test_with_skip_a_fire_is_skipped_while_as_many_run_as_may() -> None:
    assert rule(Overlap.SKIP, 2, [3, 4], [live(1, RUNNING)]).skipped == {4: STILL_RUNNING}
    assert rule(Overlap.SKIP, 1, [3], [live(1, HELD)]).skipped == {3: STILL_RUNNING}
    assert rule(Overlap.SKIP, 1, [3], [live(1, RUNNING, BACKFILL)]).skipped == {}


def test_with_replace_the_oldest_is_cancelled() -> None:
    flows = [live(2, RUNNING), live(1, RUNNING)]
    assert rule(Overlap.REPLACE, 2, [3], flows) == ({}, {}, {1: NEWER})
    assert rule(Overlap.REPLACE, 2, [3, 4, 5], flows) == ({3: NEWER}, {}, {1: NEWER, 2: NEWER})
    assert rule(Overlap.REPLACE, 1, [], flows) == ({}, {}, {})


def test_with_replace_one_that_waits_for_the_end_of_another_is_replaced_too() -> None:
    ending = Live(1, FlowKind.SCHEDULED, RUNNING, 1, NOW, is_cancelled=True)
    assert rule(Overlap.REPLACE, 1, [3], [ending, live(2, WAITING)]) == ({}, {2: NEWER}, {})


def test_flows_begin_in_the_order_of_their_fires_as_many_as_may_at_once() -> None:
    flows = [live(3, WAITING), live(2, WAITING), live(1, RUNNING)]
    assert startable(1, flows, NOW) == []
    assert startable(2, flows, NOW) == [2]
    assert startable(9, flows, NOW) == [2, 3]


def test_one_that_is_not_due_yet_does_not_begin_and_holds_up_nobody() -> None:
    put_off = Live(2, FlowKind.SCHEDULED, WAITING, 2, NOW + 1)
    assert startable(1, [put_off, live(3, WAITING)], NOW) == [3]
    assert startable(1, [put_off, live(3, WAITING, BACKFILL)], NOW) == [3]
    assert startable(1, [put_off, live(3, WAITING)], NOW + 1) == [2]


def test_one_that_is_held_or_is_being_cancelled_has_its_place_until_it_has_ended() -> None:
    ending = Live(1, FlowKind.SCHEDULED, RUNNING, 1, NOW, is_cancelled=True)
    assert startable(1, [live(1, HELD), live(2, WAITING)], NOW) == []
    assert startable(1, [ending, live(2, WAITING)], NOW) == []


def test_backfills_stand_behind_and_have_places_of_their_own() -> None:
    backfills = [live(n, WAITING, BACKFILL, parallel=2) for n in (1, 2, 3)]
    assert startable(1, [*backfills, live(9, RUNNING), live(10, WAITING)], NOW) == []
    assert startable(1, [*backfills, live(9, RUNNING)], NOW) == [1, 2]
    assert startable(1, [*backfills, live(9, WAITING)], NOW) == [9, 1, 2]
    assert startable(1, [live(0, RUNNING, BACKFILL), *backfills], NOW) == [1]


lives = st.builds(
    lambda id_, state, kind, cancelled: Live(
        id_, kind, state, id_, NOW, is_cancelled=cancelled and state is not FlowState.WAITING
    ),
    st.integers(1, 500),
    st.sampled_from([WAITING, RUNNING, HELD]),
    st.sampled_from(FlowKind),
    st.booleans(),
)


@given(st.sampled_from(Overlap), st.integers(1, 4), st.integers(0, 5), st.lists(lives, unique_by=lambda flow: flow.id))
def test_whatever_meets_no_fire_is_forgotten_and_never_too_many_run(
    overlap: Overlap, parallel: int, new: int, flows: list[Live]
) -> None:
    fires = list(range(1_000, 1_000 + new))
    ruled = rule(overlap, parallel, fires, flows)
    assert set(ruled.skipped) <= set(fires)
    by_id = {flow.id: flow for flow in flows}
    assert all(by_id[n].state is WAITING for n in ruled.dropped)
    assert all(by_id[n].state is not WAITING for n in ruled.cancelled)
    if new and overlap in (Overlap.LATEST, Overlap.REPLACE):
        assert fires[-1] not in ruled.skipped  # the newest is what these are for

    left = [flow for flow in flows if flow.id not in ruled.dropped]
    left += [live(fire, WAITING) for fire in fires if fire not in ruled.skipped]
    begun = set(startable(parallel, left, NOW))
    scheduled = [flow for flow in left if flow.kind is not BACKFILL]
    now = sum(flow.state in BEGUN for flow in scheduled)
    assert now + sum(flow.id in begun for flow in scheduled) <= max(parallel, now)


def test_a_backfill_takes_as_long_as_its_flows_took_so_far_as_many_at_once_as_may() -> None:
    pace = BackfillPace(parallel=2, waiting=4, begun=2, begun_us=14, ended=3, ended_us=30)
    assert backfill_left_us(pace) == (4 * 10 + 2 * 10 - 14) // 2
    assert backfill_left_us(pace._replace(waiting=0, begun=1, begun_us=4)) == 6, "only one is left to run"


def test_of_a_backfill_nothing_is_foretold_before_a_flow_has_ended_nor_once_the_last_ones_take_longer() -> None:
    pace = BackfillPace(parallel=1, waiting=1, begun=0, begun_us=0, ended=0, ended_us=0)
    assert backfill_left_us(pace) is None
    assert backfill_left_us(pace._replace(waiting=0, ended=1, ended_us=9)) is None, "all have ended"
    assert backfill_left_us(pace._replace(waiting=0, begun=1, begun_us=10, ended=1, ended_us=9)) is None
