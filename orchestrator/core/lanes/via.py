"""By which lanes the jobs of a run leave (`via`), and what is owed for a job in each of them."""

from enum import StrEnum

from orchestrator.core.limits.rate_pacer import Operation


class Via(StrEnum):
    """How jobs reach their worker."""

    QUEUE = "queue"
    """By `/run`: queued, retained, told of by webhook."""

    OPENAI = "openai"
    """By `/openai/*`: answered at once, or never."""

    @property
    def operation(self) -> Operation:
        """By which they leave."""
        return Operation.OPENAI if self is Via.OPENAI else Operation.RUN

    @property
    def has_queue(self) -> bool:
        """Whether the service has jobs that left so: by an id, with a TTL, a retention and a webhook."""
        return self is not Via.OPENAI
