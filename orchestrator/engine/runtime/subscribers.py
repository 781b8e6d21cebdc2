"""Whoever wants to be woken when something has changed."""

from collections.abc import Callable


class Subscribers:
    """Of one kind of news. What they do must neither raise nor wait: `Wakeup.wake` is meant."""

    def __init__(self) -> None:
        self._wakes: list[Callable[[], None]] = []

    def add(self, wake: Callable[[], None]) -> None:
        """Calls `wake` from now on, whenever there is news."""
        self._wakes.append(wake)

    def wake(self) -> None:
        """There is news."""
        for wake in self._wakes:
            wake()
