"""Ledgers on a server, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import anyio
import asyncpg

from orchestrator.clock import Clock, WaryElapsedClock
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.opening import open_ledger
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.units import SECOND_US
from tests.simulation.clock import VirtualClock
from tests.simulation.loop import VirtualLoop, running_loop


@asynccontextmanager
async def opened_on_server(url: str, *, clock: Clock | None = None) -> AsyncIterator[Ledger]:
    """The ledger in the database at `url`, its writer at work."""
    clock = clock or VirtualClock()
    async with (
        open_ledger(parse_ledger_url(url), clock=clock, connect=waited_for(url)) as ledger,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        await ledger.runs.intakes.clear_dead(lambda _run: nullcontext(IntakeRight()))
        yield ledger
        group.cancel_scope.cancel()


def waited_for(url: str) -> Connect:
    """A way to connect to `url`: while an answer of the server is awaited, virtual time stands still."""

    async def connect(settings: Settings, _bounds: LineBounds) -> Any:
        return await asyncpg.connect(url, server_settings=dict(settings), loop=_Answers(running_loop()))

    return connect


def on_virtual_time(*, mark: str = " #1", wall_ns: Callable[[], int] = lambda: 0) -> ThisProcess:
    """A process whose machine counts what has elapsed by the running loop's time."""
    loop = running_loop()

    def elapsed() -> int:
        return round(loop.time() * SECOND_US)

    clock = partial(WaryElapsedClock, elapsed=elapsed, wall_ns=wall_ns)
    return ThisProcess(mark=lambda: mark, elapsed=elapsed, wary_clock=clock)


class _Answers:
    """A loop as the driver sees it: the futures that it makes are answers of the server."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.stands_still_for(self._loop.create_future())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)
