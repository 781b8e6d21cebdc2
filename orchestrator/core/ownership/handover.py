"""What an owner leaves to its successor as it lets go in order, so that this one goes on exactly.

Whoever finds nothing knows less than the owner before: it sends evenly for a while. Clocks of two machines are not
compared: times are from the moment on at which it was left, which is told by the ledger's clock.
"""

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from orchestrator.core.limits.request_slots import PacerLeft


class EndpointLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one endpoint stands."""

    left_at: int
    """By the ledger's clock."""

    limits: dict[str, PacerLeft]
    """By operation."""

    finished: int = 0
    finished_in: int = 0
    """How many jobs have finished of late, and in how long a time."""


class EndpointsLeft:
    """Of one process: what was left to it, and what it leaves, of endpoints by their numbers in the ledger."""

    def __init__(self) -> None:
        self._found: dict[int, EndpointLeft] = {}
        self._left: dict[int, EndpointLeft] = {}

    def find(self, endpoints: Iterable[int], text: str | None) -> None:
        """Takes up what the owner before has left of `endpoints` in `text`, but for what a program of another version
        says in another way. What was known of them is no news: another owner may have been there, also one that has
        left nothing, and this process may not have heard that it had given them.
        """
        for endpoint in endpoints:
            self._found.pop(endpoint, None)
            self._left.pop(endpoint, None)
        if text is not None:
            with suppress(msgspec.DecodeError):
                self._found |= msgspec.json.decode(text, type=dict[int, EndpointLeft])

    def of(self, endpoint: int) -> EndpointLeft | None:
        """How `endpoint` was left by whoever worked there, of this process or of another; None where nobody has told.

        It is told once: whoever asks works there from now on.
        """
        found = self._found.pop(endpoint, None)
        return self._left.pop(endpoint, found)

    def leave(self, endpoint: int, left: EndpointLeft) -> None:
        """Nobody of this process works at `endpoint` any more."""
        self._left[endpoint] = left

    def forget(self, text: str) -> None:
        """What `text` tells of is for others to go on by: how this process has left those endpoints is no news."""
        for endpoint in msgspec.json.decode(text, type=dict[int, msgspec.Raw]):
            self._left.pop(endpoint, None)

    def forget_all(self) -> None:
        """What is known of any endpoint may be old: a word to this process, or of it, was not heard."""
        self._found.clear()
        self._left.clear()

    @property
    def text(self) -> str:
        """How this process leaves its endpoints, as JSON."""
        return msgspec.json.encode(self._left).decode()
