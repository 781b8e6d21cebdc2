"""What belongs to a ledger on a server and lies on a machine: marks of what has left, and the key of webhooks."""

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import UsageError
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE
from tests.ledger.ledgers import a_run, brought_to
from tests.postgres.databases import Databases
from tests.postgres.ledgers import opened_on_server, waited_for
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BOOT = "2c5ad34e-1be3-4212-9074-f44fc7dae6ee"
OTHER_BOOT = BOOT[::-1]


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


async def test_what_left_is_known_after_a_crash_of_the_process_and_not_of_the_machine(url: str) -> None:
    async with site_at(url) as site:
        marks, unkept = await site.marks(lambda: BOOT, latest=10)
        assert unkept is None
        marks.mark(11)
    path = companion_of(address_of(url), Companion.SENT_MARKS)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for boot, never_left in ((BOOT, {12}), (OTHER_BOOT, set())):
        async with site_at(url) as site:
            marks, _ = await site.marks(lambda boot=boot: boot, latest=12)  # type: ignore[misc]
            assert marks.never_left([10, 11, 12]) == never_left


async def test_marks_of_a_machine_are_not_believed_once_another_one_has_worked(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine, latest, never_left in (("a", 10, {11}), ("a", 11, {11}), ("b", 11, set()), ("a", 11, set())):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        async with site_at(url) as site:
            marks, _ = await site.marks(lambda: BOOT, latest=latest)
            assert marks.never_left([11]) == never_left


async def test_where_the_server_does_not_say_which_one_it_is_nothing_is_marked_and_that_is_told(url: str) -> None:
    for withheld in ("pg_control_system", "pg_current_wal_lsn"):
        role = f"nobody_{secrets.token_hex(4)}"
        owner = await waited_for(url)({}, LineBounds())
        await owner.execute(
            f"REVOKE ALL ON FUNCTION {withheld} FROM PUBLIC; CREATE ROLE {role} LOGIN;"
            f" GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}; GRANT INSERT ON writers TO {role}"
        )
        site = ServerSite(address_of(url), connect=waited_for(url.replace("://orchestrator@", f"://{role}@")))
        for _ in range(2):
            marks, unkept = await site.marks(lambda: BOOT, latest=10)
            assert unkept is not None
            assert unkept.endswith("so what has left is not marked")
            marks.mark(11)
            assert marks.never_left([10, 11, 12]) == {12}
        await site.aclose()
        await owner.execute(f"GRANT EXECUTE ON FUNCTION {withheld} TO PUBLIC; DROP OWNED BY {role}; DROP ROLE {role}")
        await owner.close()
    assert not companion_of(address_of(url), Companion.SENT_MARKS).exists()


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
