"""Who holds a ledger on a server: one at a time, by a connection that says who it is and whose end is noticed."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from sqlalchemy import Result, text

from orchestrator.errors import IntakeBusyError, LedgerBusyError
from orchestrator.ledger.postgres import server_locks
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.postgres.server_locks import holder_text, server_intake_lock, server_lock, session_holder
from orchestrator.settings.addresses.ledger_address import LedgerHost, LedgerUrl
from tests.ledger.postgres.conftest import OpenDatabase
from tests.postgres.databases import plain_connections

pytestmark = pytest.mark.anyio

HERE = LedgerUrl(hosts=(LedgerHost("here"),), database="d")
NIGHT = LedgerUrl(hosts=HERE.hosts, database="d", schema="night")
ME = f"process {os.getpid()} on "
CUT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE locktype = 'advisory' AND datname = current_database()"
)


def within(connect: Connect, schema: str) -> Connect:
    """The same for another schema."""

    async def connected(settings: Settings, bounds: LineBounds) -> Any:
        return await connect({"search_path": schema, **settings}, bounds)

    return connected


@asynccontextmanager
async def held(url: str, *, doing: str = "") -> AsyncIterator[None]:
    async with server_lock(HERE, plain_connections(url), doing=doing):
        yield


async def test_one_holds_it_at_a_time_and_is_named_to_whoever_comes_second(url: str, connected: OpenDatabase) -> None:
    database = connected()
    assert await session_holder(database) is None
    for _ in range(2):  # it is free at once
        async with held(url, doing="orchestrator serve"):
            found = await session_holder(database)
            assert found is not None
            told = holder_text(*found)
            assert told.startswith(ME)
            assert " (serve) since 20" in told
            with pytest.raises(LedgerBusyError) as refused:
                async with held(url):
                    pass
            assert f"{told} is working on this ledger; wait for it" in str(refused.value)
    assert await session_holder(database) is None


async def test_a_ledger_in_another_schema_is_another_one(url: str, connected: OpenDatabase) -> None:
    async with connected().changing() as connection:
        await connection.execute(text("CREATE SCHEMA night"))
    try:
        here = plain_connections(url)
        there = within(here, "night")
        async with held(url), server_lock(NIGHT, there), server_intake_lock(here, "a"), server_intake_lock(there, "a"):
            pass
    finally:
        async with connected().changing() as connection:
            await connection.execute(text("DROP SCHEMA night"))


async def test_one_takes_in_for_a_run_and_another_for_another_run(url: str) -> None:
    connect = plain_connections(url)
    async with server_intake_lock(connect, "a'b"), server_intake_lock(connect, "c"):
        with pytest.raises(IntakeBusyError, match=rf"^{ME}.* \(reading rows\) since .* is reading rows for the run"):
            async with server_intake_lock(connect, "a'b"):
                pass


async def test_who_loses_the_connection_of_the_lock_notices_and_another_one_can_take_it(
    url: str, connected: OpenDatabase
) -> None:
    database = connected()
    async with held(url):
        assert server_locks.is_session_ours(HERE)
        await server_locks.ask_session(HERE)
        assert server_locks.why_lost(HERE) is None
        await database.asked(CUT, None, Result.all)
        while server_locks.why_lost(HERE) is None:
            await anyio.lowlevel.checkpoint()
        assert str(server_locks.why_lost(HERE)).startswith(f"{HERE}: the connection that keeps others from this ledger")
        async with server_lock(NIGHT, plain_connections(url)):  # as another process would
            assert server_locks.why_lost(NIGHT) is None
    assert not server_locks.is_session_ours(HERE)
    assert server_locks.why_lost(HERE) is None


@pytest.mark.parametrize("doing", ["", "run captions", "run " + "x" * 200, "run café €"])
def test_what_a_holder_is_called_fits_and_is_ascii(doing: str) -> None:
    name = server_locks.signature(doing)
    assert name.startswith(f"orchestrator {ME}")
    assert len(name.encode()) <= 63
    assert name.isascii()
    assert ("(" in name) == bool(doing)


def test_since_when_is_told_where_the_server_tells_it() -> None:
    assert holder_text("orchestrator process 7 on a", None) == "process 7 on a"
    assert holder_text("", 0) == "another process since 1970-01-01 00:00:00 UTC"
