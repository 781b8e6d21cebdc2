"""Asks a server how it stands, and how much room the tables of a ledger take there."""

# ruff: noqa: S608  all that is put together here is ours

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.diagnosis.server_state import OldestSnapshot, ServerState, TableState
from orchestrator.ledger.postgres.connection import OUR_SCHEMA
from orchestrator.settings.addresses.ledger_address import LedgerUrl
from orchestrator.views.ledger_server import ServerFacts, TableSize

_CONNECTIONS: Final = "(SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL)"
"""How many the server counts against its `max_connections`."""

_SERVER: Final = text(
    "SELECT current_setting('server_version') AS version, current_user AS role,"
    " current_setting('fsync') = 'on' AS is_synced, current_setting('synchronous_commit') AS commits_wait_for,"
    " (SELECT count(*) FROM pg_stat_replication) AS standbys,"
    " current_setting('synchronous_standby_names') AS synchronous_standbys,"
    f" {_CONNECTIONS} AS connections,"
    " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'orchestrator%') AS our_connections,"
    " current_setting('max_connections')::bigint AS connections_max,"
    " pg_database_size(current_database())::bigint AS database_bytes"
)
_TABLES: Final = text(
    "SELECT relname AS table, pg_table_size(relid)::bigint AS bytes, pg_indexes_size(relid)::bigint AS index_bytes,"
    " n_dead_tup AS dead_rows,"
    " (extract(epoch FROM greatest(last_vacuum, last_autovacuum)) * 1000000)::bigint AS swept_at"
    " FROM pg_stat_user_tables WHERE schemaname = current_schema()"
    " ORDER BY pg_total_relation_size(relid) DESC, relname"
)
_OLDEST: Final = text(
    "SELECT holder, transactions, (extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint AS lasts_us FROM ("
    "SELECT concat('connection ', pid, ' of ', usename, ' (', application_name, '), ', state, ' since ',"
    " to_char(coalesce(xact_start, state_change) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), ' UTC') AS holder,"
    " greatest(age(backend_xmin), age(backend_xid))::bigint AS transactions,"
    " coalesce(xact_start, state_change) AS since FROM pg_stat_activity"
    " WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND pid <> pg_backend_pid()"
    " AND (datname = current_database() OR backend_type = 'walsender')"
    " UNION ALL SELECT concat('replication slot ', slot_name), age(coalesce(xmin, catalog_xmin))::bigint, NULL"
    " FROM pg_replication_slots WHERE coalesce(xmin, catalog_xmin) IS NOT NULL"
    " UNION ALL SELECT concat('prepared transaction ', gid), age(transaction)::bigint, prepared FROM pg_prepared_xacts"
    " WHERE database = current_database()"
    ") AS held ORDER BY transactions DESC, holder LIMIT 1"
)
"""Who keeps the server from sweeping up: a transaction that nobody ends, a standby that is away, one in two phases."""


_BACKEND: Final = text("SELECT pg_backend_pid()")
_STATE: Final = text(
    "SELECT current_setting('server_version') AS version, current_user AS role,"
    " ARRAY(SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'"
    " ORDER BY name) AS unsafe_settings,"
    " (SELECT count(*) FROM pg_stat_replication) AS standbys,"
    " current_setting('synchronous_standby_names') <> '' AS waits_for_standby,"
    " pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others,"
    " current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean AS is_swept,"
    " coalesce((SELECT split_part(setting, '=', 2)::boolean FROM pg_db_role_setting, unnest(setconfig) AS setting"
    " WHERE setting LIKE 'default\\_transaction\\_read\\_only=%'"
    " AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))"
    " AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))"
    " ORDER BY setrole = 0, setdatabase = 0 LIMIT 1), false) AS is_set_to_read"
)
"""Our connections that ask are set to read anyway: what a role is set to is looked up."""

_BOUNDS: Final = text(
    "SELECT 'max_connections' AS bound, current_setting('max_connections')::bigint"
    " - current_setting('superuser_reserved_connections')::bigint"
    " - coalesce(current_setting('reserved_connections', true)::bigint, 0)"
    f" - {_CONNECTIONS} AS free"
    " UNION ALL SELECT 'the CONNECTION LIMIT of the role', rolconnlimit - (SELECT count(*) FROM pg_stat_activity"
    " WHERE usesysid = pg_roles.oid) FROM pg_roles WHERE rolname = current_user AND rolconnlimit >= 0"
    " UNION ALL SELECT 'the CONNECTION LIMIT of the database', datconnlimit - (SELECT count(*) FROM pg_stat_activity"
    " WHERE datid = pg_database.oid) FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0"
    " ORDER BY free LIMIT 1"
)
"""Which bound on connections leaves the fewest."""

_TABLE_STATES: Final = text(
    "SELECT relname AS table, CASE relkind WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE')"
    " ELSE has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE')"
    " AND has_table_privilege(oid, 'DELETE') END AS is_writable,"
    " EXISTS (SELECT FROM pg_options_to_table(reloptions) WHERE option_name = 'autovacuum_enabled'"
    " AND NOT option_value::boolean) AS is_left_out,"
    " coalesce(pg_stat_get_dead_tuples(oid), 0) AS dead_rows, coalesce(pg_stat_get_live_tuples(oid), 0) AS live_rows"
    f" FROM pg_class WHERE relnamespace = {OUR_SCHEMA} AND relkind IN ('r', 'S')"
    " AND relname <> 'alembic_version' ORDER BY relname"
)

_OTHER_OWNER: Final = text(
    "SELECT pg_get_userbyid(relowner) FROM pg_class, pg_database WHERE relkind = 'r'"
    f" AND relnamespace = {OUR_SCHEMA} AND datname = current_database()"
    " AND NOT pg_has_role(relowner, 'USAGE') AND NOT pg_has_role(datdba, 'USAGE') LIMIT 1"
)
"""Whoever may not sweep a table is not told so: the server passes it over."""


async def server_state(view: AsyncConnection, url: LedgerUrl, *, tls: str | None, claimed_backend: int) -> ServerState:
    """How the server at `url` stands with us and the ledger. The line there has that version of `tls`, if any, and was
    told that the number of the server's process at its other end is `claimed_backend`.
    """
    state = (await view.execute(_STATE)).mappings().one()
    bound = (await view.execute(_BOUNDS)).mappings().one()
    oldest = (await view.execute(_OLDEST)).mappings().first()
    return ServerState(
        **state,
        tls=tls,
        is_on_network=not all(host.is_on_this_machine for host in url.hosts),
        is_proven=url.tls_mode == "verify-full",
        is_pooled=claimed_backend != (await view.execute(_BACKEND)).scalar_one(),
        connections_free=bound["free"],
        connections_bound=bound["bound"],
        oldest_snapshot=None if oldest is None else OldestSnapshot(**oldest),
        tables=tuple(TableState(**each) for each in (await view.execute(_TABLE_STATES)).mappings()),
    )


async def other_owner(view: AsyncConnection) -> str | None:
    """Whose the tables are; None where our role may do with them what their owner may."""
    owner: str | None = (await view.execute(_OTHER_OWNER)).scalar()
    return owner


async def server_facts(view: AsyncConnection) -> ServerFacts:
    """How the server at the other end stands."""
    server = (await view.execute(_SERVER)).mappings().one()
    tables = (await view.execute(_TABLES)).mappings().all()
    oldest = (await view.execute(_OLDEST)).mappings().first()
    return ServerFacts(
        **server,
        tables=tuple(TableSize(**each) for each in tables),
        oldest_snapshot=None if oldest is None else OldestSnapshot(**oldest),
    )
