"""Whoever wants to hear when something has changed."""

from collections.abc import Callable, Sequence

from orchestrator.core.jobs.transition_type import Transition
from orchestrator.engine.runtime.scope import Scope


class Subscribers:
    """Of one kind of news. What they do must neither raise nor wait: `Wakeup.wake` is meant."""

    def __init__(self) -> None:
        self._wakes: list[Callable[[], None]] = []

    def add(self, wake: Callable[[], None]) -> None:
        """Calls `wake` from now on, whenever there is news."""
        self._wakes.append(wake)

    def remove(self, wake: Callable[[], None]) -> None:
        """Calls `wake` no more."""
        self._wakes.remove(wake)

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self._wakes)

    def wake(self) -> None:
        """There is news."""
        for wake in self._wakes:
            wake()


class StepSubscribers:
    """Those in one engine who hear of steps: after each transaction, of those that jobs at endpoints of its `scope`
    have made. They must not raise.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._subscribers: list[Callable[[Sequence[Transition]], None]] = []
        self._of_all: list[Callable[[Sequence[Transition]], None]] = []

    def add(self, subscriber: Callable[[Sequence[Transition]], None]) -> None:
        """Calls `subscriber` from now on, after those who were there before."""
        self._subscribers.append(subscriber)

    def add_of_all(self, subscriber: Callable[[Sequence[Transition]], None]) -> None:
        """The same with all steps, also those of other engines of this process."""
        self._of_all.append(subscriber)

    def tell(self, taken: Sequence[Transition]) -> None:
        """A transaction of this process has made these."""
        for subscriber in self._of_all:
            subscriber(taken)
        if not self._scope.is_everything:
            taken = [step for step in taken if self._scope.has(step.before.endpoint)]
        if taken:
            for subscriber in self._subscribers:
                subscriber(taken)
