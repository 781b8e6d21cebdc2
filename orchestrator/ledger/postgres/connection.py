"""Connections to a server, by its driver (asyncpg), and what each is told at its beginning."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

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


async def read_sums(driver: Driver) -> None:
    """Sums of whole numbers are read as such: the server makes them `numeric`, which no column is."""
    await driver.set_type_codec(
        "numeric", schema="pg_catalog", encoder=str, decoder=lambda said: float(said) if "." in said else int(said)
    )


async def is_lost(driver: Driver) -> bool:
    """Whether there is no server at the other end any more. Where there is, the transaction is rolled back.

    Asked after an error: what the driver raises for a connection that was cut is as varied as the moments of it.
    """
    try:
        await driver.execute("ROLLBACK")
    except Exception:  # noqa: BLE001
        driver.terminate()
    return bool(driver.is_closed())


def server_driver(connection: AsyncConnection | Connection) -> Driver:
    """The driver's own connection beneath SQLAlchemy's, which knows none any more once it has found that one lost."""
    sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    assert sync is not None
    return sync.connection.driver_connection
