"""The classes of failures: why an execution or a request came to nothing (`class=timed_out` in a filter).

A class is one of this closed set. A *kind* is finer, and open: the failures of a run whose messages say the same
(`core.text.error_text.error_key`).
"""

from enum import StrEnum


class FailureClass(StrEnum):
    """Why an execution or a request came to nothing. These words stand in the errors file."""

    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INVALID_OUTPUT = "invalid_output"
    LOST = "lost"
    UNCERTAIN = "uncertain"
    EXPIRED = "expired"
    REJECTED = "rejected"
    TRANSPORT = "transport"
    THROTTLED = "throttled"
    SERVER = "server"
    CANCELLED = "cancelled"
    STEP = "step"
    """What makes a stage's rows of those of the one before has failed: nothing was sent."""
