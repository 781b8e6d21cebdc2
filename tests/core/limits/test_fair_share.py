"""Turns by weight."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.limits.fair_share import PRIORITY_MAX, FairShare, weight_of

QUANTUM = 25


def play(share: FairShare, weights: Mapping[int, float], turns: int) -> Counter[int]:
    """How many jobs each of the runs sends in so many turns, all of them having enough."""
    sent = Counter[int]()
    for _ in range(turns):
        run = share.next(weights)
        share.sent(run, QUANTUM, weights[run])
        sent[run] += QUANTUM
    return sent


@pytest.mark.parametrize(
    ("priorities", "ratio"), [((0, 0), 1.0), ((1, 0), 1.25), ((10, 0), 9.313), ((5, -5), 9.313), ((10, -10), 86.7)]
)
def test_two_runs_share_by_their_weights(priorities: tuple[int, int], ratio: float) -> None:
    sent = play(FairShare(), dict(enumerate(map(weight_of, priorities))), 4_000)
    assert sent[0] / sent[1] == pytest.approx(ratio, rel=0.02)


@pytest.mark.no_cover
@given(st.lists(st.integers(-PRIORITY_MAX, PRIORITY_MAX), min_size=1, max_size=20))
def test_nobody_starves_and_everybody_is_within_a_turn_of_what_is_due_to_him(priorities: list[int]) -> None:
    weights = dict(enumerate(map(weight_of, priorities)))
    sent = play(FairShare(), weights, 2_000)
    shares = [sent[run] / weight for run, weight in weights.items()]
    assert max(shares) - min(shares) <= QUANTUM / min(weights.values()) + 1e-6


def test_who_comes_goes_next_and_gets_nothing_for_the_time_before() -> None:
    share = FairShare()
    play(share, {1: 1.0, 2: 1.0}, 10_000)
    later = play(share, {1: 1.0, 2: 1.0, 3: 1.0}, 300)
    assert max(later.values()) - min(later.values()) <= QUANTUM


def test_who_was_away_is_owed_nothing() -> None:
    share = FairShare()
    play(share, {1: 1.0, 2: 1.0}, 100)
    play(share, {1: 1.0}, 1_000)
    assert play(share, {1: 1.0, 2: 1.0}, 100) == {1: 50 * QUANTUM, 2: 50 * QUANTUM}


def test_a_small_run_beside_a_long_one_goes_at_the_second_turn_at_the_latest() -> None:
    share = FairShare()
    play(share, {1: weight_of(10)}, 5_000)
    weights = {1: weight_of(10), 2: weight_of(-10)}
    turns = []
    for _ in range(2):
        turns.append(run := share.next(weights))
        share.sent(run, QUANTUM, weights[run])
    assert 2 in turns


def test_a_run_that_has_ended_is_forgotten() -> None:
    share = FairShare()
    play(share, {1: 1.0, 2: 1.0}, 10)
    share.forget(2)
    share.forget(3)
    assert share.next({1: 1.0, 2: 1.0}) in (1, 2)


def test_a_run_forgotten_between_its_turn_and_its_sending_does_not_come_back() -> None:
    share = FairShare()
    play(share, {1: 1.0, 2: 1.0}, 10)
    assert share.next({1: 1.0, 2: 1.0}) == 1
    share.forget(1)
    share.sent(1, QUANTUM, 1.0)
    assert share.next({1: 1.0, 2: 1.0}) == 1  # as one that is new, and the first of the two
