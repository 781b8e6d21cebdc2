"""What a process that shares a ledger does next about its shards: which engines begin and end, what changes hands.

A shard goes nowhere before its engine has ended: what proves that a process may write proves only that it lives.
"""

from collections.abc import Collection
from typing import NamedTuple

from orchestrator.core.ownership.shard_bids import Pair, Shard, ShardBids, merging


class ShardDuties(NamedTuple):
    """What is to be done now."""

    end: list[int]
    """The shards whose engines are to end."""

    give: list[int]
    """Those to let go of, where no engine works any more."""

    merge: list[Pair]
    """Those that become one, where no engine works any more."""

    take: list[int]
    ask_for: list[int]
    """Those that others have."""


def shard_duties(
    me: int,
    bids: ShardBids,
    shards: Collection[Shard],
    pairs: Collection[Pair],
    *,
    others: Collection[int],
    at_work: Collection[int],
    busy: Collection[int],
    at: int,
) -> ShardDuties:
    """Those of the process `me` at that time, beside `others`. Its engines work `at_work`, and some are `busy` with
    what the ledger does not tell of.
    """
    due = merging(me, shards, pairs)
    mine = {each.number for each in shards if each.owner == me}
    joined = {number for pair in due.merge for number in pair}
    let_go = set(bids.to_let_go(shards, at)) - set(busy)
    unreached = {each.number for each in shards if each.owner == me and each.is_unreached}
    leaving = {*bids.to_give(shards, others), *let_go, *unreached} - joined
    better = bids.to_ask_for_as_better(shards, others, at)
    asked = None if better else bids.to_ask_for(shards, others, at)
    return ShardDuties(
        end=[number for number in at_work if number not in mine or number in leaving | joined],
        give=sorted(leaving - set(at_work)),
        merge=[pair for pair in due.merge if not set(pair) & set(at_work)],
        take=sorted({*bids.to_take(shards, others, at), *due.take}),
        ask_for=[*due.ask_for, *better, *([] if asked is None else [asked])],
    )


def shards_to_begin(mine: Collection[int], pairs: Collection[Pair], at_work: Collection[int]) -> list[int]:
    """Those of the shards that are `mine` whose engines are to begin.

    What has come to be one is not begun apart: the runs that use both would be known in part to two engines. Nor does
    any begin while one ends whose shard has become part of another one: they could be at the same endpoints.
    """
    if not set(mine).issuperset(at_work):
        return []
    return sorted(set(mine) - set(at_work) - {number for pair in pairs for number in pair})
