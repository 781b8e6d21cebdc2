"""What a process that shares a ledger does next: nothing goes to another one before its engine has ended."""

from collections.abc import Collection

from orchestrator.core.ownership.shard_bids import (
    LEFT_LONG_US,
    LET_GO_US,
    SETTLED_US,
    Ability,
    Pair,
    Shard,
    ShardBids,
)
from orchestrator.core.ownership.shard_duties import ShardDuties, shard_duties, shards_to_begin
from orchestrator.units import SECOND_US

NOW = 1_000 * SECOND_US
ME, OTHER = 11, 12
NOTHING = ShardDuties(end=[], give=[], merge=[], take=[], ask_for=[])


def due(
    *shards: Shard,
    pairs: Collection[Pair] = (),
    at_work: Collection[int] = (),
    busy: Collection[int] = (),
    bids: ShardBids | None = None,
    at: int = NOW,
) -> ShardDuties:
    return shard_duties(
        ME,
        bids or ShardBids(ME),
        shards,
        pairs,
        others=[OTHER],
        at_work=at_work,
        busy=busy,
        at=at,
    )


def test_what_is_free_is_taken_and_what_is_ours_begins() -> None:
    assert due(Shard(0, ME), Shard(1, OTHER), Shard(2, None), at_work=[0]) == NOTHING._replace(take=[2])
    assert shards_to_begin([2, 0, 1], [], [0]) == [1, 2]


def test_what_another_one_asks_for_is_given_once_its_engine_has_ended() -> None:
    wanted = Shard(2, ME, wanted_by=OTHER)
    assert due(wanted, at_work=[2]) == NOTHING._replace(end=[2])
    assert due(wanted) == NOTHING._replace(give=[2])


def test_what_nothing_needs_is_let_go_of_unless_its_engine_is_busy() -> None:
    bids, idle = ShardBids(ME), Shard(2, ME, is_needed=False)
    assert due(idle, at_work=[2], bids=bids) == NOTHING
    later = NOW + LET_GO_US
    assert due(idle, at_work=[2], busy=[2], bids=bids, at=later) == NOTHING
    assert due(idle, at_work=[2], bids=bids, at=later) == NOTHING._replace(end=[2])
    assert due(idle, bids=bids, at=later) == NOTHING._replace(give=[2])


def test_what_gets_no_answer_is_handed_over_once_its_engine_has_ended() -> None:
    silent = Shard(2, ME, is_unreached=True)
    assert due(silent, at_work=[2]) == NOTHING._replace(end=[2])
    assert due(silent) == NOTHING._replace(give=[2])
    assert due(Shard(2, OTHER, is_unreached=True)) == NOTHING


def test_what_is_lacking_here_is_given_to_nobody_who_does_not_ask_and_asked_for_where_less_is() -> None:
    bids, lacking = ShardBids(ME), Shard(2, ME, ability=Ability.LACKS, lacks=2)
    assert due(lacking, at_work=[2], bids=bids) == NOTHING
    worse = Shard(3, OTHER, ability=Ability.LACKS, lacks=1, owner_lacks=2)
    assert due(worse, bids=bids) == NOTHING
    assert due(worse, bids=bids, at=NOW + SETTLED_US) == NOTHING._replace(ask_for=[3])
    more = Shard(4, OTHER), Shard(5, OTHER)
    assert due(worse, *more, bids=bids, at=NOW + SETTLED_US) == NOTHING._replace(ask_for=[3]), "one after the other"
    assert due(*more, bids=bids, at=NOW + SETTLED_US) == NOTHING._replace(ask_for=[5])


def test_who_stands_back_asks_for_nothing_and_takes_what_is_left() -> None:
    shards = Shard(1, OTHER), Shard(2, OTHER), Shard(3, OTHER)
    assert due(*shards) == NOTHING._replace(ask_for=[3])
    bids, free = ShardBids(ME), Shard(2, None)
    bids.stands_back = True
    assert due(*shards, bids=bids) == NOTHING
    assert due(free, bids=bids) == NOTHING
    assert due(free, bids=bids, at=NOW + LEFT_LONG_US) == NOTHING._replace(take=[2])


def test_what_has_come_to_be_one_is_merged_once_neither_engine_works_and_begins_as_one() -> None:
    both, pair = (Shard(1, ME), Shard(2, ME)), Pair(1, 2)
    assert due(*both, pairs=[pair], at_work=[1, 2]) == NOTHING._replace(end=[1, 2])
    assert due(*both, pairs=[pair], at_work=[2]) == NOTHING._replace(end=[2])
    assert due(*both, pairs=[pair]) == NOTHING._replace(merge=[pair])
    assert shards_to_begin([1, 2], [pair], []) == []
    assert shards_to_begin([1], [], []) == [1]


def test_half_of_what_has_come_to_be_one_does_not_begin_but_goes_on() -> None:
    shards, pair = (Shard(1, ME), Shard(2, OTHER)), Pair(1, 2)
    assert due(*shards, pairs=[pair]) == NOTHING._replace(ask_for=[2])
    assert due(*shards, pairs=[pair], at_work=[1]) == NOTHING._replace(ask_for=[2])
    assert shards_to_begin([1, 3], [pair], []) == [3]
    assert due(Shard(1, OTHER), Shard(2, ME), pairs=[pair]) == NOTHING


def test_what_is_merged_is_not_given_before() -> None:
    shards = Shard(1, ME, wanted_by=OTHER), Shard(2, ME)
    assert due(*shards, pairs=[Pair(1, 2)]) == NOTHING._replace(merge=[Pair(1, 2)])


def test_whoever_has_too_few_asks_for_one() -> None:
    shards = Shard(0, OTHER), *(Shard(number, OTHER) for number in (1, 2, 3))
    assert due(*shards) == NOTHING._replace(ask_for=[3])


def test_an_engine_ends_whose_shard_is_ours_no_more_and_none_begins_before_it_has() -> None:
    """It has become part of another one, and whoever said so heard no answer."""
    assert due(Shard(1, ME), at_work=[2]) == NOTHING._replace(end=[2])
    assert shards_to_begin([1], [], [2]) == []
    assert shards_to_begin([1], [], []) == [1]
