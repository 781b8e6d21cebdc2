"""What the programs of a simulated world that post batches have sent, and were told."""

from collections import defaultdict
from typing import Any

Body = dict[str, Any]


class PostedFacts:
    """Of all of them."""

    def __init__(self) -> None:
        self.uploads: dict[str, dict[str, bytes]] = {}
        """The bodies of the requests of each file that somebody knows of, by their ids."""
        self.owners: dict[str, str] = {}
        """Whose each file and batch is, of which somebody was told."""
        self.deleted: set[str] = set()
        """The files of which somebody was told that they are."""
        self.seen: defaultdict[str, list[str]] = defaultdict(list)
        """The states in which somebody has seen each batch."""
        self.ended: dict[str, Body] = {}
        """Each batch as somebody has seen it first once it had ended."""
        self.lines: dict[str, list[Body]] = {}
        """The lines of each file that somebody has read."""
        self.listed: dict[str, set[str]] = {}
        """What each team sees in the end."""
        self.flaws: list[str] = []
        """What nobody should have been told."""
