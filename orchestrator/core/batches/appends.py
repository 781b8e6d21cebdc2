"""Which request of a batch is which row: by the ids that an append is answered with, or by place; and what there is of
an append whose answer nobody has.

Ids are given in the order of the rows. Where an answer has none, rows are added one by one, so that their places tell;
whether these keep the order of the appends is seen at the first rows of each batch. What happens within one append of
several rows is not seen by anything, so there places tell nothing until answers have shown that they do.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.batches.why import Why
from orchestrator.core.service.batches import PAGE_REQUESTS

SHOWN_BY: Final = 8
"""So many rows that are added one by one are looked at one by one: by chance they stood so once in forty thousand."""

PROVEN_BY: Final = 8
"""So many rows whose ids were told, found in their order, show that places keep it."""


class Matched(msgspec.Struct, frozen=True):
    """The first rows that were pending have these ids; the others are not in the batch."""

    ids: tuple[str, ...]


class Mixed(msgspec.Struct, frozen=True):
    """Nobody can tell which request is which row."""

    why: Why


def what_is_in(known: Sequence[str], listed: Sequence[str], *, pending: int, is_by_place: bool) -> Matched | Mixed:
    """What of `pending` rows is in the batch of which `known` requests, in their order, are ours, and all `listed`
    ones are in it, in the order of their places. `is_by_place`: each of the rows was added by itself.
    """
    new = listed[len(known) :]
    if len(set(listed)) != len(listed) or len(new) > pending:
        return Mixed(Why.FOREIGN)
    if not set(listed).issuperset(known):
        return Mixed(Why.FEWER)
    if new and list(listed[: len(known)]) != list(known):
        return Mixed(Why.DISORDER if is_by_place else Why.UNTOLD)
    if is_by_place or not new:
        return Matched(tuple(new))
    if len(new) < pending:
        return Mixed(Why.PARTLY)
    return Matched(tuple(new)) if pending == 1 or len(known) >= PROVEN_BY else Mixed(Why.UNTOLD)


def round_of(known: int) -> int:
    """How many rows are added one by one before their ids are looked for, where so many are in the batch."""
    return 1 if known < SHOWN_BY else PAGE_REQUESTS
