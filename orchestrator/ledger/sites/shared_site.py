"""A ledger on a server that several processes share: how one of them comes to be one of its owners."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import anyio

from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.postgres.connection import Connect, connecting
from orchestrator.ledger.processes.lookout import LOOK_S
from orchestrator.ledger.processes.owners_line import line_errors
from orchestrator.ledger.processes.processes import ProcessKind
from orchestrator.ledger.processes.shard_owner import ShardOwner, shard_owner_of
from orchestrator.ledger.processes.this_process import THIS_PROCESS, ThisProcess
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.schema.retirement import refuse_unknown
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.ledger.sites.site import StandsBy
from orchestrator.settings.addresses.ledger_address import LedgerUrl


@asynccontextmanager
async def sharing_server(
    address: LedgerUrl,
    *,
    doing: str,
    stands_by: StandsBy,
    connect: Connect | None = None,
    here: ThisProcess | None = None,
    is_for_run: bool = False,
) -> AsyncIterator[ShardOwner]:
    """See `sharing_ledger`."""
    site, here = ServerSite(address, connect=connect, here=here), here or THIS_PROCESS
    site.refuse_abandoned()
    name, kind = str(address), ProcessKind.FOR_RUN if is_for_run else ProcessKind.SHARES
    async with AsyncExitStack() as held:
        with line_errors(name):
            async with aclosing(site):
                await _bring_up(site, doing, stands_by)
            connect = connect or connecting(address)
            joining = shard_owner_of(name, connect, here.called(doing), here=here, kind=kind)
            owner = await held.enter_async_context(joining)
        yield owner


async def _bring_up(site: ServerSite, doing: str, stands_by: StandsBy) -> None:
    """Sees that it has this program's schema; whoever works on it with an older one has to end first."""
    told: str | None = None
    while (found := await site.version()) != SCHEMA_VERSION:
        refuse_unknown(site.address, found)
        try:
            async with site.holding(now=0, doing=doing):
                await site.migrate()
        except LedgerBusyError as error:
            if (holder := await site.holder() or error.message) != told:
                stands_by(holder)
            told = holder
            await anyio.sleep(LOOK_S)
