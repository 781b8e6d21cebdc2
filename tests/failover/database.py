"""The server of one ledger, and what becomes of it: it is killed, full, read-only, crowded, or another one takes its place."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import anyio
import asyncpg

from tests.postgres.binaries import binaries
from tests.postgres.keeper import USER
from tests.postgres.server import away, data_of

CONNECTIONS_MAX: Final = 60
"""So many are soon taken, and far more than two engines and a few commands need."""

TAKEN_EVERY_S: Final = 0.01
"""Before whoever was cut tries again."""

LEDGER: Final = "ledger"
MAINTENANCE: Final = "postgres"
"""The database that every server has."""

_FULL: Final = """
CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'could not extend a file: No space left on device' USING ERRCODE = 'disk_full'; END $$
"""
_GROWING: Final = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
_SMALL: Final = frozenset(("processes", "leases", "writers", "alembic_version"))
"""Tables whose few rows are written again in the pages that they have."""


class Database:
    """The database `name` on the `server`, in which a ledger is, or is to be. Whoever does anything to the server makes
    sure that nobody else uses it.
    """

    def __init__(self, server: str, name: str = LEDGER) -> None:
        self.server = server
        self._name = name

    @classmethod
    def at(cls, url: str) -> Self:
        """The one at `url`."""
        parts = urlsplit(url)
        return cls(parts._replace(path=f"/{MAINTENANCE}").geturl(), parts.path[1:])

    @property
    def url(self) -> str:
        """That of the database."""
        return urlsplit(self.server)._replace(path=f"/{self._name}").geturl()

    async def make(self) -> None:
        """There is one, without a ledger, on a server with few connections."""
        async with self._admin() as admin:
            await admin.execute(f"CREATE DATABASE {self._name} TEMPLATE template0 ENCODING 'UTF8'")
            await admin.execute(f"ALTER SYSTEM SET max_connections = {CONNECTIONS_MAX}")
        with self.away():
            pass

    def away(self) -> Any:
        """The server is killed, and starts again on leaving."""
        return away(self.server)

    @asynccontextmanager
    async def full(self) -> AsyncIterator[None]:
        """No table can grow, as where its disk is full."""
        async with self.inside() as inside:
            await inside.execute(_FULL)
            for table in sorted({row[0] for row in await inside.fetch(_GROWING)} - _SMALL):
                await inside.execute(
                    f"CREATE TRIGGER disk_is_full BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION disk_is_full()"
                )
            yield
            await inside.execute("DROP FUNCTION disk_is_full CASCADE")

    @asynccontextmanager
    async def read_only(self) -> AsyncIterator[None]:
        """Nobody can write, unless he insists."""
        await self._set("default_transaction_read_only = on")
        yield
        await self._set("default_transaction_read_only = off")

    @asynccontextmanager
    async def crowded(self) -> AsyncIterator[None]:
        """Strangers have all connections that there are, and soon have each that is given back."""
        have_all = anyio.Event()

        async def take(strangers: AsyncExitStack) -> None:
            while True:
                try:
                    await strangers.enter_async_context(self._admin())
                except asyncpg.TooManyConnectionsError:
                    have_all.set()
                    await anyio.sleep(TAKEN_EVERY_S)

        async with AsyncExitStack() as strangers, anyio.create_task_group() as tasks:
            tasks.start_soon(take, strangers)
            await have_all.wait()
            yield
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def long_transaction(self) -> AsyncIterator[None]:
        """A stranger has written something, and does not end the transaction."""
        async with self.inside() as stranger, stranger.transaction():
            await stranger.execute("CREATE TEMPORARY TABLE of_a_stranger (n int) ON COMMIT DROP")
            yield

    async def _set(self, what: str) -> None:
        async with self._admin() as admin:
            await admin.execute(f"ALTER SYSTEM SET {what}")
            await admin.execute("SELECT pg_reload_conf()")

    @asynccontextmanager
    async def _admin(self, url: str | None = None) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(url or self.server)
        try:
            yield connection
        finally:
            with suppress(Exception):
                await connection.close(timeout=5)

    def inside(self) -> Any:
        """A connection to the database itself, for a block."""
        return self._admin(self.url)


class Standby:
    """Another server, which has what that of the `database` has by now, and hears of nothing that comes later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._before = database.server
        self._is_primary = False
        self._folder = Path(tempfile.mkdtemp(prefix="orchestrator-standby-", dir="/tmp"))
        self._folder.chmod(0o711)
        self._programs, self._data = binaries(self._folder), self._folder / "data"
        self._data.mkdir(mode=0o700)
        if self._programs.user is not None:
            shutil.chown(self._data, self._programs.user)
        source = f"host={data_of(self._before)} user={USER} options='-c client_min_messages=error'"
        self._programs.run("pg_basebackup", "-d", source, "-D", self._data, "--checkpoint=fast", within=self._data)
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{self._data}'\n")
        (self._data / "standby.signal").touch()
        for socket_file in self._data.glob(".s.PGSQL.*"):  # the other one's, which was copied
            socket_file.unlink()

    def promote(self) -> None:
        """The server dies, and this one takes its place."""
        self._is_primary = True
        self._control(data_of(self._before), "stop", "-m", "immediate")
        self._control(self._data, "start", "-l", self._data / "log", "--wait")
        self._control(self._data, "promote", "--wait")
        self._database.server = self._before.replace(str(data_of(self._before)), str(self._data))

    def end(self) -> None:
        """Nothing of it is left; the one before is started again, if that had died."""
        if self._is_primary:
            self._control(self._data, "stop", "-m", "immediate")
            self._control(data_of(self._before), "start", "-l", data_of(self._before) / "log", "--wait")
            self._database.server = self._before
        shutil.rmtree(self._folder, ignore_errors=True)

    def _control(self, data: Path, verb: str, *arguments: str | Path) -> None:
        self._programs.run("pg_ctl", verb, "-D", data, *arguments, within=data)
