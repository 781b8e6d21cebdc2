"""What is done next about a batch.

Its requests have no ids of ours and may not be repeated, so each step is intended in the ledger first. Where the answer
to one is lost, it is found out what there is; what cannot be told apart is cancelled before it is finalized, unpaid.
"""

from typing import Final

import msgspec

from orchestrator.core.batches.batch_record import BatchRecord, BatchStage
from orchestrator.core.batches.terms import APPEND_ROWS, BatchTerms
from orchestrator.core.batches.why import Why
from orchestrator.core.service.batches import ServiceBatch
from orchestrator.units import MINUTE_US, SECOND_US


class BatchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a batch. Times are microseconds UTC."""

    rows: int
    """How many are in it whose ids there are known."""

    pending: int = 0
    """How many were claimed for it of which nobody knows whether they are in it."""

    settle_at: int = 0
    """When it is to be found out."""

    unsettled: int = 0
    """How many of its rows are outstanding."""

    more_at: int | None = None
    """When it may get more rows: at once, where that is over; None for never."""

    is_on_hold: bool = False
    """Whether nothing of its run is to be sent for now."""

    unwanted: Why | None = None
    """Why nothing of it is to be executed, if so."""

    state: ServiceBatch | None = None
    """How it stands, as the service said last; None where it was not asked."""

    asked_at: int = 0
    """When it was asked for last."""

    quiet: int = 0
    """How often in a row nothing had changed."""

    is_cancelled: bool = False
    """Whether the service has answered that it is to be cancelled."""

    swept: int = 0
    """How many of its rows had ended when its pages were read last."""

    swept_at: int = 0
    sweeps: int = 0
    """How often they were read since the service has done with it."""


class Append(msgspec.Struct, frozen=True):
    """Up to so many rows are claimed and added."""

    most: int


class Settle(msgspec.Struct, frozen=True):
    """It is found out what of the pending rows is in it."""


class Finalize(msgspec.Struct, frozen=True):
    """Where it has the rows that it should, it is finalized."""


class AskState(msgspec.Struct, frozen=True):
    """It is asked for how it stands."""


class ReadPages(msgspec.Struct, frozen=True):
    """All its pages are read. `is_last`: what is not there then, or has not ended, never will be, or end."""

    is_last: bool


class Cancel(msgspec.Struct, frozen=True):
    """It is cancelled at the service."""


class Drop(msgspec.Struct, frozen=True):
    """It is to be cancelled as a draft."""

    why: Why


class Stop(msgspec.Struct, frozen=True):
    """What of it has not begun is to be cancelled."""

    why: Why


class Stray(msgspec.Struct, frozen=True):
    """It is left as it is, if it is at all."""


class EndBatch(msgspec.Struct, frozen=True):
    """Nothing more is to be done about it."""


class WaitUntil(msgspec.Struct, frozen=True):
    """Nothing is to be done before that time, or news."""

    until: int


Step = Append | Settle | Finalize | AskState | ReadPages | Cancel | Drop | Stop | Stray | EndBatch | WaitUntil

SETTLE_US: Final = 30 * SECOND_US
"""So long after its answer was given up an append may still arrive."""

ASK_US_MIN: Final = 30 * SECOND_US
ASK_US_MAX: Final = 15 * MINUTE_US
ASK_GROWTH: Final = 1.5
"""From one question to the next, while nothing changes."""

SWEPT_IN: Final = 3
"""News of ended rows waits for a third of the time for which their results are kept, at most."""


def next_batch_step(batch: BatchRecord, facts: BatchFacts, terms: BatchTerms, now: int) -> Step:
    """What is to be done next about `batch`, of which `facts` are known, by these `terms`."""
    match batch.stage:
        case BatchStage.CREATING:
            return Stray()
        case BatchStage.DRAFT:
            return _of_draft(batch, facts, terms, now)
        case BatchStage.DROPPING:
            return Cancel()
        case BatchStage.FINALIZING:
            return Finalize()
        case BatchStage.RUNNING | BatchStage.CANCELLING:
            return _of_running(batch, facts, terms, now)
        case _:
            return EndBatch()


def _of_draft(batch: BatchRecord, facts: BatchFacts, terms: BatchTerms, now: int) -> Step:
    if facts.unwanted is not None:
        return Drop(facts.unwanted)
    if facts.pending:
        return Settle() if now >= facts.settle_at else WaitUntil(facts.settle_at)
    room = terms.rows_max - facts.rows
    more_at = facts.more_at
    if facts.is_on_hold:
        return WaitUntil(now + terms.wait_us)
    if room > 0 and more_at is not None and more_at <= now:
        return Append(min(room, APPEND_ROWS))
    if not facts.rows:
        return Drop(Why.EMPTY) if more_at is None else WaitUntil(more_at)
    until = batch.made_at + terms.wait_us
    return Finalize() if room <= 0 or more_at is None or now >= until else WaitUntil(min(until, more_at))


def _of_running(batch: BatchRecord, facts: BatchFacts, terms: BatchTerms, now: int) -> Step:
    state = facts.state
    if facts.unwanted is not None and batch.stage is BatchStage.RUNNING:
        return Stop(facts.unwanted)
    if state is None:
        return AskState()
    if state.is_over:
        return _of_ended(facts, terms, now)
    if batch.stage is BatchStage.CANCELLING and not facts.is_cancelled:
        return Cancel()
    has_news = state.ended > facts.swept
    sweep_at, ask_at = facts.swept_at + terms.retention_us // SWEPT_IN, facts.asked_at + pause_us(facts.quiet, terms)
    if has_news and now >= sweep_at:
        return ReadPages(is_last=False)
    return AskState() if now >= ask_at else WaitUntil(min(ask_at, sweep_at) if has_news else ask_at)


def _of_ended(facts: BatchFacts, terms: BatchTerms, now: int) -> Step:
    if not facts.unsettled:
        return EndBatch()
    again_at = facts.swept_at + again_us(terms)
    return WaitUntil(again_at) if facts.sweeps and now < again_at else ReadPages(is_last=facts.sweeps > 0)


def pause_us(quiet: int, terms: BatchTerms) -> int:
    """How long after a question the next one is asked, where nothing had changed `quiet` times in a row."""
    most = min(ASK_US_MAX, terms.retention_us // 4)
    return round(min(most, ASK_US_MIN * ASK_GROWTH ** min(quiet, 20)))


def again_us(terms: BatchTerms) -> int:
    """How long after all pages were read they are read once more, for what was not there; and so far apart two answers
    are that the batch is not known, before they are believed.
    """
    return min(ASK_US_MIN, terms.retention_us // 4)
