"""What a server says to whoever looks after a ledger there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace
from sqlalchemy import Result, text
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.diagnosis.server_state import ServerState
from orchestrator.errors import UsageError
from orchestrator.ledger.administration import server_facts
from orchestrator.ledger.administration.present_processes import PresentProcesses, present_processes
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.processes.processes import ProcessKind, statement_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl
from orchestrator.views.ledger_server import ServerFacts

_SERVERS: Final = text(
    statement_of(
        "SELECT id, beat, name, began_at FROM processes"  # noqa: S608  ours
        f" WHERE is_alone <> {ProcessKind.FOR_RUN:d} AND {{is_connected}} ORDER BY id"
    )
)


@dataclass(kw_only=True, eq=False)
class ServerInspection:
    """Of the server at `address`, asked through `database`. All of it is as the server tells our role."""

    database: LedgerDatabase
    address: LedgerUrl
    way_there: Callable[[AsyncConnection], tuple[str | None, int]]
    """Which version of TLS a connection has, and which number the server's process has at its other end, as that was
    told.
    """

    async def facts(self) -> ServerFacts:
        """How it stands."""
        async with self.database.reading() as view:
            return await server_facts.server_facts(view)

    async def state(self) -> ServerState:
        """How it stands with us, in all that may be wrong with it."""
        async with self.database.reading() as view:
            tls, claimed_backend = self.way_there(view)
            return await server_facts.server_state(view, self.address, tls=tls, claimed_backend=claimed_backend)

    async def check_upgrade(self) -> None:
        """Raises `UsageError` where our role may not bring tables of an older program up to date."""
        if (owner := await self._other_owner()) is not None:
            raise UsageError(
                f"{self.address}: an older version of the program made its tables, which belong to {owner}, who alone"
                " may bring them up to date; give the first command of this version as that role, with"
                f" <setting ledger={replace(self.address, user=owner)}>"
            )

    async def check_owner(self, to: str) -> None:
        """Raises `UsageError` where our role may not do with the tables what only their owner may, as the text `to`
        says.
        """
        if (owner := await self._other_owner()) is not None:
            raise UsageError(
                f"{self.address}: its tables belong to {owner}, who alone may {to}; give this command as that role"
            )

    async def _other_owner(self) -> str | None:
        async with self.database.reading() as view:
            return await server_facts.other_owner(view)

    async def servers(self) -> Mapping[int, int]:
        """How often each of the processes has beaten that are connected, and serve whatever there is, not only a run of
        their own, by their numbers. They may have nothing yet; one whose beat stands still may be dead.
        """
        return {row.id: row.beat for row in await self.database.asked(_SERVERS, None, Result.all)}

    async def next_holder(self) -> str | None:
        """One of them, as text for people; None where there is none."""
        row = await self.database.asked(_SERVERS, None, Result.first)
        return None if row is None else since_then(row.name, row.began_at)

    async def processes(self) -> PresentProcesses:
        """The processes that work on the ledger, or stand by."""
        async with self.database.reading() as view:
            return await present_processes(view)
