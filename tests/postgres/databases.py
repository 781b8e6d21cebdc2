"""Databases for tests, each with an empty ledger, which is made once for a process and then copied."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from urllib.parse import urlsplit

import asyncpg

from orchestrator.ledger.migrations import migrate_server
from orchestrator.ledger.postgres.connection import connecting
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata


class Databases:
    """Those of one process, in the server at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = f"orchestrator_test_{secrets.token_hex(4)}"
        self._numbers = count(1)
        self._runner = asyncio.Runner()
        self._admin = self._runner.run(asyncpg.connect(url))
        self._do(f"CREATE DATABASE {self._name} TEMPLATE template0 ENCODING 'UTF8'")
        self._runner.run(self._make_ledger())

    async def _make_ledger(self) -> None:
        url = self._url_of(self._name)
        database = ServerDatabase(url, connecting(url), metadata)
        await migrate_server(database)
        await database.aclose()

    @contextmanager
    def one(self, *, is_empty: bool = False) -> Iterator[str]:
        """The URL of a new one, which is gone afterwards, whoever is still connected to it. One that `is_empty` has no
        ledger yet.
        """
        name = f"{self._name}_{next(self._numbers)}"
        # To copy its files takes a third of what it takes to write them through the log.
        template = "template0" if is_empty else self._name
        self._do(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield self._url_of(name)
        finally:
            self._do(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """Nothing of them is left."""
        self._do(f"DROP DATABASE {self._name} WITH (FORCE)")
        self._runner.run(self._admin.close())
        self._runner.close()

    def _do(self, statement: str) -> None:
        self._runner.run(self._admin.execute(statement))

    def _url_of(self, name: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{name}").geturl()
