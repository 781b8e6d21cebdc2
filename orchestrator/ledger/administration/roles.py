"""Who may do what with a ledger on a server: three roles, as the SQL by which an administrator makes them."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateSchema

from orchestrator.settings.addresses.ledger_address import LedgerUrl

_EVERYWHERE: Final = "pg_catalog"
"""A schema that each database has."""

_SCHEMA_OID: Final = text("SELECT to_regnamespace(quote_ident(:name))::oid::bigint")
_OWNER: Final = text("SELECT tableowner FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'jobs'")

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")


def without_schema(url: LedgerUrl) -> LedgerUrl:
    """The database at `url` for who is to make its schema."""
    return replace(url, schema=_EVERYWHERE)


async def make_schema(connection: AsyncConnection, name: str) -> None:
    """Makes a schema, if it is not there."""
    if (await connection.execute(_SCHEMA_OID, {"name": name})).scalar() is None:
        await connection.execute(CreateSchema(name))


async def grants(view: AsyncConnection, url: LedgerUrl) -> Mapping[str, tuple[str, ...]]:
    """By what each is for: the statements for a role that may do just that with the tables in `view`, those of `url`.

    They are of groups: whoever is to work with the ledger is made a member of one.
    """
    database, schema = _quoted(url.database), _quoted(url.schema)
    owner = _quoted((await view.execute(_OWNER)).scalar_one())
    engine, reader = (_quoted(f"{url.name.replace('.', '_')}_{what}") for what in ("engine", "reader"))
    later = f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema} GRANT"
    return {
        "owner": (
            f"GRANT CONNECT ON DATABASE {database} TO {owner}",
            f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {owner}",
        ),
        "engine": (
            f"CREATE ROLE {engine} NOLOGIN",
            f"GRANT CONNECT ON DATABASE {database} TO {engine}",
            f"GRANT USAGE ON SCHEMA {schema} TO {engine}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {engine}",
            f"REVOKE INSERT, UPDATE, DELETE ON {schema}.alembic_version FROM {engine}",
            f"GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {engine}",
            f"{later} SELECT, INSERT, UPDATE, DELETE ON TABLES TO {engine}",
            f"{later} SELECT, USAGE, UPDATE ON SEQUENCES TO {engine}",
        ),
        "reader": (
            f"CREATE ROLE {reader} NOLOGIN",
            f"GRANT CONNECT ON DATABASE {database} TO {reader}",
            f"GRANT USAGE ON SCHEMA {schema} TO {reader}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}",
            f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {reader}",
            f"{later} SELECT ON TABLES TO {reader}",
            f"{later} SELECT ON SEQUENCES TO {reader}",
        ),
    }


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
