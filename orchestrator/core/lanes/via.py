"""By which lanes the jobs of a run leave (`via`), and what the service has of a job that left so."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from orchestrator.core.limits.rate_pacer import Operation


class Via(StrEnum):
    """How jobs reach their worker."""

    QUEUE = "queue"
    """By `/run`: queued, retained, told of by webhook."""

    SYNC = "sync"
    """By `/runsync`: queued as well, and the answer is held until the job has ended, or for a time."""

    BOTH = "both"
    """By `/run`, and by `/runsync` as well while executions are short enough for its places."""

    OPENAI = "openai"
    """By `/openai/*`, or the same of a server at a URL: answered at once, or never."""

    HTTP = "http"
    """By a request to a server at a URL, whose body is the input: answered at once, or never."""

    BATCH = "batch"
    """In batches of the service's own, cheaper and later; by `/run` what cannot wait for them."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Those by which they leave, the one that is never given up first."""
        return _OPERATIONS[self]

    @property
    def operation(self) -> Operation:
        """That by which they leave, or most of them."""
        return _OPERATIONS[self][0]

    @property
    def foreseen(self) -> "Via":
        """By which of them it can be foreseen how jobs go: of batches the service promises no time, and what cannot
        wait for one leaves by `/run`.
        """
        return Via.QUEUE if self is Via.BATCH else self

    @property
    def has_queue(self) -> bool:
        """Whether the service has jobs that left so: by an id, with a TTL, a retention and a webhook."""
        return self not in (Via.OPENAI, Via.HTTP)

    @property
    def paths(self) -> str:
        """Those of its operations, for people."""
        return " and ".join(f"/{operation}" for operation in self.operations)

    def body_bytes_max(self, by_run: int) -> int:
        """The longest body that may leave so, where `/run` takes `by_run` bytes; only what leaves by no other lane may
        be as long as the others take.
        """
        return by_run * min(_BODY_FACTORS.get(operation, 1) for operation in self.operations)


_BODY_FACTORS: Final[Mapping[Operation, int]] = MappingProxyType(
    {Operation.RUNSYNC: 2, Operation.OPENAI: 2, Operation.HTTP: 3}
)
"""These take bodies so many times as long as `/run`: 20 MB, 20 and 30 instead of 10, as published."""

_OPERATIONS: Final[Mapping[Via, tuple[Operation, ...]]] = MappingProxyType(
    {
        Via.QUEUE: (Operation.RUN,),
        Via.SYNC: (Operation.RUNSYNC,),
        Via.BOTH: (Operation.RUN, Operation.RUNSYNC),
        Via.OPENAI: (Operation.OPENAI,),
        Via.HTTP: (Operation.HTTP,),
        Via.BATCH: (Operation.BATCH, Operation.RUN),
    }
)
