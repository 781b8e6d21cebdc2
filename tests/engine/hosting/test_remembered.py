"""What a process knows from the first second of what earlier processes have learned."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.api.runs.test_program import Silence, program
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

EXECUTION_S = 30.0
JOBS = 20


class Watched(SimulatedService):
    """A service that notes when each path was asked for."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock, workers=1_000, seconds=lambda _: EXECUTION_S)
        self._its_clock = clock
        self.asked: list[tuple[str, float]] = []

    def transport(
        self, *, travel_s: Callable[[], float] = lambda: 0.0, down: Callable[[], bool] = lambda: False
    ) -> httpx.AsyncBaseTransport:
        inner, noted, clock = super().transport(travel_s=travel_s, down=down), self.asked, self._its_clock

        class Noting(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                noted.append((request.url.path.split("/")[3], clock.now() / 1e6))
                return await inner.handle_async_request(request)

        return Noting()


@pytest.mark.slow
async def test_the_next_process_asks_when_jobs_have_finished_not_earlier(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = Watched(clock)
    async with service.serving():
        await program(tmp_path, service, clock, Silence(), jobs=JOBS)
        first, service.asked[:] = list(service.asked), []
        await program(tmp_path, service, clock, Silence(), jobs=2 * JOBS)

    def questions(asked: list[tuple[str, float]]) -> list[float]:
        """How long after the first submission each question came."""
        sent = min(at for operation, at in asked if operation == "run")
        return [at - sent for operation, at in asked if operation == "status"]

    assert min(questions(first)) < EXECUTION_S / 10, "nobody knew, so a few were asked for again and again"
    assert min(questions(service.asked)) > EXECUTION_S
    assert len(questions(service.asked)) <= 1.5 * JOBS
