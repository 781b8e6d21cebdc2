"""By which lanes the jobs of a run leave (`via`), and what is owed for a job in each of them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from orchestrator.core.limits.rate_pacer import Operation


class Via(StrEnum):
    """How jobs reach their worker."""

    QUEUE = "queue"
    """By `/run`: queued, retained, told of by webhook."""

    OPENAI = "openai"
    """By `/openai/*`, or the same of a server at a URL: answered at once, or never."""

    HTTP = "http"
    """By a request to a server at a URL, whose body is the input: answered at once, or never."""

    @property
    def operation(self) -> Operation:
        """By which they leave."""
        return _OPERATIONS[self]

    @property
    def has_queue(self) -> bool:
        """Whether the service has jobs that left so: by an id, with a TTL, a retention and a webhook."""
        return self not in (Via.OPENAI, Via.HTTP)


_OPERATIONS: Final[Mapping[Via, Operation]] = MappingProxyType(
    {Via.QUEUE: Operation.RUN, Via.OPENAI: Operation.OPENAI, Via.HTTP: Operation.HTTP}
)
