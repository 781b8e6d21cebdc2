"""What comes next for a batch of the Batch API, in each state, however its run stands."""

import pytest
from msgspec.structs import replace

from orchestrator.core.batch_api.posted_batch import (
    POSTED_ENDS,
    BatchRunStanding,
    PostedBatch,
    PostedState,
    PostedStep,
    end_of,
    next_posted_step,
)

BATCH = PostedBatch(
    id="batch_1",
    owner="",
    endpoint="/v1/embeddings",
    completion_window="24h",
    input_file="file-1",
    created_at=0,
    expires_at=100,
)
GOES_ON = BatchRunStanding(is_over=False, is_cancelled=False)
IS_CANCELLED = BatchRunStanding(is_over=False, is_cancelled=True)
IS_OVER = BatchRunStanding(is_over=True, is_cancelled=False)


@pytest.mark.parametrize(
    ("state", "run", "now", "step"),
    [
        (PostedState.VALIDATING, None, 99, PostedStep.VALIDATE),
        (PostedState.VALIDATING, None, 100, PostedStep.END_EMPTY),
        (PostedState.VALIDATING, GOES_ON, 100, PostedStep.BEGIN),
        (PostedState.IN_PROGRESS, GOES_ON, 99, PostedStep.WAIT),
        (PostedState.IN_PROGRESS, GOES_ON, 100, PostedStep.CANCEL_RUN),
        (PostedState.IN_PROGRESS, IS_CANCELLED, 100, PostedStep.WAIT),
        (PostedState.IN_PROGRESS, IS_OVER, 100, PostedStep.FINALIZE),
        (PostedState.IN_PROGRESS, None, 99, PostedStep.GIVE_UP),
        (PostedState.FINALIZING, GOES_ON, 101, PostedStep.CANCEL_RUN),
        (PostedState.FINALIZING, IS_CANCELLED, 101, PostedStep.WAIT),
        (PostedState.FINALIZING, IS_OVER, 101, PostedStep.FINALIZE),
        (PostedState.FINALIZING, None, 101, PostedStep.GIVE_UP),
        (PostedState.CANCELLING, None, 5, PostedStep.END_EMPTY),
        (PostedState.CANCELLING, GOES_ON, 5, PostedStep.CANCEL_RUN),
        (PostedState.CANCELLING, IS_CANCELLED, 5, PostedStep.WAIT),
        (PostedState.CANCELLING, IS_OVER, 5, PostedStep.FINALIZE),
    ],
)
def test_the_next_step_follows_from_its_state_its_run_and_the_time(
    state: PostedState, run: BatchRunStanding | None, now: int, step: PostedStep
) -> None:
    assert next_posted_step(replace(BATCH, state=state), run, now=now) is step


def test_a_batch_ends_as_was_asked_else_by_the_clock_else_well() -> None:
    assert end_of(BATCH) is PostedState.COMPLETED
    assert end_of(replace(BATCH, is_late=True)) is PostedState.EXPIRED
    assert end_of(replace(BATCH, is_late=True, cancelling_at=5)) is PostedState.CANCELLED
    assert {end_of(replace(BATCH, is_late=late)) for late in (False, True)} < POSTED_ENDS
