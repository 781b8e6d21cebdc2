"""What a job is given of its own when it is tried again."""

import msgspec


class Escalation(msgspec.Struct, frozen=True):
    """What the next execution of a job gets that the one before had not."""

    endpoint: int
    """Where it is to be."""

    escalated: bytes
    """All that the job was given by then."""

    told: str
    """It in words, for the history; empty where it is nothing new."""

    is_free: bool = False
    """The execution before it has cost no attempt."""


class Afresh(msgspec.Struct, frozen=True, kw_only=True):
    """With which settings of their own jobs are tried again; without them those of their line and run hold again."""

    endpoint: int | None = None
    """Where; None: where they were."""

    policy: bytes | None = None
    attempts_max: int | None = None
    told: str = ""
    """The settings in words, for the history; empty where there are none."""
