"""What is done next about a batch, by its stage and by what is known of it."""

import pytest
from msgspec.structs import replace

from orchestrator.core.batches.batch_record import ENDED, BatchRecord, BatchStage
from orchestrator.core.batches.batch_steps import (
    ASK_US_MAX,
    ASK_US_MIN,
    Append,
    AskState,
    BatchFacts,
    Cancel,
    Drop,
    EndBatch,
    Finalize,
    ReadPages,
    Settle,
    Step,
    Stop,
    Stray,
    WaitUntil,
    again_us,
    next_batch_step,
    pause_us,
)
from orchestrator.core.batches.terms import APPEND_ROWS, BatchTerms
from orchestrator.core.batches.why import Why
from orchestrator.core.service.batches import ServiceBatch

NOW = 1_000_000_000_000
MADE_AT = NOW - 60_000_000
TERMS = BatchTerms()
WAITS_UNTIL = MADE_AT + TERMS.wait_us
THIRD_US = TERMS.retention_us // 3


def batch(stage: BatchStage) -> BatchRecord:
    ended_at = NOW if stage in ENDED else None
    return BatchRecord(id=1, run=1, endpoint=1, stage=stage, made_at=MADE_AT, remote_id="batch_1", ended_at=ended_at)


def step(stage: BatchStage, facts: BatchFacts, terms: BatchTerms = TERMS, now: int = NOW) -> Step:
    return next_batch_step(batch(stage), facts, terms, now)


def said(status: str = "FINALIZED", completed: int = 0, failed: int = 0) -> ServiceBatch:
    return ServiceBatch(id="batch_1", status=status, total=10, completed=completed, failed=failed)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (BatchFacts(rows=0, more_at=NOW), Append(APPEND_ROWS)),
        (BatchFacts(rows=4_900, more_at=0), Append(100)),
        (BatchFacts(rows=5_000, more_at=NOW), Finalize()),
        (BatchFacts(rows=7, more_at=None), Finalize()),
        (BatchFacts(rows=7, more_at=NOW + 5), WaitUntil(NOW + 5)),
        (BatchFacts(rows=7, more_at=WAITS_UNTIL + 5), WaitUntil(WAITS_UNTIL)),
        (BatchFacts(rows=0, more_at=WAITS_UNTIL + 5), WaitUntil(WAITS_UNTIL + 5)),
        (BatchFacts(rows=0, more_at=None), Drop(Why.EMPTY)),
        (BatchFacts(rows=7, more_at=NOW, is_on_hold=True), WaitUntil(NOW + TERMS.wait_us)),
        (BatchFacts(rows=7, more_at=None, is_on_hold=True), WaitUntil(NOW + TERMS.wait_us)),
        (BatchFacts(rows=7, more_at=NOW, unwanted=Why.CANCELLED), Drop(Why.CANCELLED)),
        (BatchFacts(rows=7, pending=2, unwanted=Why.LATE), Drop(Why.LATE)),
        (BatchFacts(rows=7, pending=2, settle_at=NOW), Settle()),
        (BatchFacts(rows=7, pending=2, settle_at=NOW + 1, more_at=NOW), WaitUntil(NOW + 1)),
    ],
)
def test_a_draft_takes_rows_until_it_is_full_or_none_come_or_it_has_waited(facts: BatchFacts, found: Step) -> None:
    assert step(BatchStage.DRAFT, facts) == found


def test_a_draft_that_has_waited_long_enough_goes_though_more_rows_may_come() -> None:
    assert step(BatchStage.DRAFT, BatchFacts(rows=1, more_at=WAITS_UNTIL + 9), now=WAITS_UNTIL) == Finalize()


@pytest.mark.parametrize(
    ("stage", "found"),
    [
        (BatchStage.CREATING, Stray()),
        (BatchStage.DROPPING, Cancel()),
        (BatchStage.FINALIZING, Finalize()),
        (BatchStage.OVER, EndBatch()),
        (BatchStage.DROPPED, EndBatch()),
        (BatchStage.STRAY, EndBatch()),
    ],
)
def test_other_stages_have_one_way_to_go_on(stage: BatchStage, found: Step) -> None:
    assert step(stage, BatchFacts(rows=1, more_at=NOW, unwanted=Why.CANCELLED)) == found


ASKED = BatchFacts(rows=10, unsettled=10, state=said(), asked_at=NOW - 1, swept_at=NOW - THIRD_US)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (BatchFacts(rows=10, unsettled=10), AskState()),
        (ASKED, WaitUntil(NOW - 1 + ASK_US_MIN)),
        (replace(ASKED, asked_at=NOW - ASK_US_MIN), AskState()),
        (replace(ASKED, asked_at=NOW - ASK_US_MIN, quiet=1), WaitUntil(NOW + ASK_US_MIN // 2)),
        (replace(ASKED, state=said(completed=3)), ReadPages(is_last=False)),
        (replace(ASKED, state=said(completed=3), swept=3), WaitUntil(NOW - 1 + ASK_US_MIN)),
        (replace(ASKED, state=said(completed=3), swept_at=NOW - THIRD_US + 5), WaitUntil(NOW + 5)),
        (replace(ASKED, state=said(completed=8, failed=2)), ReadPages(is_last=False)),
        (replace(ASKED, state=said(completed=8, failed=2), unsettled=0), EndBatch()),
        (replace(ASKED, state=said(completed=10), sweeps=1, swept_at=NOW - 1), WaitUntil(NOW - 1 + again_us(TERMS))),
        (replace(ASKED, state=said(completed=10), sweeps=1), ReadPages(is_last=True)),
        (replace(ASKED, state=said("CANCELLED", 3)), ReadPages(is_last=False)),
        (replace(ASKED, state=said("FAILED", 3), sweeps=2), ReadPages(is_last=True)),
        (replace(ASKED, unwanted=Why.LATE), Stop(Why.LATE)),
    ],
)
def test_a_running_batch_is_asked_for_and_read_before_its_results_may_vanish(facts: BatchFacts, found: Step) -> None:
    assert step(BatchStage.RUNNING, facts) == found


def test_what_is_to_be_cancelled_is_asked_for_once_the_service_has_heard_of_it() -> None:
    wanted = replace(ASKED, unwanted=Why.LATE)
    assert step(BatchStage.CANCELLING, wanted) == Cancel()
    assert step(BatchStage.CANCELLING, replace(wanted, is_cancelled=True, asked_at=0)) == AskState()
    assert step(BatchStage.CANCELLING, replace(wanted, state=None)) == AskState()
    assert step(BatchStage.CANCELLING, replace(wanted, state=said("CANCELLED"))) == ReadPages(is_last=False)


def test_pauses_grow_up_to_a_quarter_of_the_time_that_results_are_kept() -> None:
    assert [pause_us(quiet, TERMS) for quiet in (0, 1, 2)] == [ASK_US_MIN, ASK_US_MIN * 3 // 2, ASK_US_MIN * 9 // 4]
    assert pause_us(500, TERMS) == ASK_US_MAX
    brief = BatchTerms(retention_us=40_000_000)
    assert pause_us(0, brief) == again_us(brief) == 10_000_000
