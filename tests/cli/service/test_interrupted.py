"""What is said when somebody interrupts a command whose request is under way."""

from typing import Any

import anyio
import pytest

from orchestrator.cli.service import calls
from orchestrator.cli.service.calls import Shown
from orchestrator.cli.service.job_input import JobInput
from orchestrator.core.text.durations import Policy

pytestmark = pytest.mark.anyio

JOB = JobInput(input=b'{"n":1}', policy=Policy())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Silent:
    """An endpoint that never answers."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def run(self, *_: Any, **more: Any) -> Any:
        self.asked.set()
        await anyio.sleep_forever()

    runsync = run


@pytest.mark.parametrize("operation", ["run", "runsync"])
async def test_whoever_interrupts_a_submission_is_told_that_the_job_may_exist(
    operation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint: Any = Silent()
    shown = Shown(as_json=False, quiet=False)
    submit = (
        calls.api_run(JOB, endpoint, shown) if operation == "run" else calls.api_runsync(JOB, None, endpoint, shown)
    )

    async def submitting() -> None:
        await submit

    async with anyio.create_task_group() as group:
        group.start_soon(submitting)
        await endpoint.asked.wait()
        group.cancel_scope.cancel()

    told = capsys.readouterr()
    assert told.out == ""
    assert "the job may exist all the same, and be paid for" in told.err
