"""One transaction: what is written in it, and who waits for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.database import Company
from orchestrator.ledger.transitions.apply_transitions import transitions_apply

Result = TypeVar("Result")


OnCommit = Callable[[Exception | None], None]
"""Called after the transaction of what was posted, with what went wrong. It must neither raise nor wait."""


class Settled(NamedTuple):
    """A notice that needs no more attention: at once, or only if `job`'s step in the same batch was not stale."""

    notice: Notice
    job: int | None = None


class Transaction:
    """What a block sees: the connection, and the way to take steps that the feed will tell of."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.applied: list[Transition] = []
        self.is_signalled = False
        """Whether engines of other processes are to look once it is committed."""

    async def apply(self, steps: Sequence[Transition]) -> list[Transition]:
        """Writes the steps that are not stale, and returns those."""
        done = await transitions_apply(self.connection, steps)
        self.applied += done.steps
        self.is_signalled = self.is_signalled or done.are_signalled
        return done.steps


Block = Callable[[Transaction], Awaitable[Result]]


@dataclass(slots=True, kw_only=True, eq=False)
class QueuedWrite(Generic[Result]):
    """Something handed over, and the one who waits for it, is called back, or neither."""

    steps: Sequence[Transition] = ()
    settled: Sequence[Settled] = ()
    notes: Sequence[Notice] = ()
    unfinished: Sequence[Job] = ()
    block: Block[Result] | None = None
    is_brief: bool = False
    is_signalled: bool = False
    """Whether engines of other processes are to look once it is committed."""

    company: Company = Company.SHARED
    then: OnCommit | None = None
    bytes: int = field(init=False)
    has_ended: bool = False
    error: Exception | None = None
    result: Result | None = None
    _done: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        self.bytes = _bytes_of(self.steps, self.notes)

    async def wait(self) -> None:
        """Returns when the transaction has ended; raises what went wrong."""
        if not self.has_ended:
            self._done = asyncio.get_running_loop().create_future()
            await self._done
        if self.error is not None:
            raise self.error

    def end(self, error: Exception | None = None) -> None:
        """The transaction has ended, or is given up. The first end counts."""
        if self.has_ended:
            return
        self.has_ended, self.error = True, error
        if self._done is not None and not self._done.done():  # who was cancelled waits no more
            self._done.set_result(None)
        if self.then is not None:
            self.then(error)


def _bytes_of(steps: Sequence[Transition], notes: Sequence[Notice]) -> int:
    """How much of outputs there is in these."""
    held = 0
    for step in (each for lead in steps for each in (lead, *lead.riders)):
        if step.outcome is not None and step.outcome.output is not None:
            held += len(step.outcome.output)
    return held + sum(note.bytes for note in notes)
