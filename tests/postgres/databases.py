"""Databases for tests, each with an empty ledger. One that a test has done with is emptied for the next one: that takes a
hundredth of what it takes to make another.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg

from orchestrator.ledger.migrations import migrate_server
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata

_OTHERS: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY: Final = ";".join(
    (
        *(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)),
        "DELETE FROM writers WHERE id <> 0",
        "UPDATE writers SET seq = 0",
        "DELETE FROM leases",
        "DELETE FROM processes",
        "UPDATE identity SET webhook_key = '', lost_commits = 0",
        "UPDATE sent_marks SET number = 0",
        "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'",
    )
)


def plain_connections(url: str) -> Connect:
    """A way to connect to the server at `url` that does not ask whether it can be trusted: that of the tests cannot."""

    async def connect(settings: Settings, bounds: LineBounds) -> Any:
        return await asyncpg.connect(
            url, server_settings=dict(settings), timeout=bounds.connected_s, command_timeout=bounds.answered_s
        )

    return connect


def of_role(url: str, role: str) -> str:
    """The same database for somebody else."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()


class Databases:
    """Those of one process, in the server at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._runner = asyncio.Runner()
        self._admin = self._runner.run(asyncpg.connect(url))
        self._made: dict[str, Any] = {}
        """A connection to each of those with a ledger."""

        self._free: list[str] = []

    @contextmanager
    def one(self) -> Iterator[str]:
        """The URL of one with an empty ledger, from which whoever is still connected afterwards is cut off."""
        name = self._free.pop() if self._free else self._runner.run(self._with_ledger())
        yield self._url_of(name)
        self._runner.run(self._emptied(self._made[name]))
        self._free.append(name)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a new one without a ledger, of which nothing is left afterwards."""
        name = self._runner.run(self._new())
        yield self._url_of(name)
        self._runner.run(self._removed(name))

    def close(self, *, stays: bool = True) -> None:
        """Nothing of them is left on a server that `stays`. On one that ends, to remove them takes up to a minute for
        nothing.
        """
        for name, connection in self._made.items():
            self._runner.run(connection.close())
            if stays:
                self._runner.run(self._removed(name))
        self._runner.run(self._admin.close())
        self._runner.close()

    async def _new(self) -> str:
        name = f"orchestrator_test_{secrets.token_hex(8)}"
        await self._admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        return name

    async def _with_ledger(self) -> str:
        name = await self._new()
        url = self._url_of(name)
        database = ServerDatabase(url, plain_connections(url), metadata)
        await migrate_server(database)
        await database.aclose()
        self._made[name] = await asyncpg.connect(url)
        return name

    async def _emptied(self, connection: Any) -> None:
        await connection.execute(_OTHERS)
        await connection.execute(_EMPTY)

    async def _removed(self, name: str) -> None:
        await self._admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _url_of(self, name: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{name}").geturl()
