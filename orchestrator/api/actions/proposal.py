"""What somebody wants done from a page: what is to be confirmed, and the function that the command line calls, too."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.api.pages.runs.payload_policy import PayloadPolicy, ShowAll
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import Act
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.views.actions import AskedField

FREE = "Nothing is paid by this."


class GoneError(UsageError):
    """What is to be done something with is not there, or no more."""


@dataclass(frozen=True, kw_only=True)
class ProposalRequest:
    """What a form says of what is wanted."""

    ledger: Ledger
    """Open for reading, without a bound of time: counting may take a while."""

    now: int
    holder: str | None
    """Who works on the ledger; None where nobody does."""

    number: int
    """Of the run, flow, pipeline ..., from the path."""

    fields: Mapping[str, str]
    shows: PayloadPolicy = field(default_factory=ShowAll)
    """What of inputs, outputs and messages may be shown, and searched."""

    key: str = ""
    """What stands in the path in place of a number, as the id of a message."""

    @property
    def path(self) -> LedgerAddress:
        """The ledger's."""
        return self.ledger.address

    def text(self, name: str) -> str:
        """What a field holds; empty where there is none."""
        return self.fields.get(name, "").strip()

    def is_on(self, name: str) -> bool:
        """Whether a box is ticked."""
        return bool(self.text(name))


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What is wanted, as far as the form says it."""

    act: Act
    do: Callable[[Dependencies], Awaitable[object]]
    """Does it, as whoever `Dependencies.asked` says. Raises `UsageError` where it is refused, and `AskedBefore`."""

    title: str
    button: str
    command: str
    """As it is typed; of which ledger is added."""

    says: Sequence[str] = ()
    paid: str = FREE
    when: str = ""
    count: int | None = None
    of: str = "jobs"
    scope: str = ""
    """What else of the form says which ones these are: another scope is another proposal, whatever its count."""

    may_shrink: bool = False
    """Whether fewer than were confirmed are no reason to ask again: what ends meanwhile is not concerned any more."""

    sample: Sequence[str] = ()
    typed: str | None = None
    inputs: Sequence[AskedField] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    """Why it cannot be done as the form says."""

    is_ready: bool = True


def typed_command(ledger: LedgerAddress, *words: str) -> str:
    """The command of these words, about this ledger."""
    return with_its_ledger(shlex.join(["orchestrator", *words]), ledger)


async def named_resume_command(ledger: Ledger, run: int, name: str) -> str:
    """What works on the run of that number and name; on that of a stage, what carries out its flow."""
    words = ("tick",) if await ledger.flows.part(run) is not None else ("resume", name)
    return typed_command(ledger.address, *words)


def once_at_work(holder: str | None, command: str) -> str:
    """When what only a process at work can do is done: empty where there is one."""
    if holder is not None:
        return ""
    return f"Nobody works on this ledger. It is kept, and done by the next process that does: {command}"
