"""Asks a server how it stands, and how much room the tables of a ledger take there."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.views.ledger_server import OldestSnapshot, ServerFacts, TableSize

_SERVER: Final = text(
    "SELECT current_setting('server_version') AS version, current_user AS role,"
    " current_setting('fsync') = 'on' AS is_synced, current_setting('synchronous_commit') AS commits_wait_for,"
    " (SELECT count(*) FROM pg_stat_replication) AS standbys,"
    " current_setting('synchronous_standby_names') AS synchronous_standbys,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,"
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
    "SELECT holder, transactions FROM ("
    "SELECT concat('connection ', pid, ' of ', usename, ' (', application_name, '), ', state, ' since ',"
    " to_char(coalesce(xact_start, state_change) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), ' UTC') AS holder,"
    " age(backend_xmin)::bigint AS transactions"
    " FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"
    " AND (datname = current_database() OR backend_type = 'walsender')"
    " UNION ALL SELECT concat('replication slot ', slot_name), age(coalesce(xmin, catalog_xmin))::bigint"
    " FROM pg_replication_slots WHERE coalesce(xmin, catalog_xmin) IS NOT NULL"
    " UNION ALL SELECT concat('prepared transaction ', gid), age(transaction)::bigint FROM pg_prepared_xacts"
    " WHERE database = current_database()"
    ") AS held ORDER BY transactions DESC, holder LIMIT 1"
)
"""Who keeps the server from sweeping up: a transaction that nobody ends, a standby that is away, one in two phases."""


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
