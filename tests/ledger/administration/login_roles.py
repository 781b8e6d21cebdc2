"""Roles that log in to the server of the tests, with some rights at a ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.postgres.databases import of_role

GROUP = "orchestrator_test_state"
"""How they are called, and a number."""

READS = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}"
WRITES = "GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}"
NUMBERS = "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {user}"


@asynccontextmanager
async def a_role(url: str, *rights: str) -> AsyncIterator[str]:
    """The URL for somebody who has these rights."""
    owner = await asyncpg.connect(url)
    user = f"{GROUP}_{owner.get_server_pid()}"
    try:
        await owner.execute(f"CREATE ROLE {user} LOGIN")
        for right in rights:
            await owner.execute(right.format(user=user))
        yield of_role(url, user)
    finally:
        await owner.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")
        await owner.close()
