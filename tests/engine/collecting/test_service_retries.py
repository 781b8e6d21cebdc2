"""A service that executes what failed again by itself: to us it is one attempt, however long that takes."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.emulator.jobs.world import World
from tests.api.desk import desk, numbers
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SERVICE_RETRIES = 2


class Worker:
    """Fails the first executions of each job."""

    def __init__(self, failing: int) -> None:
        self._failing = failing
        self.executions: Counter[bytes] = Counter()

    def __call__(self, raw: bytes, _number: int) -> Answer:
        self.executions[raw] += 1
        return Answer(output=raw) if self.executions[raw] > self._failing else Answer(error="CUDA out of memory")


@pytest.mark.parametrize(
    ("failing", "attempts", "state"),
    [
        pytest.param(SERVICE_RETRIES, 1, "succeeded", marks=pytest.mark.slow),
        (SERVICE_RETRIES + 1, 2, "succeeded"),
        pytest.param(99, 2, "failed", marks=pytest.mark.slow),
    ],
)
async def test_what_the_service_retries_is_one_attempt_and_nothing_is_given_up_meanwhile(
    tmp_path: Path, failing: int, attempts: int, state: str
) -> None:
    worker = Worker(failing)
    world = partial(World, service_retries=SERVICE_RETRIES)
    async with desk(tmp_path, work=worker, seconds=lambda _: 20.0, make_world=world) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(3), endpoint=ENDPOINT, name="captions", max_attempts=2)
        found = [result async for result in run.results()]
    assert [(result.state, result.attempts) for result in found] == [(state, attempts)] * 3
    assert set(worker.executions.values()) == {min(failing + 1, 2 * (SERVICE_RETRIES + 1))}
