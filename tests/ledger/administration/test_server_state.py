"""What a server says of itself where something may be wrong with it, for `doctor`: each by making it so."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from msgspec.structs import replace

from orchestrator.api.admin.ledger_admin import ledger_compact
from orchestrator.api.inspect.doctor import doctor
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.diagnosis.server_state import ServerState
from orchestrator.errors import UsageError
from orchestrator.ledger.administration.server_facts import server_state
from orchestrator.ledger.postgres.connection import connecting
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.client.notify.test_mail import PEM
from tests.client.raw_server import serving
from tests.ledger.administration.login_roles import NUMBERS, READS, WRITES, a_role
from tests.ledger.postgres.test_connecting import over_tls
from tests.postgres.databases import Databases, plain_connections

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


@pytest.fixture
def trusted_url(durable_databases: Databases) -> Iterator[str]:
    with durable_databases.one() as url:
        yield url


async def state_of(url: str) -> ServerState:
    site = ServerSite(parse_ledger_url(url), connect=plain_connections(url))
    try:
        return await site.inspection.state()
    finally:
        await site.aclose()


async def test_what_it_is_and_what_it_would_lose(url: str) -> None:
    owner = await asyncpg.connect(url)
    settings = dict(await owner.fetch("SELECT name, setting FROM pg_settings"))
    await owner.close()
    found = await state_of(url)
    assert (found.version, found.role) == (settings["server_version"], urlsplit(url).username)
    assert set(found.unsafe_settings) == {name for name in ("fsync", "full_page_writes") if settings[name] == "off"}
    assert (found.standbys, found.waits_for_standby, found.is_swept) == (0, False, settings["autovacuum"] == "on")
    assert found.sees_others
    assert not found.is_read_only
    assert not found.is_on_network
    assert not found.is_pooled
    assert {"jobs", "processes", "jobs_id_seq"} <= {each.table for each in found.tables}
    assert all(each.is_writable and not each.is_left_out for each in found.tables)
    assert 0 < found.connections_free < int(settings["max_connections"])
    assert found.connections_bound == "max_connections"


async def test_which_tables_may_not_be_written_and_which_are_not_swept(url: str) -> None:
    leaves_out = "ALTER TABLE jobs SET (autovacuum_enabled = off)"
    async with a_role(url, WRITES, NUMBERS, "REVOKE UPDATE ON runs FROM {user}", leaves_out) as their_url:
        found = await state_of(their_url)
    async with a_role(url, WRITES, "ALTER TABLE jobs RESET (autovacuum_enabled)") as their_url:
        unnumbered = await state_of(their_url)
    async with a_role(url, READS) as their_url:
        reader = await state_of(their_url)
    assert [each.table for each in found.tables if not each.is_writable] == ["runs"]
    assert [each.table for each in found.tables if each.is_left_out] == ["jobs"]
    assert "jobs_id_seq" in [each.table for each in unnumbered.tables if not each.is_writable]
    assert reader.is_read_only
    assert not reader.sees_others


async def test_who_is_set_to_read_only_reads_whatever_it_may_write(url: str) -> None:
    reads, writes = ("SET default_transaction_read_only = " + each for each in ("on", "off"))
    async with a_role(url, WRITES, NUMBERS, f"ALTER ROLE {{user}} {reads}") as their_url:
        assert (await state_of(their_url)).is_read_only
        nearer = f"ALTER ROLE {{user}} IN DATABASE {parse_ledger_url(url).database} {writes}"
    async with a_role(url, WRITES, NUMBERS, f"ALTER ROLE {{user}} {reads}", nearer) as their_url:
        assert not (await state_of(their_url)).is_read_only


async def test_the_owner_alone_writes_the_tables_anew_and_is_told_how_large_they_are(trusted_url: str) -> None:
    async with a_role(
        trusted_url,
        WRITES,
        NUMBERS,
        "INSERT INTO secret_names SELECT 'NAME_' || n FROM generate_series(1, 5000) AS n",
        "DELETE FROM secret_names",
    ) as their_url:
        with pytest.raises(UsageError, match="its tables belong to orchestrator, who alone may write them anew"):
            await ledger_compact(parse_ledger_url(their_url))
        found = await ledger_compact(parse_ledger_url(trusted_url))
    assert 0 < found.bytes_after < found.bytes_before - 100_000


async def test_the_closest_bound_on_connections_counts(url: str) -> None:
    async with a_role(url, READS, "ALTER ROLE {user} CONNECTION LIMIT 3") as their_url:
        found = await state_of(their_url)
    assert (found.connections_free, found.connections_bound) == (2, "the CONNECTION LIMIT of the role")
    database = parse_ledger_url(url).database
    async with a_role(url, READS, f"ALTER DATABASE {database} CONNECTION LIMIT 7") as their_url:
        found = await state_of(their_url)
    assert found.connections_bound == "the CONNECTION LIMIT of the database"
    assert 0 <= found.connections_free < 7


async def test_who_writes_and_goes_away_holds_a_snapshot_too_and_for_how_long_is_known(url: str) -> None:
    laptop = await asyncpg.connect(url, server_settings={"application_name": "a laptop"})
    await laptop.execute("BEGIN; SELECT pg_current_xact_id()")
    found = await state_of(url)
    assert found.oldest_snapshot is not None
    assert "(a laptop), idle in transaction since 20" in found.oldest_snapshot.holder
    assert found.oldest_snapshot.lasts_us is not None
    assert found.oldest_snapshot.lasts_us > 0
    await laptop.close()


async def test_a_pooler_and_tls_are_seen_at_this_end_of_the_line(trusted_url: str) -> None:
    address = parse_ledger_url(trusted_url)
    async with serving(over_tls(Path(address.hosts[0].name) / ".s.PGSQL.5432")) as there:
        port, options = there.rpartition(":")[2], f"sslmode=verify-full&sslrootcert={PEM}"
        over = parse_ledger_url(f"postgresql://orchestrator@localhost:{port}/{address.database}?{options}")
        site = ServerSite(over, connect=connecting(over))
        found = await site.inspection.state()
        async with site.database.reading() as view:
            pooled = await server_state(view, over, tls=None, claimed_backend=0)
        await site.aclose()
    assert (found.tls, found.is_proven, found.is_pooled) == ("TLSv1.3", True, False)
    assert pooled.is_pooled


async def test_a_doctor_asks_the_server_of_a_ledger_as_well(trusted_url: str) -> None:
    address = parse_ledger_url(trusted_url)
    leaves_out = await asyncpg.connect(trusted_url)
    request = DoctorRequest(ledger=address, connection=ConnectionSettings(api_key=""))
    for setting, causes in (("", []), ("SET (autovacuum_enabled = off)", [Cause.UNSWEPT])):
        if setting:
            await leaves_out.execute(f"ALTER TABLE jobs {setting}")
        found = await doctor(request)
        assert [each.cause for each in found.findings] == causes
        assert found.asked[0].startswith(f"{address}: PostgreSQL ")
        assert found.not_asked == ()
    await leaves_out.execute("ALTER TABLE jobs RESET (autovacuum_enabled)")
    await leaves_out.close()
    async with a_role(trusted_url, READS) as their_url:
        found = await doctor(replace(request, ledger=parse_ledger_url(their_url)))
    assert "the role orchestrator_test_state_" in found.asked[0]
    assert "GRANT pg_read_all_stats TO orchestrator_test_state_" in found.not_asked[0]
