"""The limits of endpoints, as people and programs are shown them."""

import msgspec


class OperationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of one operation of one endpoint, as `orchestrator limits` shows it."""

    operation: str
    limit: str
    """As `--limit` takes it: what was set by a command, else the contract's."""

    set_at: int | None
    """When it was set by a command (microseconds UTC); None: it was not, and a run's own `--limit` counts."""

    used: int | None
    """How many requests count in the present window; None where nobody has sent any."""

    allowed: int | None
    window_s: float | None = None
    """How long that window is."""

    throttled: int | None


class EndpointLimitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one endpoint."""

    endpoint: str
    service_url: str
    runs: tuple[str, ...]
    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger: process id and time, as text."""

    operations: tuple[OperationLimits, ...]
    outcome: str | None = None
    """What came of asking for others; None where nothing was asked, or is not acknowledged yet."""
