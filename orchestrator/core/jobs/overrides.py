"""What a job is given of its own when it is tried again, and how its history tells of that."""

from typing import Final

import msgspec

ENDED_WITH: Final = "; it had ended with: "
WITH: Final = ", with "
"""In the reason of a reopening, before the error message that the job had until then."""

ESCALATED: Final = "; with "
"""In the reason of a retry, before what the next execution gets that the one before had not."""


AT_NO_ATTEMPT: Final = ", which costs no attempt"
"""In the reason of a retry, where that is so."""

RECHECKED: Final = "recheck"
"""The reason of a step that follows from what the run takes for a result by now."""


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


def escalated_with(reason: str) -> str:
    """What a retry for that reason gives in words; empty where it gives nothing."""
    return reason.partition(ESCALATED)[2]


def reopened_with(reason: str) -> str:
    """The settings in words with which a job was reopened for that reason; empty where it got none of its own."""
    return reason.partition(ENDED_WITH)[0].partition(WITH)[2]
