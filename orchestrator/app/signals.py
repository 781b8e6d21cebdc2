"""What Ctrl-C and SIGTERM do: the first stops in order, the second leaves at once. Either way nothing is lost."""

import os
import signal
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.app.view import View

KILLED_BY: int = 128
"""Exit codes of programs that a signal ended begin here."""

IN_FLIGHT_S_MAX: Final = 10.0
"""How long requests in flight may go on once we stop; what is unanswered then is uncertain."""


class Stop:
    """Whether somebody asked us to stop."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.asked = anyio.Event()

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listens for the signals until cancelled."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for signum in signals:
                if self.asked.is_set():
                    os._exit(KILLED_BY + signum)
                self._view.interrupted(signum)
                self._view.say(
                    f"stopping: requests in flight have up to {IN_FLIGHT_S_MAX:.0f} s to end; "
                    "a second Ctrl-C leaves at once and loses nothing either"
                )
                self.asked.set()
