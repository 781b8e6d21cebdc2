"""What the moving parts ask of the outside, as protocols: each has one real implementation and the simulation's."""

from collections.abc import Callable
from typing import Protocol

from orchestrator.core.notice import Notice
from orchestrator.core.pacing import Operation
from orchestrator.core.responses import Answer


class Permit(Protocol):
    """Leave to send one request. It holds a slot of the concurrency limit until it is used up or given back."""

    def give_back(self) -> None:
        """Nothing was sent after all: the slot and the rate are free again. Harmless when the turn was used."""
        ...


class OneWay(Protocol):
    """One direction of the line to the service, as far as large bodies go: they wait for places on it."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        ...

    async def clear(self) -> None:
        """Waits until none waits: whoever would bring another one had better not."""
        ...

    def bytes_per_s(self) -> float | None:
        """How many bytes a second it brings; None where it is not full."""
        ...

    def bodies_per_s(self) -> float | None:
        """How many large bodies a second it brings; None where it is not full."""
        ...


class JobApi(Protocol):
    """The job operations of one endpoint.

    A request needs a turn, got by `permit` (which waits for the limits) and used up by the call it is handed to. So the
    caller decides *what* to send at the last moment. Calls raise `NotSent` when the request never left and `Unanswered`
    when no usable answer came; an HTTP error status is an `Answer` like any other. No call repeats a request by itself.
    """

    @property
    def up(self) -> OneWay:
        """The line to the service."""
        ...

    @property
    def down(self) -> OneWay:
        """The line from the service."""
        ...

    def permit_at_once(self, operation: Operation) -> Permit | None:
        """Leave for one request of `operation`, if it may be sent now and nobody waits for it."""
        ...

    async def permit(self, operation: Operation) -> Permit:
        """Waits until one request of `operation` may be sent."""
        ...

    def available(self, operation: Operation, within_us: int) -> int:
        """How many requests of `operation` may start within the next `within_us` microseconds, as far as one knows."""
        ...

    async def run(self, permit: Permit, body: bytes, *, leaving: Callable[[], None] | None = None) -> Answer:
        """`POST /run` with `body`, the complete JSON of the job request.

        `leaving` is called just before its last bytes are handed over: what ends before that has no effect there.
        """
        ...

    async def status(self, permit: Permit, remote_id: str) -> Answer:
        """`GET /status/{remote_id}`."""
        ...

    async def retry(self, permit: Permit, remote_id: str) -> Answer:
        """`POST /retry/{remote_id}`."""
        ...

    async def cancel(self, permit: Permit, remote_id: str) -> Answer:
        """`POST /cancel/{remote_id}`."""
        ...

    async def health(self, permit: Permit) -> Answer:
        """`GET /health`."""
        ...


class NoticeSink(Protocol):
    """Where the listener leaves what it was told."""

    async def note(self, notice: Notice) -> None:
        """Makes `notice` durable; raises `StorageError` when it could not be."""
        ...
