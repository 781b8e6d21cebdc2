"""Connections to a server, by its driver (asyncpg), and what each is told at its beginning."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from orchestrator.ledger.postgres.dialect import COMPILED, URL

STATEMENTS_KEPT: Final = 500
"""Statements that a connection has prepared; more than the ledger has."""

Settings = Mapping[str, str]
Driver = Any
"""A connection of the driver's, `asyncpg.Connection`, which has no types."""

Connect = Callable[[Settings], Awaitable[Driver]]
"""Makes one, with these settings of the server's for it; virtual time brings one of its own."""

ALWAYS: Final[Settings] = {
    "application_name": "orchestrator",
    "jit": "off",  # compiling takes longer than any statement of ours
    "synchronous_commit": "on",
}


def connecting(url: str) -> Connect:
    """The ordinary way to connect to the database at `url`."""
    import asyncpg  # noqa: PLC0415  who has no ledger on a server need not have it

    async def connect(settings: Settings) -> Driver:
        return await asyncpg.connect(url, server_settings=dict(settings))

    return connect


def engine_of(connect: Connect, *, connections: int, settings: Settings) -> AsyncEngine:
    """Up to so many connections. No transaction is begun unless it is asked for: the doors do."""

    def create() -> Any:
        return engine.sync_engine.dialect.loaded_dbapi.connect(
            async_creator_fn=partial(connect, {**ALWAYS, **settings}), prepared_statement_cache_size=STATEMENTS_KEPT
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
    )
    return engine


async def is_lost(driver: Driver) -> bool:
    """Whether there is no server at the other end any more. Where there is, the transaction is rolled back.

    Asked after an error: what the driver raises for a connection that was cut is as varied as the moments of it.
    """
    try:
        await driver.execute("ROLLBACK")
    except Exception:  # noqa: BLE001
        driver.terminate()
    return bool(driver.is_closed())


def driver_of(connection: AsyncConnection | Connection) -> Driver:
    """The driver's own connection beneath SQLAlchemy's."""
    sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    assert sync is not None
    return sync.connection.driver_connection
