"""How many large bodies share the bandwidth at once, up or down.

What the line can carry is not known, and changes. So it is tried, as TCP does: as long as more bodies at once bring
more bytes a second, there are more of them; where they only share what there is, as few as bring the same; and fewer
when one has come to a standstill. What is read or written at once is bounded in bytes as well, since it is held in
memory. Times are microseconds UTC.
"""

from typing import Final

from orchestrator.units import MIB, SECOND_US

AT_ONCE: Final = 8
"""How many bodies there are at first: enough for a line whose round trips are long."""

AT_ONCE_MIN: Final = 4
AT_ONCE_MAX: Final = 64

BYTES_MAX: Final = 16 * MIB
"""What all of them may hold together; one alone may always go."""

EPOCH_US: Final = 1 * SECOND_US
"""The rate is taken over so long a time in which the line was full: all places on it were taken."""

KNOWN_US: Final = 5 * SECOND_US
"""For so long after it was full it is taken for full."""

STEADY_EPOCHS: Final = 10
"""After so many epochs it is tried whether more at once bring more."""

GAIN: Final = 1.15
"""They do if the rate is so many times as high. What had come for those who waited is a few percent of it."""

GROWTH: Final = 1.5
STALL: Final = 0.7
"""What a body that came to a standstill leaves of the number."""

_SIZE_WEIGHT: Final = 0.1
"""Of the latest body, in the mean of their sizes."""


class SharedLine:
    """The bodies on their way in one direction: who may join them, and what that has brought."""

    def __init__(self, *, at_once: int = AT_ONCE, bytes_max: int = BYTES_MAX) -> None:
        self.at_once = at_once
        """How many there may be."""

        self.bodies = 0
        self.bytes_per_s = 0.0
        """As of the latest epoch."""

        self._bytes_max = bytes_max
        self._held = 0
        self._mean_size = 0.0
        self._epoch_at: int | None = None
        self._full_at = -KNOWN_US
        self._moved = 0
        self._epochs = 0
        self._tried_from: tuple[int, float] | None = None

    def has_room(self, size: int) -> bool:
        """Whether a body of `size` bytes may join the others."""
        return not self.bodies or (self.bodies < self.at_once and self._held + size <= self._bytes_max)

    def join(self, size: int) -> None:
        """A body of `size` bytes is on its way."""
        self.bodies += 1
        self._held += size

    def leave(self, size: int) -> None:
        """The body that joined with `size` bytes is no longer."""
        self.bodies -= 1
        self._held -= size

    def completed(self, size: int) -> None:
        """All of a body has come, or gone: so many bytes."""
        weight = _SIZE_WEIGHT if self._mean_size else 1.0
        self._mean_size += weight * (size - self._mean_size)

    def stalled(self) -> None:
        """Nothing moved of one of them, for so long that it was given up."""
        self.at_once = max(AT_ONCE_MIN, int(self.at_once * STALL))
        self._begin_anew()

    def moved(self, size: int, now: int, *, has_waiting: bool) -> None:
        """So many bytes of one of them came or went. Only while the line is full they tell what it can carry."""
        if has_waiting or self.bodies >= self.at_once:
            self._full_at = now
        elif now > self._full_at + EPOCH_US:
            self._begin_anew()
            return
        if self._epoch_at is None:
            self._epoch_at, self._moved = now, 0
            return
        self._moved += size
        if now >= self._epoch_at + EPOCH_US:
            self.bytes_per_s = self._moved * SECOND_US / (now - self._epoch_at)
            self._epoch_at, self._moved = now, 0
            self._judge()

    def full_bytes_per_s(self, now: int) -> float | None:
        """How many bytes a second it carries; None while it is not full, or not known."""
        is_full = self._epoch_at is not None and now <= self._full_at + KNOWN_US
        return self.bytes_per_s if is_full and self.bytes_per_s else None

    def bodies_per_s(self, now: int) -> float | None:
        """How many bodies a second that are; None while that is not known."""
        bytes_per_s = self.full_bytes_per_s(now)
        return bytes_per_s / self._mean_size if bytes_per_s and self._mean_size else None

    def _begin_anew(self) -> None:
        self._epoch_at, self._epochs, self._tried_from = None, 0, None

    def _judge(self) -> None:
        """An epoch is over. The first one after a change is half of the time before it, and tells nothing."""
        self._epochs += 1
        if self._tried_from is None:
            if self._epochs >= STEADY_EPOCHS:
                self._try_more()
        elif self._epochs >= 2:  # noqa: PLR2004  the second epoch
            before, bytes_per_s = self._tried_from
            if self.bytes_per_s >= GAIN * bytes_per_s:
                self._try_more()
            else:
                self.at_once, self._tried_from, self._epochs = before, None, 0

    def _try_more(self) -> None:
        self._tried_from, self._epochs = (self.at_once, self.bytes_per_s), 0
        self.at_once = min(AT_ONCE_MAX, int(self.at_once * GROWTH))
