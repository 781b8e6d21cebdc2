"""Whether a server can be trusted with a ledger."""

from typing import Any, Final

from orchestrator.errors import UsageError
from orchestrator.settings.addresses.ledger_address import LedgerUrl

OLDEST: Final = 15
"""The first version of PostgreSQL that has what our statements ask for."""

_VERSION_DIGITS: Final = 10_000
_SERVER: Final = """
SELECT current_setting('server_version_num')::int AS version, current_setting('fsync') = 'on' AS is_durable,
       pg_is_in_recovery() AS is_standby, current_schema() AS schema
"""


async def check_server(driver: Any, url: LedgerUrl, *, schema: str) -> None:
    """Raises `UsageError` for a server that would lose what was committed, or that lacks the `schema`.

    Asked of each connection: after a fail-over it may lead to another server.
    """
    found = await driver.fetchrow(_SERVER)
    if found["version"] < OLDEST * _VERSION_DIGITS:
        version = found["version"] // _VERSION_DIGITS
        raise UsageError(f"{url}: this server is PostgreSQL {version}; a ledger needs {OLDEST} or newer")
    if found["is_standby"]:
        raise UsageError(f"{url}: this server is a standby, which can only be read; name the primary, or all of them")
    if not found["is_durable"]:
        raise UsageError(
            f"{url}: this server has fsync=off: what is paid for would be lost with its machine; set it to on, and"
            " reload the server's configuration"
        )
    if found["schema"] != schema:
        raise UsageError(
            f"{url}: there is no schema {schema} here that this role may use; make it"
            f' (CREATE SCHEMA "{schema}"), grant its use, or name another one; a pooler in between'
            " has to pass search_path on"
        )
