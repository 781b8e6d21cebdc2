"""A ledger is made before anybody works on it, and who may do what with it on a server."""

from collections.abc import Mapping, Sequence

import msgspec

from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.schema.retirement import refuse_unknown
from orchestrator.ledger.sites.sites import site_of
from orchestrator.settings.addresses.ledger_address import LedgerAddress


class LedgerMade(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a ledger."""

    ledger: str
    found: str | None
    """The schema version that it had; None: there was none."""

    schema: str
    """The one that it has."""

    grants: Mapping[str, Sequence[str]]
    """By what each is for, the statements for roles that may do just that; none for a file."""


async def ledger_init(ledger: LedgerAddress, dependencies: Dependencies | None = None) -> LedgerMade:
    """Makes the ledger, or brings it to this program's schema; one that is so already is left alone.

    Raises `LedgerBusyError` where somebody works on it with an older program, `LedgerVersionError` for one of a newer
    program, `UsageError` where something else is there, and `StorageError`.
    """
    given = dependencies or Dependencies()
    site = site_of(ledger, connect=given.connect_to(ledger))
    try:
        await site.make_room()
        found = await site.version()
        refuse_unknown(ledger, found)
        if found != SCHEMA_VERSION:
            async with site.holding(now=given.clock.now(), doing="ledger init"):
                await site.migrate()
        return LedgerMade(ledger=str(ledger), found=found, schema=SCHEMA_VERSION, grants=await site.grants())
    finally:
        await site.aclose()
