"""Who serves a ledger together comes to have about as many shards, and nobody asks for what helps nobody."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.ownership.shard_bids import (
    ASK_US,
    FEWER,
    KEEPERS,
    LEFT_OVER_US,
    LEFT_TO_ANY_US,
    LET_GO_US,
    SETTLED_US,
    Ability,
    Merging,
    Pair,
    Shard,
    ShardBids,
    merging,
)
from orchestrator.core.ownership.shard_duties import shard_duties
from orchestrator.units import MILLISECOND_US, SECOND_US

NOW = 1_000 * SECOND_US
LOOK_US = 250 * MILLISECOND_US
A, B, C = 11, 12, 13


def free(*numbers: int) -> list[Shard]:
    return [Shard(number, None) for number in numbers]


def test_one_that_is_alone_takes_all_at_once() -> None:
    assert ShardBids(A).to_take(free(2, 0, 1), [], NOW) == [0, 1, 2]


def test_of_several_each_takes_its_part_and_no_two_the_same() -> None:
    taken = [ShardBids(me).to_take(free(0, 1, 2, 3, 4), {A, B, C} - {me}, NOW) for me in (A, B, C)]
    assert taken == [[0, 3], [1, 4], [2]]


def test_whoever_has_the_fewest_comes_first() -> None:
    shards = [Shard(KEEPERS, B), Shard(1, A), Shard(2, A), Shard(4, B), *free(3)]
    assert ShardBids(A).to_take(shards, [B], NOW) == []
    assert ShardBids(B).to_take(shards, [A], NOW) == [3]


def test_what_nobody_has_taken_for_a_while_is_anybodys() -> None:
    bids, shards = ShardBids(A), [Shard(2, A), *free(1)]
    assert bids.to_take(shards, [B], NOW) == []
    assert bids.to_take(shards, [B], NOW + LEFT_OVER_US - 1) == []
    assert bids.to_take(shards, [B], NOW + LEFT_OVER_US) == [1]


def test_the_while_begins_anew_where_somebody_had_it_meanwhile() -> None:
    bids = ShardBids(A)
    for owner, at in ((None, 0), (B, LEFT_OVER_US - 1), (None, LEFT_OVER_US)):
        assert bids.to_take([Shard(2, A), Shard(1, owner)], [B], NOW + at) == []


def test_one_that_is_wanted_is_left_to_who_wants_it() -> None:
    shards = [Shard(1, None, wanted_by=B)]
    for me, taken in ((A, []), (B, [1])):
        bids = ShardBids(me)
        assert bids.to_take(shards, {A, B} - {me}, NOW) == taken
        assert bids.to_take(shards, {A, B} - {me}, NOW + LEFT_OVER_US) == taken


def able(ability: Ability, *numbers: int) -> list[Shard]:
    return [Shard(number, None, ability=ability) for number in numbers]


@pytest.mark.parametrize("ability", [Ability.LACKS, Ability.UNKNOWN])
def test_who_cannot_serve_a_shard_leaves_it_to_the_others_and_has_it_once_these_had_their_chance(
    ability: Ability,
) -> None:
    bids, shards = ShardBids(A), [*able(ability, KEEPERS, 1), Shard(2, B)]
    assert bids.to_take(shards, [B], NOW) == []
    assert bids.to_take(shards, [B], NOW + LEFT_TO_ANY_US - 1) == []
    assert bids.to_take(shards, [B], NOW + LEFT_TO_ANY_US) == [KEEPERS, 1]
    assert ShardBids(A).to_take(shards, [], NOW) == [KEEPERS, 1], "there is nobody else"
    wanted = [each._replace(wanted_by=B) for each in shards]
    assert bids.to_take(wanted, [B], NOW + LEFT_TO_ANY_US) == []


def test_what_is_never_to_be_taken_is_not_by_whoever_is_alone_for_however_long() -> None:
    bids, shards = ShardBids(A), [*able(Ability.NEVER, KEEPERS), Shard(1, None)]
    assert bids.to_take(shards, [], NOW) == [1]
    assert bids.to_take(shards, [], NOW + 10 * LEFT_TO_ANY_US) == [1]


def test_nobody_asks_for_what_it_cannot_serve_and_waits_for_nothing_that_is_left_to_others() -> None:
    shards = [*able(Ability.NEVER, KEEPERS), *able(Ability.LACKS, 3), Shard(1, B), Shard(2, B)]
    assert ShardBids(A).to_ask_for(shards, [B], NOW) == 2
    assert ShardBids(A, asks_for_more=False).to_ask_for(shards, [B], NOW) is None
    assert ShardBids(A).to_ask_for([each._replace(ability=Ability.LACKS) for each in shards], [B], NOW) is None


def settled(me: int) -> ShardBids:
    """One that has been there for long."""
    bids = ShardBids(me)
    assert bids.to_ask_for_as_better([], [], NOW - SETTLED_US) == []
    return bids


@pytest.mark.parametrize(("ability", "lacks"), [(Ability.SERVES, 0), (Ability.LACKS, 1)])
def test_whoever_lacks_less_asks_for_it(ability: Ability, lacks: int) -> None:
    bids, better = settled(A), Shard(KEEPERS, B, ability=ability, lacks=lacks, owner_lacks=2)
    assert bids.to_ask_for_as_better([better, Shard(1, B)], [B], NOW) == [KEEPERS]
    for other in (
        better._replace(owner_lacks=lacks),
        better._replace(owner=A),
        better._replace(owner=None),
        better._replace(owner=C),
        better._replace(wanted_by=C),
        better._replace(number=1, is_needed=False),
        better._replace(ability=Ability.UNKNOWN),
        better._replace(ability=Ability.NEVER),
    ):
        assert bids.to_ask_for_as_better([other], [B], NOW) == [], other
    bids.stands_back = True
    assert bids.to_ask_for_as_better([better], [B], NOW) == []


def test_who_has_just_come_asks_for_nothing_that_it_serves_better() -> None:
    bids, better = ShardBids(A), Shard(1, B, owner_lacks=1)
    assert bids.to_ask_for_as_better([better], [B], NOW) == []
    assert bids.to_ask_for_as_better([better], [B], NOW + SETTLED_US - 1) == []
    assert bids.to_ask_for_as_better([better], [B], NOW + SETTLED_US) == [1]


class Ledger:
    """One shard, and processes that look at it in turn; `lacks` says how many things each lacks to serve it."""

    def __init__(self, lacks: Mapping[int, int]) -> None:
        self.lacks = lacks
        self.owner: int | None = None
        self.wanted_by: int | None = None
        self.free_us = 0
        self.moved_at = self.at = NOW

    def look(self, processes: Mapping[int, ShardBids]) -> None:
        self.at += LOOK_US
        for me, bids in processes.items():
            others, mine = processes.keys() - {me}, self.lacks[me]
            shard = Shard(
                1,
                self.owner,
                self.wanted_by,
                ability=Ability.LACKS if mine else Ability.SERVES,
                lacks=mine,
                owner_lacks=0 if self.owner is None else self.lacks[self.owner],
            )
            due = shard_duties(me, bids, [shard], [], others=others, at_work=[], busy=[], at=self.at)
            if due.give:
                self.owner, self.moved_at = None, self.at
            if due.take and self.owner is None and self.wanted_by in (None, me):
                self.owner, self.wanted_by, self.moved_at = me, None, self.at
            if due.ask_for and self.wanted_by is None:
                self.wanted_by = me
        self.free_us += LOOK_US if self.owner is None else 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 30), st.integers(0, 3))
def test_who_serves_a_shard_best_comes_to_have_it_and_it_rests_there(
    lacks: list[int], came_s: int, latecomer: int
) -> None:
    processes = {number: ShardBids(number) for number in range(101, 101 + len(lacks))}
    late = 101 + latecomer % len(lacks)
    ledger = Ledger({number: lacks[number - 101] for number in processes})
    for look in range(4 * 90):
        ledger.look({number: each for number, each in processes.items() if number != late or look >= 4 * came_s})
    assert ledger.owner is not None
    assert ledger.lacks[ledger.owner] == min(lacks)
    assert ledger.at - ledger.moved_at > 3 * SETTLED_US


@pytest.mark.parametrize("lacks", [0, 1])
def test_one_that_comes_and_dies_again_and_again_takes_nothing_down(lacks: int) -> None:
    ledger = Ledger({A: 1, B: lacks})
    there, free_us = {A: ShardBids(A)}, 0
    ledger.look(there)
    assert ledger.owner == A
    for _ in range(20):
        fleeting = {**there, B: ShardBids(B)}
        for _ in range(SETTLED_US // LOOK_US - 1):
            ledger.look(fleeting)
            free_us = ledger.free_us
        ledger.look(there)
    assert ledger.owner == A
    assert free_us == 0


def test_what_was_asked_for_is_taken_though_nothing_is_to_be_done_there_any_more() -> None:
    """Whoever has asked for it keeps all others from it."""
    idle = Shard(1, None, wanted_by=A, is_needed=False)
    assert ShardBids(A).to_take([idle], [B], NOW) == [1]
    assert ShardBids(B).to_take([idle], [A], NOW) == []


def test_who_has_fewer_by_two_asks_for_one_and_later_again() -> None:
    bids, shards = ShardBids(A), [Shard(number, B) for number in range(1, 6)]
    assert bids.to_ask_for(shards, [B, C], NOW) == 5
    asked = [*shards[:4], Shard(5, B, wanted_by=A)]
    assert bids.to_ask_for(asked, [B, C], NOW + ASK_US) is None, "it was asked already"
    shards[4] = Shard(5, A)
    assert bids.to_ask_for(shards, [B, C], NOW + ASK_US - 1) is None
    assert bids.to_ask_for(shards, [B, C], NOW + ASK_US) == 4


def test_nothing_is_asked_for_where_that_helps_nobody() -> None:
    bids = ShardBids(A)
    assert bids.to_ask_for([Shard(KEEPERS, B), Shard(1, B)], [B], NOW) is None, "one less is as good"
    assert bids.to_ask_for([Shard(1, B), Shard(2, B), *free(3)], [B], NOW) is None, "something is free"
    wanted = [Shard(KEEPERS, B), Shard(1, B, wanted_by=C), Shard(2, B, wanted_by=C)]
    assert bids.to_ask_for(wanted, [B, C], NOW) is None, "others have asked for them"
    assert bids.to_ask_for([Shard(KEEPERS, A)], [], NOW) is None, "it is alone"


def test_what_is_asked_for_by_one_that_lives_is_given() -> None:
    shards = [Shard(0, A), Shard(1, A, wanted_by=B), Shard(2, A, wanted_by=C), Shard(3, B, wanted_by=A)]
    assert ShardBids(A).to_give(shards, [B]) == [1]


def test_whoever_has_the_lower_one_of_a_pair_gets_the_other_and_makes_one_of_them() -> None:
    shards = [Shard(1, A), Shard(2, B), Shard(3, None), Shard(4, A), Shard(5, B)]
    pairs = [Pair(1, 2), Pair(1, 3), Pair(1, 4), Pair(2, 5), Pair(3, 5)]
    assert merging(A, shards, pairs) == Merging(take=[3], ask_for=[2], merge=[Pair(1, 4)])
    assert merging(B, shards, pairs) == Merging(take=[3], ask_for=[], merge=[Pair(2, 5)])


def test_where_nothing_is_to_be_done_nobody_bids_and_whoever_has_it_lets_go_of_it_after_a_while() -> None:
    bids = ShardBids(A)
    idle = [Shard(KEEPERS, None, is_needed=False), Shard(1, None, is_needed=False), Shard(2, None)]
    assert bids.to_take(idle, [], NOW) == [KEEPERS, 2]
    assert bids.to_ask_for([idle[1], Shard(2, B), Shard(3, B)], [B], NOW) == 3
    bids = ShardBids(A)
    resting = Shard(4, B, is_needed=False)
    assert bids.to_ask_for([Shard(2, B), resting], [B], NOW) is None, "it has one in which something is to be done"
    assert bids.to_ask_for([Shard(2, B), Shard(3, B), resting], [B], NOW) == 3
    held = [Shard(KEEPERS, A, is_needed=False), Shard(1, A, is_needed=False), Shard(2, A), Shard(3, B, is_needed=False)]
    assert bids.to_let_go(held, NOW) == bids.to_let_go(held, NOW + LET_GO_US - 1) == []
    assert bids.to_let_go(held, NOW + LET_GO_US) == [1]
    assert bids.to_let_go([Shard(1, A)], NOW + LET_GO_US) == [], "a run has come"
    assert bids.to_let_go(held, NOW + LET_GO_US) == []


@given(
    owners=st.lists(st.sampled_from([None, A, B, C]), min_size=1, max_size=8),
    used=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=8),
)
def test_what_runs_use_together_comes_to_be_one_whoever_had_it(
    owners: list[int | None], used: list[tuple[int, int]]
) -> None:
    owned = dict(enumerate(owners, 1))
    of = {number: number for number in owned}
    for _ in range(len(owned) ** 2 + 1):
        linked = {tuple(sorted((of[1 + a % len(owned)], of[1 + b % len(owned)]))) for a, b in used}
        pairs = sorted(Pair(low, high) for low, high in linked if low != high)
        if not pairs:
            break
        for me in (A, B, C):
            seen = [Shard(number, owner) for number, owner in owned.items()]
            found = merging(me, seen, pairs)
            for number in (*found.take, *found.ask_for):
                owned[number] = me  # who is asked gives
            for low, high in found.merge:
                if owned.get(high) == owned.get(low) == me:
                    del owned[high]
                    of = {each: low if shard == high else shard for each, shard in of.items()}
            for number, owner in owned.items():
                owned[number] = owner or C  # what is free is somebody's soon
    else:
        raise AssertionError((owned, of))


@given(shards=st.integers(1, 20), processes=st.integers(1, 6), owners=st.data())
def test_all_shards_come_to_be_served_about_evenly_wherever_it_began(
    shards: int, processes: int, owners: st.DataObject
) -> None:
    names = range(101, 101 + processes)
    owned = {number: owners.draw(st.sampled_from([None, *names])) for number in range(shards)}
    wanted: dict[int, int] = {}
    bids = {name: ShardBids(name) for name in names}
    at = NOW
    for _ in range(shards * ASK_US // LOOK_US):
        for me, each in bids.items():
            seen = [Shard(number, owner, wanted.get(number)) for number, owner in owned.items()]
            others = set(names) - {me}
            for number in each.to_give(seen, others):
                owned[number] = None
            for number in each.to_take(seen, others, at):
                if owned[number] is None and wanted.get(number, me) == me:
                    owned[number] = me
                    wanted.pop(number, None)
            if (asked := each.to_ask_for(seen, others, at)) is not None:
                wanted.setdefault(asked, me)
        at += LOOK_US
        counts = [Counter(owner for number, owner in owned.items() if number)[name] for name in names]
        if None not in owned.values() and max(counts) - min(counts) < FEWER:
            break
    else:
        raise AssertionError((owned, wanted))
