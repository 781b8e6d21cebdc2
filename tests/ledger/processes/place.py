"""A ledger on a server, and processes that reach it or do not, on virtual time."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio

from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.processes.shard_owner import ShardOwner, shard_owner_of
from orchestrator.ledger.processes.tenure import Tenure, tenure_of
from tests.postgres.ledgers import on_virtual_time, waited_for

OWNER, NEXT, ASKS = (ProcessName(f"process {each} on a", f" #{each}") for each in (1, 2, 9))


class SlowLine:
    """A connection of `process`. The answers to its beats come late."""

    def __init__(self, driver: Any, place: "Place", process: ProcessName) -> None:
        self._driver = driver
        self._place = place
        self._process = process

    async def fetchval(self, *asked: Any) -> Any:
        begun_s = anyio.current_time()
        if self._place.refused and "beat = $3 FOR UPDATE" in asked[0]:
            self._place.refused -= 1
            raise ConnectionResetError
        found = await self._driver.fetchval(*asked)
        if "beat + 1" in asked[0]:
            await anyio.sleep(self._place.late_s)
            if self._process.mark in self._place.away:
                raise ConnectionResetError
            self._place.begun_s = begun_s
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


class Place:
    """A ledger, and processes that reach it or do not."""

    def __init__(self, url: str, opened: AsyncExitStack) -> None:
        self._url = url
        self._opened = opened
        self.away: set[str] = set()
        self.refusal: Exception = ConnectionRefusedError()
        """What is said to them."""

        self.late_s = 0.0
        self.refused = 0
        """So often whoever is to be declared dead is not, since the connection ends."""

        self.begun_s = 0.0
        """When the last beat began to which an answer has come."""

        self.role: str | None = None
        """As which a process is there that connects from now on."""

        self.settings: Settings = {}
        """Of each connection that is made from now on, whatever else is asked for."""

        self._lines: dict[str, list[Any]] = {}

    def connect(self, process: ProcessName) -> Connect:
        async def connected(settings: Settings, bounds: LineBounds) -> Any:
            if process.mark in self.away:
                raise self.refusal
            driver = await waited_for(self._url)(
                {"application_name": f"orchestrator{process.mark}", **settings, **self.settings}, bounds
            )
            if self.role is not None:
                await driver.execute(f"SET ROLE {self.role}")
            self._lines.setdefault(process.mark, []).append(driver)
            self._opened.callback(driver.terminate)
            return SlowLine(driver, self, process)

        return connected

    async def driver(self, process: ProcessName) -> Any:
        return await self.connect(process)({}, LineBounds())

    def tenure(self, process: ProcessName) -> AbstractAsyncContextManager[Tenure]:
        """`process` has all of it."""
        return tenure_of("ledger", self.connect(process), process, here=on_virtual_time())

    def member(self, process: ProcessName) -> AbstractAsyncContextManager[ShardOwner]:
        """`process` shares it."""
        return shard_owner_of("ledger", self.connect(process), process, here=on_virtual_time())

    def cut_off(self, process: ProcessName) -> None:
        """`process` reaches the ledger no more."""
        self.away.add(process.mark)
        for driver in self._lines.pop(process.mark, []):
            driver.terminate()
