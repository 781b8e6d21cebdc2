"""Endpoints, as people and programs are shown them. Times are microseconds UTC."""

from collections.abc import Mapping

import msgspec

from orchestrator.views.limits import OperationLimits
from orchestrator.views.series import Bucket, Series


class OperationLine(OperationLimits, frozen=True, kw_only=True):
    """An operation of an endpoint with its limit, and who has set that."""

    base: str
    """What the contract grants: what counts once nothing is set."""

    set_by: str | None = None
    """None: nobody has, or that is too long ago to be known."""

    in_flight: int | None = None
    """None where nobody has sent any."""

    at_once: int | None = None
    """So many may be in flight at once; None: any number."""

    rate_share: float = 1.0
    """What 429s have left of the rate."""


class EndpointRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run at an endpoint."""

    run: int
    name: str
    queued: int
    at_service: int
    share: float
    """Of all jobs there that the service has, or may have."""

    priority: int


class RaisedBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of workers that were raised for a run, and not put back yet."""

    before: str
    raised: str
    since: int


class EndpointLine(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint in a list."""

    number: int
    endpoint: str
    service: str
    """The address of its service, without what a profile adds."""

    profile: str | None = None
    operations: tuple[OperationLine, ...]
    workers: Mapping[str, int] = {}
    """In each state, as the service said last."""

    workers_at: int | None = None
    """When it did; None where nobody has asked."""

    raised: RaisedBounds | None = None
    is_stopped: bool = False
    """Whether going on to send was pointless when it was looked at last."""

    safe_until: int | None = None
    runs: tuple[EndpointRun, ...] = ()
    """Unfinished ones."""

    runs_ever: int = 0


class EndpointsPage(msgspec.Struct, frozen=True, kw_only=True):
    """All endpoints, those of the newest runs first."""

    endpoints: tuple[EndpointLine, ...]


class EndpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint: limits, workers, runs, and how it went of late."""

    line: EndpointLine
    span: str
    """Of how long a time the charts are."""

    spans: tuple[str, ...]
    since: int
    until: int
    rates: tuple[Series, ...] = ()
    workers: tuple[Series, ...] = ()
    queue: tuple[Series, ...] = ()
    execution: tuple[Series, ...] = ()
    refused: tuple[Series, ...] = ()
    margins: tuple[Bucket, ...] = ()
    """Of the results that were collected in that time."""

    spent_today: float | None = None
    """None where no price is known."""

    budget_per_day: float | None = None
    """The smallest that an unfinished run there keeps to; None where none does."""

    budget_run: str | None = None
    """The run that does."""
