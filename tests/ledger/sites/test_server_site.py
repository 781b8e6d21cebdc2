"""What belongs to a ledger on a server and lies on a machine: the key of webhooks. (For marks: `test_slot_marks.py`.)"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import UsageError
from orchestrator.ledger.opening import refuse_other_webhook_key, webhook_key_of
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.identity.ledger_identity import LedgerIdentity
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.ledger.sites.webhook_key import fingerprint
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE
from tests.ledger.ledgers import a_run, brought_to
from tests.postgres.databases import Databases
from tests.postgres.ledgers import opened_on_server, waited_for
from tests.postgres.owners import joins
from tests.simulation.clock import EPOCH_AT

PATIENCE_S = 600.0

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def url(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a database with an empty ledger, on a machine that keeps its state in the folder of the test."""
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with databases.one() as url:
        yield url


def address_of(url: str) -> LedgerUrl:
    return parse_ledger_url(url)


@asynccontextmanager
async def site_at(url: str) -> AsyncIterator[ServerSite]:
    site = ServerSite(address_of(url), connect=waited_for(url))
    yield site
    await site.aclose()


async def refuse_other(url: str, environ: Mapping[str, str]) -> None:
    await refuse_other_webhook_key(address_of(url), environ, connect=waited_for(url))


async def key_of(url: str, environ: Mapping[str, str]) -> bytes:
    return await webhook_key_of(address_of(url), environ, connect=waited_for(url))


@asynccontextmanager
async def process_at(url: str, number: int) -> AsyncIterator[LedgerIdentity]:
    """What the ledger knows of itself, to a process that has joined it, and is connected until the end of the block."""
    named = {"application_name": f"orchestrator #{number}"}
    driver = await waited_for(url)(named, LineBounds())
    joined = await joins(driver, ProcessName(f"process {number} on a", f" #{number}"))
    database = ServerDatabase(url, waited_for(url), metadata)
    try:
        yield LedgerIdentity(database, joined.id)
    finally:
        await database.aclose()
        await driver.close()


async def until_any(identity: LedgerIdentity) -> None:
    """The server has yet to notice that a process is gone."""
    with anyio.fail_after(PATIENCE_S):
        while not await identity.takes_any_key():  # noqa: ASYNC110  nobody tells
            await anyio.sleep(0.1)


async def test_who_has_another_key_than_the_process_at_work_could_not_take_its_place(url: str) -> None:
    given = {WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES}
    async with process_at(url, 1) as one:
        await refuse_other(url, {})  # nobody has listened yet
        await refuse_other(url, given)
        assert await one.takes_key(fingerprint(b"\n" * KEY_BYTES))
        for other in ({}, {WEBHOOK_KEY_VARIABLE: "0b" * KEY_BYTES}):
            with pytest.raises(UsageError, match="or of a process at work, are signed by another key"):
                await refuse_other(url, other)
        await refuse_other(url, given)
    assert not companion_of(address_of(url), Companion.WEBHOOK_KEY).exists()


async def test_while_a_process_works_with_a_key_no_other_one_takes_its_place(url: str) -> None:
    async with process_at(url, 1) as one, process_at(url, 2) as other, process_at(url, 3) as third:
        assert await one.takes_key("k1")
        assert await one.takes_key("k1")
        assert not await other.takes_any_key()
        assert not await other.takes_key("k2")
        assert (await other.takes_key("k1"), await one.takes_key("k2")) == (True, False)
        assert await third.key_noted() == "k1"


async def test_once_nobody_works_with_the_old_key_another_one_takes_its_place_beside_those_that_do_not_listen(
    url: str,
) -> None:
    async with process_at(url, 2) as other, process_at(url, 3):
        async with process_at(url, 1) as killed:
            assert await killed.takes_key("k1")
        await until_any(other)
        assert await other.takes_key("k2")
        assert await other.takes_key("k3"), "it is the only one itself"


@pytest.mark.parametrize("noted", ["", "k0"])
async def test_of_two_that_listen_at_once_with_keys_of_their_own_one_is_refused(url: str, noted: str) -> None:
    async with process_at(url, 1) as one, process_at(url, 2) as other:
        if noted:
            async with process_at(url, 3) as before:
                assert await before.takes_key(noted)
            await until_any(one)
        took = dict[str, bool]()

        async def take(identity: LedgerIdentity, key: str) -> None:
            took[key] = await identity.takes_key(key)

        async with anyio.create_task_group() as tasks:
            for identity, key in ((one, "k1"), (other, "k2")):
                tasks.start_soon(partial(take, identity, key))
        assert sorted(took.values()) == [False, True]
        assert took[await one.key_noted()]


async def test_who_only_asks_for_the_key_notes_and_makes_nothing(url: str) -> None:
    given = {WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES}
    async with opened_on_server(url) as ledger, site_at(url) as beside:
        for other in ({}, given):
            with pytest.raises(UsageError, match="its webhooks are signed by another key than this machine has"):
                await key_of(url, other)
        key = await ledger.webhook_key(given)
        assert await key_of(url, given) == key
        for other in ({}, {WEBHOOK_KEY_VARIABLE: "0b" * KEY_BYTES}):
            with pytest.raises(UsageError, match="copy it from where it was made to"):
                await key_of(url, other)
        assert await beside.key_notes.key_noted() == fingerprint(key)
        file = companion_of(address_of(url), Companion.WEBHOOK_KEY)
        assert not file.exists()
        file.write_bytes(key[:-1])
        with pytest.raises(UsageError):
            await key_of(url, {})
        assert file.read_bytes() == key[:-1]
        file.write_bytes(key)
        assert await key_of(url, {}) == key


async def test_the_key_of_webhooks_is_made_once_and_another_one_is_refused_while_jobs_are_at_the_service(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES}
    async with opened_on_server(url) as ledger:
        await a_run(ledger)
        key = await ledger.webhook_key({})
        assert len(key) == KEY_BYTES
        assert await ledger.webhook_key({}) == key
        assert companion_of(address_of(url), Companion.WEBHOOK_KEY).stat().st_mode & 0o777 == 0o600
        await brought_to(ledger, State.OUTSTANDING, EPOCH_AT)
        with pytest.raises(UsageError, match="signed by another key than this machine has"):
            await ledger.webhook_key(given)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
        with pytest.raises(UsageError, match="copy it from where it was made"):
            await ledger.webhook_key({})
        assert await ledger.webhook_key({WEBHOOK_KEY_VARIABLE: key.hex()}) == key


async def test_where_nothing_is_at_the_service_another_key_takes_its_place(url: str) -> None:
    async with opened_on_server(url) as ledger:
        first = await ledger.webhook_key({})
        second = await ledger.webhook_key({WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES})
        assert first != second == b"\n" * KEY_BYTES
