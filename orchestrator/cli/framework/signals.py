"""What Ctrl-C, SIGTERM and a lost terminal (SIGHUP) do: the first signal stops in order, a second leaves at once.

Either way nothing is lost. A terminal is lost once: its shell and the system may both say so, and nobody is there to be
impatient; so SIGHUP is never the second signal.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from orchestrator.cli.output.systemd import ALIVE, alive_every_s, notify

KILLED_BY: int = 128
"""Exit codes of programs that a signal ended begin here."""


class Interrupted(Protocol):
    """Who is told of a signal."""

    def interrupted(self, signum: int) -> None:
        """A signal asked the program to stop."""
        ...

    def info(self, line: str) -> None:
        """One line of information."""
        ...


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask us to stop. SIGHUP is not one of them where we were started to ignore it (`nohup`)."""
    asked = (signal.SIGINT, signal.SIGTERM)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)


@asynccontextmanager
async def stop_on_signals(console: Interrupted, said: str | None = None) -> AsyncIterator[anyio.Event]:
    """An event that the first signal sets; to the very end of the block, or a signal would hit the closing.

    The console is told of it, and `said` is told to whoever looks.
    """
    asked = anyio.Event()
    async with anyio.create_task_group() as watching:
        await watching.start(partial(_watch, console, asked, said))
        watching.start_soon(_say_alive)
        yield asked
        watching.cancel_scope.cancel()


async def _say_alive() -> None:
    """Tells a service manager that the event loop turns, where it wants to know."""
    every_s = alive_every_s()
    while every_s is not None:
        notify(ALIVE)
        await anyio.sleep(every_s)


async def _watch(console: Interrupted, asked: anyio.Event, said: str | None, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        task_status.started()
        async for signum in signals:
            if not asked.is_set():
                console.interrupted(signum)
                if said is not None:
                    console.info(said)
                asked.set()
            elif signum != signal.SIGHUP:
                os._exit(KILLED_BY + signum)
