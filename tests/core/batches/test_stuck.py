"""When a batch is stuck."""

import pytest
from msgspec.structs import replace

from orchestrator.core.batches.batch_record import BatchRecord, BatchStage
from orchestrator.core.batches.stuck import (
    AT_SERVICE,
    NIGHT_US,
    OVERTAKEN_US,
    is_stuck,
    stuck_sentence,
)
from orchestrator.core.batches.why import Why

OVER = BatchRecord(id=1, run=1, endpoint=1, stage=BatchStage.OVER, made_at=3, finalized_at=7, ended_at=9)


@pytest.mark.parametrize("stage", BatchStage)
def test_only_what_the_service_is_to_do_something_about_is_stuck(stage: BatchStage) -> None:
    assert is_stuck(stage, NIGHT_US, is_overtaken=False) == (stage in AT_SERVICE)


def test_a_night_is_no_trouble_but_where_a_later_one_has_ended() -> None:
    assert not is_stuck(BatchStage.RUNNING, NIGHT_US - 1, is_overtaken=False)
    assert is_stuck(BatchStage.RUNNING, OVERTAKEN_US, is_overtaken=True)
    assert not is_stuck(BatchStage.RUNNING, OVERTAKEN_US - 1, is_overtaken=True)


def test_what_has_ended_by_itself_overtakes_what_was_finalized_before() -> None:
    assert OVER.overtakes_before == 7
    assert replace(OVER, why=Why.LATE).overtakes_before == 0, "it was cancelled"
    assert replace(OVER, stage=BatchStage.RUNNING).overtakes_before == 0
    assert replace(OVER, finalized_at=None).overtakes_before == 0


def test_a_batch_is_quiet_since_the_last_that_came_of_it() -> None:
    assert OVER.quiet_since == 7
    assert replace(OVER, news_at=8).quiet_since == 8
    assert replace(OVER, finalized_at=None).quiet_since == 3


def test_it_is_named_as_the_service_has_it() -> None:
    assert stuck_sentence("batch_7", 1).startswith("batch_7 with 1 row is stuck")
    assert stuck_sentence(None, 2).startswith("a batch with 2 rows is stuck")


def test_how_fast_it_goes_is_reckoned_from_when_it_had_not_begun() -> None:
    pace = replace(OVER, total=10, completed=3, failed=1, begun_at=5).pace
    assert (pace.left, pace.ended, pace.since) == (6, 4, 5)
