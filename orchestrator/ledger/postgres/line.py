"""The line to a server: of all connections of one process. Each may be cut, at any moment, with or without a word.

A connection on which an answer does not come in time is aborted, never closed or cancelled: both would be waited for as
well. While the server cannot be reached, one at a time tries to; all others are told at once.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakSet

import anyio
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.postgres.connection import ALWAYS, Connect, Driver, LineBounds, Settings, read_sums, watch_over
from orchestrator.ledger.postgres.dialect import COMPILED, URL
from orchestrator.ledger.postgres.server_errors import lost, server_errors

HURRIED_S: Final = 1.0
"""Whoever is there answers within that."""

REFUSED_S_MAX: Final = 60.0
"""For so long a server that has let this process in may refuse it, as after a fail-over to one that does not know the
role yet. Whoever owns something finds out earlier that it is for good, and ends in order: see `RefusalWatch`.
"""

APART_S_MAX: Final = 30.0
"""A refusal that is longer after another one is a new one: whoever waits tries more often."""

STATEMENTS_KEPT: Final = 500
"""Statements that a connection has prepared; more than the ledger has."""


class Line:
    """That to the ledger `name`."""

    def __init__(self, name: str, connect: Connect, bounds: LineBounds) -> None:
        self._name = name
        self._connect = connect
        self._bounds = bounds
        self._drivers: WeakSet[Any] = WeakSet()
        self._tries: set[anyio.CancelScope] = set()
        self._tried_s = math.inf
        self._was_let_in = False
        self._refused_since_s = self._refused_at_s = -math.inf
        self.away: LedgerUnavailableError | None = None
        """Why the server could not be reached when that was tried last; None where it could."""

    async def connected(self, settings: Settings, *, answered_s: float | None = None) -> Driver:
        """A new connection. Raises `LedgerUnavailableError` where somebody else tries as well, until now in vain, and
        where the server lets in nobody for now, of a process that it has let in before.
        """
        bounds = self._bounds if answered_s is None else self._bounds._replace(answered_s=answered_s)
        with self._tried(), self._let_in(), server_errors(self._name):
            driver = await self._connect({**ALWAYS, **settings}, bounds)
            self._drivers.add(driver)
            try:
                watch_over(driver)
                await read_sums(driver)
            except BaseException:
                driver.terminate()
                raise
            return driver

    def hurry(self) -> None:
        """The process ends, and the server is away: nobody tries to reach it for longer than `HURRIED_S` any more."""
        self._tried_s = HURRIED_S
        for each in self._tries:
            each.deadline = min(each.deadline, anyio.current_time() + HURRIED_S)

    @contextmanager
    def _tried(self) -> Iterator[None]:
        if self.away is not None and self._tries:
            raise self.away.copy()
        with anyio.CancelScope(deadline=anyio.current_time() + self._tried_s) as trying:
            self._tries.add(trying)
            try:
                yield
            except LedgerUnavailableError as error:
                self.away = error.copy()
                raise
            else:
                self.away = None
            finally:
                self._tries.discard(trying)
        if trying.cancelled_caught:
            raise lost(self._name)

    @contextmanager
    def _let_in(self) -> Iterator[None]:
        """What is refused in the block is raised as by a server that is away, where it may pass."""
        try:
            yield
        except StorageError as error:
            if type(error) is not StorageError or not self._was_let_in:
                self._refused_at_s = -math.inf
                raise
            before_s, self._refused_at_s = self._refused_at_s, anyio.current_time()
            if self._refused_at_s - before_s > APART_S_MAX:
                self._refused_since_s = self._refused_at_s
            if self._refused_at_s - self._refused_since_s >= REFUSED_S_MAX:
                raise
            raise LedgerUnavailableError(error.message) from error
        self._was_let_in, self._refused_at_s = True, -math.inf

    async def is_lost(self, driver: Driver, error: BaseException) -> bool:
        """Whether there is no server at the other end any more, after an `error`. Where there is, the transaction is
        rolled back. What the driver raises for a connection that was cut is as varied as the moments of it.
        """
        if isinstance(error, TimeoutError):
            self._cut()
        elif not driver.is_closed():
            try:
                await driver.execute("ROLLBACK", timeout=self._bounds.undone_s)
            except Exception:  # noqa: BLE001
                driver.terminate()
        return bool(driver.is_closed())

    def _cut(self) -> None:
        """Nothing comes over it: whoever waits on another connection would only wait as long."""
        for driver in list(self._drivers):
            driver.terminate()


def pool_of(connect: Callable[[], Awaitable[Driver]], *, connections: int) -> AsyncEngine:
    """Up to so many connections. No transaction is begun unless it is asked for: the doors do."""

    def create() -> Any:
        return engine.sync_engine.dialect.loaded_dbapi.connect(
            async_creator_fn=connect, prepared_statement_cache_size=STATEMENTS_KEPT
        )

    engine = create_async_engine(
        URL,
        creator=create,
        execution_options={"compiled_cache": COMPILED},
        isolation_level="AUTOCOMMIT",
        poolclass=AsyncAdaptedQueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_reset_on_return=None,
        pool_pre_ping=True,  # asks the driver, not the server: see the dialect
        pool_use_lifo=True,  # each connection has prepared the statements that it has executed, and knows their tables
    )
    return engine
