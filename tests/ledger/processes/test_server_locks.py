"""Who takes rows in for a run of a ledger on a server: one at a time, by a connection that says who it is."""

import os
from typing import Any

import pytest

from orchestrator.errors import IntakeBusyError
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.postgres.process_mark import (
    NAME_BYTES_MAX,
    connection_name,
    people_name,
    process_mark,
)
from orchestrator.ledger.processes.server_locks import holder_text, server_intake_lock
from tests.postgres.databases import plain_connections

pytestmark = pytest.mark.anyio

ME = f"process {os.getpid()} on "


def within(connect: Connect, schema: str) -> Connect:
    """The same for another schema."""

    async def connected(settings: Settings, bounds: LineBounds) -> Any:
        return await connect({"search_path": schema, **settings}, bounds)

    return connected


async def test_a_run_of_a_ledger_in_another_schema_is_another_one(url: str) -> None:
    driver = await plain_connections(url)({}, LineBounds())
    await driver.execute("CREATE SCHEMA night")
    try:
        here = plain_connections(url)
        async with server_intake_lock(here, "a"), server_intake_lock(within(here, "night"), "a"):
            pass
    finally:
        await driver.execute("DROP SCHEMA night")
        await driver.close()


async def test_one_takes_in_for_a_run_and_another_for_another_run(url: str) -> None:
    connect = plain_connections(url)
    for _ in range(2):  # it is free at once
        async with server_intake_lock(connect, "a'b"), server_intake_lock(connect, "c"):
            with pytest.raises(
                IntakeBusyError, match=rf"^{ME}.* \(reading rows\) since .* is reading rows for the run"
            ):
                async with server_intake_lock(connect, "a'b"):
                    pass


@pytest.mark.parametrize("doing", ["", "run captions", "run " + "x" * 200, "run café €"])
def test_what_a_connection_is_called_fits_is_ascii_and_ends_with_the_mark_of_its_process(doing: str) -> None:
    name = connection_name(process_name(doing))
    assert name.startswith(f"orchestrator {ME}")
    assert name.endswith(process_mark())
    assert len(name.encode()) <= NAME_BYTES_MAX
    assert name.isascii()
    assert ("(" in name) == bool(doing)
    assert people_name(name).startswith(ME)


def test_since_when_is_told_where_the_server_tells_it() -> None:
    assert holder_text("orchestrator process 7 on a #12345678", None) == "process 7 on a"
    assert holder_text("", 0) == "another process since 1970-01-01 00:00:00 UTC"
