"""What a page is, for those who write one: a path, what is shown there as one value, and a template that shows it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from orchestrator.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """What a page is asked for. Pages only read."""

    ledger: Ledger
    """Open for reading; the same one for all requests of the process."""

    now: int
    """Microseconds since the epoch, UTC."""

    holder: str | None
    """Who works on the ledger, as text; None where nobody does."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    """What stands in the path, as `run` of `/runs/{run:int}`."""

    query: Mapping[str, str] = field(default_factory=dict)
    """What follows the path; a page ignores what it does not know, and says what it cannot read."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page. What `compose` returns is the JSON at the same URL, and `view` in the template."""

    path: str
    """As Starlette has it, from the root: `/runs/{run:int}`."""

    template: str
    """The file in `templates`."""

    compose: Callable[[PageRequest], Awaitable[msgspec.Struct]]
    """Raises `UsageError` for what the query should not hold, and `NotFoundError` where there is no such thing."""

    parts: tuple[str, ...] = ()
    """The blocks of the template that are refreshed: each is `<section data-live="NAME">` in the page."""

    heading: str
    """Which entry of the navigation it belongs to."""


class NotFoundError(Exception):
    """There is no such run, job, flow …; the message is for people, and `nearest` are names that were perhaps meant."""

    def __init__(self, message: str, nearest: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.nearest = nearest or {}
        """Paths by names."""
