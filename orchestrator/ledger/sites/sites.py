"""Which kind of place a ledger has, by its address."""

from typing import TYPE_CHECKING, Any

from orchestrator.ledger.sites.file_site import FileSite
from orchestrator.ledger.sites.site import LedgerSite
from orchestrator.ledger.sqlite.database import Connect
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl

if TYPE_CHECKING:
    from orchestrator.ledger.postgres.connection import Connect as ServerConnect
    from orchestrator.ledger.processes.this_process import ThisProcess

    AnyConnect = Connect | ServerConnect


def site_of(
    address: LedgerAddress,
    *,
    connect: "AnyConnect | None" = None,
    patience_s: float | None = None,
    here: "ThisProcess | None" = None,
) -> LedgerSite:
    """Where the ledger at `address` is. With `patience_s` it is there to be read only. `here` is the process that asks,
    where that is not the one in which this runs.

    Raises `UsageError` where what it takes to go there is not installed.
    """
    given: Any = connect  # that of the kind of `address`
    if not isinstance(address, LedgerUrl):
        return FileSite(address, connect=given, patience_s=patience_s)
    from orchestrator.ledger.sites.server_site import ServerSite  # noqa: PLC0415  with it comes what few need

    return ServerSite(address, connect=given, patience_s=patience_s, here=here)
