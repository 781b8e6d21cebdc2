"""A process that the server lets in no more is none of the ledger's once that has lasted."""

import anyio
import pytest

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.postgres.connection import Driver, LineBounds, Settings
from orchestrator.ledger.postgres.line import APART_S_MAX, REFUSED_S_MAX, Line
from orchestrator.ledger.processes.refusal_watch import REFUSED_US
from orchestrator.units import SECOND_US
from tests.ledger.processes.place import ASKS, OWNER, Place
from tests.postgres.ledgers import waited_for

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REFUSED_S = REFUSED_US / SECOND_US


async def test_one_that_is_let_in_no_more_waits_for_so_long_and_not_longer(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        place.refusal = StorageError("no password")
        place.cut_off(OWNER)
        await anyio.sleep(REFUSED_S - 1)
        assert tenure.why_lost is None
        await anyio.sleep(5)
        assert str(tenure.why_lost) == "no password. It has been so for 30 s: nothing more is sent from here"
        assert tenure.is_refused
        place.away.clear()
        await anyio.sleep(5)
        assert not tenure.may_leave()


async def test_a_refusal_is_forgotten_once_the_server_has_answered(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        place.refusal = StorageError("no password")
        for _ in range(3):
            place.cut_off(OWNER)
            await anyio.sleep(REFUSED_S - 5)
            place.away.clear()
            await anyio.sleep(3)
        assert tenure.why_lost is None
        assert tenure.may_leave()


async def test_a_server_that_is_away_is_waited_for_however_long(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        place.cut_off(OWNER)
        await anyio.sleep(3 * REFUSED_S)
        place.away.clear()
        await anyio.sleep(3)
        assert tenure.why_lost is None
        assert tenure.may_leave()


async def test_one_from_which_a_right_was_taken_away_is_refused(place: Place) -> None:
    admin = await place.driver(ASKS)
    await admin.execute("CREATE ROLE engine_of_tests")
    try:
        await admin.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO engine_of_tests")
        place.role = "engine_of_tests"
        async with place.tenure(OWNER) as tenure:
            await anyio.sleep(3)
            assert tenure.may_leave()
            await admin.execute("REVOKE UPDATE ON processes FROM engine_of_tests")
            await anyio.sleep(REFUSED_S + 3)
            assert "log in as a role that may, or grant this one what it lacks. It has been so for 30 s" in str(
                tenure.why_lost
            )
    finally:
        await admin.execute("DROP OWNED BY engine_of_tests; DROP ROLE engine_of_tests")


async def test_who_was_let_in_and_is_refused_takes_that_for_a_server_that_is_away_but_not_for_ever(url: str) -> None:
    refusal: StorageError | None = StorageError("the ledger: cannot reach it (password authentication failed)")

    async def connect(settings: Settings, bounds: LineBounds) -> Driver:
        if refusal is not None:
            raise refusal
        return await waited_for(url)(settings, bounds)

    async def refused() -> type[BaseException]:
        with pytest.raises(StorageError, match="password authentication failed") as found:
            await line.connected({})
        return found.type

    line, kept = Line("ledger", connect, LineBounds()), refusal
    assert await refused() is StorageError, "at first nothing says that it may pass"
    for _ in range(2):
        refusal = None
        (await line.connected({})).terminate()
        refusal = kept
        for _ in range(2):
            await anyio.sleep(APART_S_MAX + 1.0)  # another refusal, of another time
            for _ in range(int(REFUSED_S_MAX)):
                assert await refused() is LedgerUnavailableError
                await anyio.sleep(1.0)
        assert await refused() is StorageError
