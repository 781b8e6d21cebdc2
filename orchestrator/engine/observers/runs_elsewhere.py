"""Keeps up to date how runs stand that other engines serve, for whoever waits for them."""

import logging
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.engine.observers.run_elsewhere import RunElsewhere
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup
from orchestrator.errors import StoppedError, StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run

log = logging.getLogger(__name__)

GATHER_S: Final = 0.25
"""Between two looks: what has happened meanwhile is seen by one."""


class RunsElsewhere:
    """Of one engine, which hears by `on_change` that others may have done something. `looked` is called after a look at
    any.
    """

    def __init__(self, ledger: Ledger, looked: Callable[[], None]) -> None:
        self._ledger = ledger
        self._looked = looked
        self._followed: dict[int, RunElsewhere] = {}
        self._wakeup = Wakeup()

    def of(self, run: int) -> RunElsewhere | None:
        """The run of that number, if it is followed."""
        return self._followed.get(run)

    async def follow(self, run: Run) -> RunElsewhere:
        """How `run` stands, from now on until `leave`."""
        if (found := self._followed.get(run.id)) is None:
            found = RunElsewhere(self._ledger, run)
            await found.look()
            self._followed[run.id] = found
            self._wakeup.wake()  # of what came meanwhile it has not heard
        return found

    def leave(self, run: int) -> None:
        """Nobody waits for it any more."""
        self._followed.pop(run, None)

    def on_change(self) -> None:
        """Something may be different of any of them."""
        if self._followed:
            self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled."""
        task_status.started()
        while True:
            await self._wakeup.wait(SELDOM_S)
            if self._followed:
                await self._look()
                self._looked()
            await anyio.sleep(GATHER_S)

    async def _look(self) -> None:
        for number, run in list(self._followed.items()):
            try:
                await run.look()
            except StorageError as error:  # which is a `StoppedError` too
                log.warning("how %s stands could not be read: %s", run.run.name, error)
            except StoppedError:
                self.leave(number)
                run.progress.nudge()
