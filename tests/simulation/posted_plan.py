"""The batches that programs post in a simulated world, as they are drawn: whose, of what, and what becomes of them."""

from enum import StrEnum, auto

import msgspec

TEAMS = ("team-a", "team-b")


class Wrong(StrEnum):
    """What is wrong with a line of a file."""

    NO_JSON = auto()
    REPEATED_ID = auto()
    OTHER_MODEL = auto()
    OTHER_URL = auto()


class ProgramPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One program, that posts a file and a batch of it, and waits until that has ended."""

    team: int
    begins_s: float
    rows: int
    window_s: int
    """For so long it gives the batch."""
    wrong: Wrong | None = None
    """What is wrong with one line of its file; None: nothing."""
    cancels_after_s: float | None = None
    """It cancels its batch so long after it was made; None: it does not."""
    deletes_after_s: float | None = None
    """It deletes its file so long after that."""
    again: int = 1
    """So many batches it makes of its file."""


class PostedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of a world."""

    programs: tuple[ProgramPlan, ...]
