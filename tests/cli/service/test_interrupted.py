"""What is said when somebody interrupts a command whose request is under way."""

import anyio
import pytest

from orchestrator.cli.service.api_calls import telling_if_interrupted

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_whoever_interrupts_a_submission_is_told_that_the_job_may_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = anyio.Event()

    async def submit() -> None:
        with telling_if_interrupted():
            asked.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(submit)
        await asked.wait()
        group.cancel_scope.cancel()

    told = capsys.readouterr()
    assert told.out == ""
    assert "the job may exist all the same, and be paid for" in told.err
