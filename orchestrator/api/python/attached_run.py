"""A run of a program's: how it stands, wherever it is served."""

from collections.abc import Callable

from orchestrator.engine.hosting.served_run import ServedRun
from orchestrator.ledger.runs.runs import Run


class AttachedRun:
    """A run that the program's own engine serves, or that is followed at another process, and may go between them."""

    def __init__(self, standing: ServedRun) -> None:
        self.standing = standing
        self.readers = 0
        """How many inputs are being read for it."""

        self.announced_at = 0
        """When another process was told last that rows have come (microseconds UTC)."""

        self.error: BaseException | None = None
        """What has ended an input that is read beside."""

    @property
    def run(self) -> Run:
        """What it is by now."""
        return self.standing.run

    def move(self, standing: ServedRun) -> None:
        """It is served elsewhere from now on."""
        before, self.standing = self.standing, standing
        before.progress.nudge()

    def nudge(self) -> None:
        """Makes whoever waits look again."""
        self.standing.progress.nudge()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.error is not None or (self.readers == 0 and self.standing.is_over)

    @property
    def version(self) -> tuple[int, int]:
        """Another value once there is any news of it."""
        return id(self.standing), self.standing.progress.changes

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` holds, which only news of the run can make true."""
        while not condition():
            await self.standing.progress.change()
