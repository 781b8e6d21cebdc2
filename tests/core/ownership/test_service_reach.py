"""Who gets no answer from the service hands over what it has there, once, and stands back."""

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.ownership.lease import TRUST_US
from orchestrator.core.ownership.service_reach import (
    FORGOTTEN_US,
    RECENT_US,
    UNREACHED_US,
    EndpointReach,
    ServiceReach,
    ShardReach,
    shard_reach,
)
from orchestrator.core.ownership.shard_bids import LEFT_LONG_US, LEFT_OVER_US, Shard, ShardBids
from orchestrator.units import MILLISECOND_US, SECOND_US

NOW = 1_000 * SECOND_US
LOOK_US = 250 * MILLISECOND_US
ANSWERED = ShardReach(0, is_answered=True)
OTHERS = (12, 13)


class Process:
    """One that looks at the ledger four times a second."""

    def __init__(self) -> None:
        self.reach = ServiceReach()
        self.at = NOW
        self.mine = {1, 2}
        self.failing_since: dict[int, int] = {}
        self.answered = {1, 2}

    def looks(self, for_us: int, others: Collection[int] = OTHERS) -> set[int]:
        """What it hands over after so long; until then it hands over nothing."""
        end = self.at + for_us
        while self.at < end:
            assert self._looks(others) == set(), self.at - NOW
            self.at += LOOK_US
        return self._looks(others)

    def _looks(self, others: Collection[int]) -> set[int]:
        reaches = [
            (shard, ShardReach(self.at - self.failing_since[shard], is_answered=False))
            if shard in self.failing_since
            else (shard, ShardReach(0, is_answered=shard in self.answered))
            for shard in self.mine
        ]
        return self.reach.to_hand_over(self.mine, reaches, others, self.at)

    def fails(self, *shards: int) -> None:
        self.failing_since |= dict.fromkeys(shards, self.at)


def test_what_was_not_answered_for_long_enough_is_handed_over_until_it_has_gone() -> None:
    process = Process()
    process.looks(10 * SECOND_US)
    process.fails(1)
    assert process.looks(UNREACHED_US) == {1}
    process.at += LOOK_US
    assert process._looks(OTHERS) == {1}
    process.mine.remove(1)
    assert process.looks(60 * SECOND_US) == set()


def test_all_that_is_not_answered_is_handed_over() -> None:
    process = Process()
    process.looks(SECOND_US)
    process.fails(1, 2)
    assert process.looks(UNREACHED_US) == {1, 2}


def test_it_is_handed_over_to_nobody() -> None:
    process = Process()
    process.fails(1)
    assert process.looks(5 * UNREACHED_US, others=()) == set()
    assert not process.reach.stands_back(())
    assert process._looks(OTHERS) == {1}, "somebody has come"


def test_what_comes_back_unanswered_is_kept() -> None:
    process = Process()
    process.fails(1)
    assert process.looks(UNREACHED_US) == {1}
    process.mine, process.answered = {2}, {2}
    process.looks(SECOND_US)
    process.mine.add(1)
    assert process.looks(5 * UNREACHED_US) == set()


def test_once_it_was_answered_it_may_be_handed_over_again() -> None:
    process = Process()
    process.fails(1)
    assert process.looks(UNREACHED_US) == {1}
    process.mine, process.answered = {2}, {2}
    process.looks(SECOND_US)
    process.mine, process.failing_since = {1, 2}, {}
    process.looks(SECOND_US)
    assert process.reach.stands_back(OTHERS), "nothing was asked there yet"
    process.answered.add(1)
    process.looks(SECOND_US)
    assert not process.reach.stands_back(OTHERS)
    process.fails(1)
    assert process.looks(UNREACHED_US) == {1}


def test_what_is_answered_while_it_goes_over_stays() -> None:
    process = Process()
    process.fails(1)
    assert process.looks(UNREACHED_US) == {1}
    process.failing_since = {}
    assert process._looks(OTHERS) == set()
    assert not process.reach.stands_back(OTHERS)


