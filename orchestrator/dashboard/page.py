"""What a page is, for those who write one: a path, what is shown there as one value, and a template that shows it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from starlette.convertors import Convertor, register_url_convertor

from orchestrator.dashboard.payload_redaction import Payloads
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger


class _LedgerNumber(Convertor[int]):
    """A number as rows of a ledger have them: with more digits it is no path of ours."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _LedgerNumber())


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
    """What stands in the path, as `run` of `/runs/{run:number}`."""

    query: Mapping[str, str] = field(default_factory=dict)
    """What follows the path; a page ignores what it does not know, and says what it cannot read."""

    shows: Payloads = field(default_factory=Payloads)
    """What of inputs and outputs whoever asks may see; a page that shows them, or searches them, asks it."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page. What `compose` returns is the JSON at the same URL, and `view` in the template."""

    path: str
    """As Starlette has it, from the root: `/runs/{run:number}`."""

    template: str
    """The file in `templates`."""

    compose: Callable[[PageRequest], Awaitable["msgspec.Struct | KeptFile"]]
    """Raises `UsageError` for what the query should not hold (`MisreadError` where the page itself says what is wrong
    with it), `NotFoundError` where there is no such thing, and `ElsewhereError` where it is on another page."""

    parts: tuple[str, ...] = ()
    """The blocks of the template that are refreshed: each is `<section data-live="NAME">` in the page."""

    heading: str
    """Which entry of the navigation it belongs to."""


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """A file to be kept; never shown as a page of ours, whatever is in it."""

    name: str
    media_type: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class FormRequest(PageRequest):
    """A form that was sent by somebody who may act. It may take its time, so the ledger that pages read is not held for
    it: it opens one of its own, at the same path.
    """

    person: str
    """Who is signed in, for the record of what was asked."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """What the form holds."""

    dependencies: Dependencies = field(default_factory=Dependencies)
    """What the functions build on that a form calls: they open the ledger to write."""


@dataclass(frozen=True, kw_only=True)
class FormAnswer:
    """A page in place (as one that asks for confirmation), or where to go on."""

    template: str = ""
    view: msgspec.Struct | None = None
    status: int = 200
    redirect: str = ""
    """From the root, as `/runs/17`; with it nothing else."""


@dataclass(frozen=True, kw_only=True)
class FormRoute:
    """What one path does with a form that is sent there. Only people who may act get that far."""

    path: str
    answer: Callable[[FormRequest], Awaitable[FormAnswer]]
    """Raises as `Page.compose` does."""

    heading: str = ""


class MisreadError(UsageError):
    """Something in the query cannot be read. Programs are told that; people see `view`, on which they can mend it."""

    def __init__(self, message: str, view: msgspec.Struct) -> None:
        super().__init__(message)
        self.view = view


class NotFoundError(Exception):
    """There is no such run, job, flow …; the message is for people, and `nearest` are names that were perhaps meant."""

    def __init__(self, message: str, nearest: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.nearest = nearest or {}
        """Paths by names."""


class ElsewhereError(Exception):
    """What is asked for is the page at `path`, as `/runs/17`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path
