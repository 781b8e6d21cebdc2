"""How the program talks to a person: whoever runs it brings one of these."""

from collections.abc import Callable
from typing import Protocol

from orchestrator.views.status import Snapshot


class Console(Protocol):
    """Where the program talks to a person."""

    def info(self, line: str) -> None:
        """One line of information."""
        ...

    def warn(self, line: str) -> None:
        """One line that the person should not miss."""
        ...

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Shows progress until it is cancelled, asking `look` whenever it wants to."""
        ...

    def ready(self) -> None:
        """What the program was begun for is under way, here or in another process."""
        ...

    async def confirm_stop(self, run: str, served_by: str, /) -> bool:
        """Whether somebody who wants to follow `run` no longer wants it stopped, too; else it goes on elsewhere."""
        ...

    async def confirm_drop(self, run: str, unsuccessful: int, /) -> bool:
        """Whether somebody wants so many jobs of `run` dropped that are no longer in its input and have not succeeded;
        else they stay.
        """
        ...


class SilentConsole:
    """For programs that show nothing."""

    def info(self, line: str) -> None:
        """Nothing."""

    def warn(self, line: str) -> None:
        """Nothing."""

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Nothing."""

    def ready(self) -> None:
        """Nothing."""

    async def confirm_stop(self, _run: str, _served_by: str) -> bool:
        """No."""
        return False

    async def confirm_drop(self, _run: str, _unsuccessful: int) -> bool:
        """No."""
        return False