def test_long_ago_is_forgotten() -> None:
    process = Process()
    process.fails(1)
    assert process.looks(UNREACHED_US) == {1}
    process.mine.remove(1)
    process.looks(FORGOTTEN_US - LOOK_US)
    assert process.reach.stands_back(OTHERS)
    process.looks(LOOK_US)
    assert not process.reach.stands_back(OTHERS)
    process.mine.add(1)
    assert process._looks(OTHERS) == {1}


def test_while_it_could_not_look_at_the_ledger_it_could_not_send_either() -> None:
    process = Process()
    process.looks(SECOND_US)
    process.fails(1)
    process.at += UNREACHED_US
    assert process.looks(UNREACHED_US) == {1}
    process = Process()
    process.looks(SECOND_US)
    process.fails(1)
    process.at += TRUST_US
    assert process.looks(UNREACHED_US - TRUST_US) == {1}, "a look that took long is no such time"


def test_a_shard_is_reached_as_long_as_one_of_its_endpoints_answers() -> None:
    down = EndpointReach(NOW - 300 * SECOND_US, 300 * SECOND_US)
    assert shard_reach([], NOW) == ShardReach(0, is_answered=False)
    assert shard_reach([EndpointReach(0, None)], NOW) == ShardReach(0, is_answered=False)
    assert shard_reach([EndpointReach(NOW - 99 * SECOND_US, None)], NOW) == ANSWERED
    assert shard_reach([down, EndpointReach(NOW - SECOND_US, None)], NOW) == ShardReach(SECOND_US, is_answered=True)
    late = EndpointReach(NOW - RECENT_US, None)
    assert shard_reach([down, late], NOW) == ShardReach(RECENT_US, is_answered=False)
    assert shard_reach([down, EndpointReach(0, 40 * SECOND_US)], NOW) == ShardReach(300 * SECOND_US, is_answered=False)
    assert shard_reach([EndpointReach(0, 40 * SECOND_US)], NOW) == ShardReach(40 * SECOND_US, is_answered=False)
    ahead = EndpointReach(NOW + SECOND_US, None)
    assert shard_reach([down, ahead], NOW) == ANSWERED, "a clock was set back"


def test_who_stands_back_takes_what_nobody_else_has_taken_and_asks_for_nothing() -> None:
    bids = ShardBids(11)
    bids.stands_back = True
    free = [Shard(1, None), Shard(2, None, wanted_by=11)]
    assert bids.to_take(free, OTHERS, NOW) == [2], "this one it has asked for"
    assert bids.to_take(free, OTHERS, NOW + LEFT_OVER_US) == [2]
    assert bids.to_take(free, OTHERS, NOW + LEFT_LONG_US) == [1, 2]


@given(st.integers(min_value=2, max_value=5), st.integers(min_value=1, max_value=4))
def test_where_nobody_gets_an_answer_a_shard_comes_to_each_once_and_stays_with_the_last(
    among: int, shards: int
) -> None:
    processes = {number: (ServiceReach(), ShardBids(number)) for number in range(among)}
    held = [Shard(number, 0) for number in range(1, shards + 1)]
    taken_at, moves, owners = {each.number: NOW for each in held}, 0, {0}
    longest_us = (among + 1) * (UNREACHED_US + LEFT_LONG_US + SECOND_US)  # and one time more, to see that it stays
    for at in range(NOW, NOW + longest_us, LOOK_US):
        for me, (reach, bids) in processes.items():
            others = processes.keys() - {me}
            mine = [each.number for each in held if each.owner == me]
            reaches = [(number, ShardReach(at - taken_at[number], is_answered=False)) for number in mine]
            given_up = reach.to_hand_over(mine, reaches, others, at)
            held = [each._replace(owner=None) if each.number in given_up else each for each in held]
            bids.stands_back = reach.stands_back(others)
            taken = set(bids.to_take(held, others, at))
            moves += len(taken)
            taken_at |= dict.fromkeys(taken, at)
            held = [each._replace(owner=me) if each.number in taken else each for each in held]
            owners |= {me} if taken else set()
    assert len(owners) > 1
    assert moves <= shards * among
    assert all(each.owner is not None for each in held)
