"""What Ctrl-C, SIGTERM and a lost terminal (SIGHUP) do: the first signal stops in order, a second leaves at once.

Either way nothing is lost. A terminal is lost once: its shell and the system may both say so, and nobody is there to be
impatient; so SIGHUP is never the second signal.
"""

import os
import signal
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.engine.observers.view import View

KILLED_BY: int = 128
"""Exit codes of programs that a signal ended begin here."""

IN_FLIGHT_S_MAX: Final = 10.0
"""How long requests in flight may go on once we stop; what is unanswered then is uncertain."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask us to stop. SIGHUP is not one of them where we were started to ignore it (`nohup`)."""
    asked = (signal.SIGINT, signal.SIGTERM)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)


class Stop:
    """Whether somebody asked us to stop."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.asked = anyio.Event()

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listens for the signals until cancelled."""
        with anyio.open_signal_receiver(*stop_signals()) as signals:
            task_status.started()
            async for signum in signals:
                if self.asked.is_set():
                    if signum == signal.SIGHUP:
                        continue
                    os._exit(KILLED_BY + signum)
                self._view.interrupted(signum)
                self._view.say(
                    f"stopping: requests in flight have up to {IN_FLIGHT_S_MAX:.0f} s to end; "
                    "a second Ctrl-C leaves at once: no result is lost, but what is in flight may be paid for twice"
                )
                self.asked.set()
