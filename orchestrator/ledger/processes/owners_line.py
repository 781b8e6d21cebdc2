"""The connection on which a process asks who owns what, and says that it lives: never waits for who writes."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple

import anyio

from orchestrator.errors import OrchestratorError
from orchestrator.ledger.postgres.connection import Connect, Driver, LineBounds, watch_over
from orchestrator.ledger.postgres.process_mark import connection_name
from orchestrator.ledger.postgres.server_errors import lost, server_errors
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Processes, ProcessName

ANSWERED_S_MAX: Final = 3.0
"""How long the server may take over a beat, or to say who owns what."""

CONNECTED_S_MAX: Final = 2.5
"""How long it may take before that until one of its hosts has a connection for us: then there is time left to ask."""

_BOUNDS: Final = LineBounds(connected_s=CONNECTED_S_MAX, answered_s=ANSWERED_S_MAX)
SETTINGS: Final = {
    "lock_timeout": "2000",
    "idle_in_transaction_session_timeout": "2000",
    "default_transaction_read_only": "off",
}
"""Of a connection on which all of it is asked: whoever holds a row by a transaction that stands still is waited for
again and again, not for ever, and whoever freezes in one of these holds it no longer than that."""


class Asked(NamedTuple):
    """What can be asked on a line."""

    processes: Processes
    leases: Leases


class OwnersLine:
    """A connection of `process` on which only processes and leases are asked for, and another one where that is lost.
    `connect` makes one. One at a time asks.
    """

    def __init__(self, connect: Connect, process: ProcessName) -> None:
        self._connect = connect
        self._settings = {**SETTINGS, "application_name": connection_name(process.name, process.mark)}
        self._driver: Driver = None

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[Asked]:
        """Asks within the block, for `ANSWERED_S_MAX` at most. What is raised there ends the connection."""
        try:
            with anyio.fail_after(ANSWERED_S_MAX):
                if self._driver is None:
                    self._driver = await self._connect(self._settings, _BOUNDS)
                    watch_over(self._driver)
                yield Asked(Processes(self._driver), Leases(self._driver))
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ends the connection, whoever is at its other end."""
        if self._driver is not None:
            self._driver.terminate()
            self._driver = None


@contextmanager
def line_errors(name: str) -> Iterator[None]:
    """Turns what the driver raises on such a line to the ledger `name` into `StorageError`."""
    with server_errors(name):
        try:
            yield
        except OrchestratorError:
            raise
        except Exception as error:
            from asyncpg import InterfaceError  # noqa: PLC0415  it is loaded where there is such an error

            if isinstance(error, InterfaceError):  # it was closed between two statements
                raise lost(name) from error
            raise
