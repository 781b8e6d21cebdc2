"""A program that uses an `Orchestrator` on virtual time, with a service of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.client import Service
from orchestrator.engine.ports.dependencies import Dependencies
from tests.engine.process import NOTHING_USED
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import URL, SimulatedService

WATCH_EVERY_S = 1.0
"""Less often than the program does it by itself: most of these tests last for minutes of virtual time."""


class Desk:
    """One ledger and one service; any number of programs."""

    def __init__(self, folder: Path, clock: VirtualClock, service: SimulatedService) -> None:
        self.folder = folder
        self.clock = clock
        self.service = service
        self.ledger = empty_ledger(folder / "ledger.db")

    @property
    def dependencies(self) -> Dependencies:
        """What a process here builds on."""
        return self._dependencies({})

    def orchestrator(self, environ: Mapping[str, str] | None = None, **options: Any) -> Orchestrator:
        said = {"serverless_url": URL, "api_key": "key", **options}
        return Orchestrator(self.ledger, **said, _dependencies=self._dependencies(environ or {}))

    def _dependencies(self, environ: Mapping[str, str]) -> Dependencies:
        return Dependencies(
            clock=self.clock,
            environ=environ,
            service=lambda connection, clock: Service(
                connection.serverless_url, connection.api_key, clock, transport=self.service.transport()
            ),
            connect=async_creator,
            open_files=lambda: 4_096,
            usage=lambda: NOTHING_USED,
            watch_every_s=WATCH_EVERY_S,
        )


@asynccontextmanager
async def desk(folder: Path, **service: Any) -> AsyncIterator[Desk]:
    clock = VirtualClock()
    served = SimulatedService(clock, **service)
    async with served.serving():
        yield Desk(folder, clock, served)


def numbers(n: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"n": number} for number in range(first, first + n)]


async def coming(*inputs: Any) -> AsyncIterator[Any]:
    for each in inputs:
        if isinstance(each, Exception):
            raise each
        yield each
