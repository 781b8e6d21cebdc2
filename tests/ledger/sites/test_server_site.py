"""What belongs to a ledger on a server and lies on a machine: the key of webhooks. (For marks: `test_slot_marks.py`.)"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import UsageError
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE
from tests.ledger.ledgers import a_run, brought_to
from tests.postgres.databases import Databases
from tests.postgres.ledgers import opened_on_server, waited_for
from tests.simulation.clock import EPOCH_AT

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


async def test_who_has_another_key_than_the_process_at_work_could_not_take_its_place(url: str) -> None:
    given = {WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES}
    async with opened_on_server(url) as ledger, site_at(url) as beside:
        await beside.refuse_other_key({})  # nobody has listened yet
        await beside.refuse_other_key(given)
        assert not companion_of(address_of(url), Companion.WEBHOOK_KEY).exists()
        key = await ledger.webhook_key(given)
        for other in ({}, {WEBHOOK_KEY_VARIABLE: "0b" * KEY_BYTES}):
            with pytest.raises(UsageError, match="could not take its place"):
                await beside.refuse_other_key(other)
        await beside.refuse_other_key({WEBHOOK_KEY_VARIABLE: key.hex()})
        assert await ledger.webhook_key(given) == key


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
