"""Whether the tables of a ledger are where it is to be, or others', or whether they can be made there."""

from typing import Final, NamedTuple

from sqlalchemy import text

from orchestrator.errors import UsageError
from orchestrator.ledger.postgres.connection import OUR_SCHEMA
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.tables import tables_version
from orchestrator.settings.addresses.ledger_address import LedgerUrl

_LEDGER: Final = text(
    "SELECT to_regclass('alembic_version') IS NOT NULL AND to_regclass('jobs') IS NOT NULL AS is_ledger,"  # noqa: S608
    f" (SELECT count(*) FROM pg_class WHERE relnamespace = {OUR_SCHEMA} AND relkind IN ('r', 'p'))"
    " AS tables, has_schema_privilege(current_schema(), 'CREATE') AS may_create, current_user AS role,"
    " pg_backend_pid() AS backend"
)
_BACKEND: Final = text("SELECT pg_backend_pid()")


class _Found(NamedTuple):
    is_ledger: bool
    tables: int
    may_create: bool
    role: str
    backend: int


async def version_found(database: ServerDatabase, url: LedgerUrl) -> str | None:
    """The version of a ledger's tables; None where there are none, and they can be made.

    Raises `UsageError` where there are others', or ours may not be made, or a pooler gives each statement another
    connection of the server.
    """
    async with database.reading() as view:  # both at once: who pools gives them one connection, or each time another
        found = _Found(*(await view.execute(_LEDGER)).one())
        again = await database.asked(_BACKEND, None, lambda answer: int(answer.scalar_one()))
    if again == found.backend:
        raise UsageError(
            f"{url}: a pooler in transaction mode stands between, which breaks locks and prepared statements; name the"
            " server itself, or a pool in session mode"
        )
    if found.is_ledger:
        async with database.reading() as view:
            return await view.run_sync(tables_version)
    if found.tables:
        raise UsageError(
            f"{url}: the schema {url.schema} has tables, which are no ledger's; name another one with ?schema=NAME"
        )
    if not found.may_create:
        raise UsageError(
            f"{url}: there is no ledger here, and the role {found.role} may not make one; have the role make it that"
            f" is to own it, or let this one (GRANT CREATE ON SCHEMA {url.schema} TO {found.role})"
        )
    return None
