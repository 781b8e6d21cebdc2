"""Which request of a batch is which row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.batches.appends import PROVEN_BY, SHOWN_BY, Matched, Mixed, round_of, what_is_in
from orchestrator.core.batches.why import ENDS_THE_LANE, SENTENCES, Why
from orchestrator.core.service.batches import PAGE_REQUESTS

KNOWN = tuple(f"k{n}" for n in range(PROVEN_BY))


@pytest.mark.parametrize("is_by_place", [True, False])
@pytest.mark.parametrize(
    ("listed", "pending", "found"),
    [
        (KNOWN, 3, Matched(())),
        ((*reversed(KNOWN),), 3, Matched(())),
        ((*KNOWN, "a"), 1, Matched(("a",))),
        ((*KNOWN, "a", "b", "c"), 3, Matched(("a", "b", "c"))),
        ((*KNOWN, "a", "b"), 1, Mixed(Why.FOREIGN)),
        ((*KNOWN, "a", "a"), 3, Mixed(Why.FOREIGN)),
        (KNOWN[1:], 1, Mixed(Why.FEWER)),
        ((*KNOWN[1:], "a"), 1, Mixed(Why.FEWER)),
    ],
)
def test_places_behind_those_that_are_known_tell(
    listed: tuple[str, ...], pending: int, found: Matched | Mixed, is_by_place: bool
) -> None:
    assert what_is_in(KNOWN, listed, pending=pending, is_by_place=is_by_place) == found


def test_rows_that_were_added_one_by_one_may_be_there_in_part() -> None:
    assert what_is_in(["k"], ["k", "a"], pending=3, is_by_place=True) == Matched(("a",))
    assert what_is_in(KNOWN, [*KNOWN, "a"], pending=3, is_by_place=False) == Mixed(Why.PARTLY)


def test_within_an_append_of_several_rows_places_tell_only_where_answers_have_shown_that_they_do() -> None:
    few = KNOWN[:-1]
    assert what_is_in(few, [*few, "a", "b"], pending=2, is_by_place=False) == Mixed(Why.UNTOLD)
    assert what_is_in(few, [*few, "a"], pending=1, is_by_place=False) == Matched(("a",))
    assert what_is_in((), ["a"], pending=1, is_by_place=False) == Matched(("a",))


@given(st.permutations(KNOWN).filter(lambda order: tuple(order) != KNOWN), st.booleans())
def test_where_places_do_not_keep_the_order_nothing_is_told(order: list[str], is_by_place: bool) -> None:
    why = Why.DISORDER if is_by_place else Why.UNTOLD
    assert what_is_in(KNOWN, [*order, "a"], pending=1, is_by_place=is_by_place) == Mixed(why)


def test_the_first_rows_are_looked_at_one_by_one() -> None:
    assert [round_of(known) for known in (0, SHOWN_BY - 1, SHOWN_BY, 4_000)] == [1, 1, PAGE_REQUESTS, PAGE_REQUESTS]


def test_each_reason_has_a_sentence_and_only_those_end_the_lane_that_another_batch_would_meet_again() -> None:
    assert set(SENTENCES) == set(Why)
    assert all(why.sentence for why in Why)
    assert {Why.DISORDER, Why.UNNAMED} == ENDS_THE_LANE
