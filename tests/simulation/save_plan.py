"""The files that are made of outputs in a simulated world, as they are drawn: how outputs give them, and what goes wrong."""

from enum import StrEnum, auto

import msgspec

from orchestrator.settings.words_and_defaults import OnUnsaved


class Given(StrEnum):
    """How an output gives a file."""

    BASE64 = auto()
    DATA_URL = auto()
    TEXT = auto()
    """It gives none: the member is a text that is nothing of the kind."""
    LINK = auto()
    SLOW = auto()
    """As a link whose server takes its time, piece by piece."""
    ANOTHER = auto()
    """As a link to the file of another row."""
    PAGE = auto()
    """As a link that leads to a page of HTML, with a 200: that is no file."""
    CUT = auto()
    """As a link whose answer ends in the middle."""
    GONE = auto()
    """As a link that is answered 403."""
    PRIVATE = auto()
    """As a link into our own network."""


LINKS = frozenset(Given) - {Given.BASE64, Given.DATA_URL, Given.TEXT}
NEVER_A_FILE = frozenset({Given.TEXT, Given.PAGE, Given.CUT, Given.GONE, Given.PRIVATE})


class SavePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A member of each output becomes a file in one folder, that of all runs."""

    given: tuple[Given, ...]
    """What outputs may give it by, each as often."""
    bytes_max: int
    on_unsaved: OnUnsaved
    full_share: float = 0.0
    """So often the disk is full while a link is fetched, until all is calm."""
    away: tuple[tuple[float, float], ...] = ()
    """From when to when (seconds) a file is in the place of the folder, as where a disk is not mounted."""
    strangers: tuple[int, ...] = ()
    """The rows whose file's name somebody else's file has already."""
