"""What a user reads when the server, not the program, is to blame; and that our own defects are not taken for that."""

from urllib.parse import urlsplit

import asyncpg
import pytest

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.postgres.connection import connecting
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.server_errors import server_errors
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.settings.addresses.ledger_address import parse_ledger_url

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            asyncpg.DiskFullError("no space left on device"),
            "the server lacks room, memory or connections; give it some",
        ),
        (asyncpg.TooManyConnectionsError("too many clients"), "the server lacks room, memory or connections; give it"),
        (asyncpg.AdminShutdownError("terminating"), "the server is being stopped or started; wait until it is up"),
        (
            asyncpg.ReadOnlySQLTransactionError("read-only"),
            "it can only be read: a standby, or a role or database that",
        ),
        (asyncpg.InsufficientPrivilegeError("denied"), "log in as a role that may, or grant this one what it lacks"),
        (asyncpg.LockNotAvailableError("timeout"), "another process holds the ledger for long; look for it in"),
        (asyncpg.DataCorruptedError("invalid page"), "the server may be damaged; look into its log"),
    ],
)
def test_each_trouble_with_the_server_says_what_happened_where_and_what_to_do(raised: Exception, told: str) -> None:
    with pytest.raises(StorageError) as caught, server_errors("ledger"):
        raise raised
    assert str(caught.value).startswith(f"ledger: cannot use the ledger ({raised}); {told}")


@pytest.mark.parametrize(
    "raised",
    [
        asyncpg.DiskFullError("full"),
        asyncpg.TooManyConnectionsError("too many"),
        asyncpg.AdminShutdownError("terminating"),
        asyncpg.ReadOnlySQLTransactionError("read-only"),
    ],
)
def test_what_may_pass_by_itself_is_waited_for(raised: Exception) -> None:
    with pytest.raises(LedgerUnavailableError), server_errors("ledger"):
        raise raised


@pytest.mark.parametrize(
    "defect", [asyncpg.UniqueViolationError("twice"), asyncpg.DataError("a text"), LookupError("x")]
)
def test_a_defect_of_ours_passes_as_it_is(defect: Exception) -> None:
    with pytest.raises(type(defect)), server_errors("ledger"):
        raise defect


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"path": "/nothing"}, 'cannot reach the ledger (database "nothing" does not exist); create the database'),
        ({"netloc": "stranger@"}, 'cannot reach the ledger (role "stranger" does not exist); check the role'),
        ({"netloc": "me@127.0.0.1:1", "query": ""}, "cannot reach the ledger ("),
    ],
    ids=["no database", "no role", "no server"],
)
async def test_who_cannot_connect_is_told_why(url: str, changed: dict[str, str], told: str) -> None:
    url = urlsplit(url)._replace(**changed).geturl()
    database = ServerDatabase("ledger", connecting(parse_ledger_url(url)), metadata)
    for question in (database.structure, database.open_readers):
        with pytest.raises(StorageError) as caught:
            await question()
        assert f"{parse_ledger_url(url)}: {told}" in str(caught.value)
    await database.aclose()
