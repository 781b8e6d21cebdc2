"""When to give up a run that gets nowhere."""

from collections.abc import Callable
from typing import Final

import anyio

from orchestrator.core.jobs.job import FAILED_EXECUTIONS
from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.engine.hosting.served_run import ServedRun
from orchestrator.units import SECOND_US

LOOKS: Final = 20
"""How often to look in the time after which a run is given up: it may last longer by one part in so many."""


async def until_over(look: Callable[[], ServedRun | None], after_us: int, now: Callable[[], int]) -> None:
    """Returns once what `look` finds got nowhere for `after_us` microseconds: it may be served by another process by
    then.
    """
    patience = Patience(after_us, now())
    while True:
        await anyio.sleep(patience.look_s)
        if (standing := look()) is not None and patience.is_over(standing, now()):
            return


class Patience:
    """With one run, for `us` microseconds from `now` on."""

    def __init__(self, us: int, now: int) -> None:
        self._us = us
        self._since = now
        self._stood: tuple[object, ...] = ()

    @property
    def look_s(self) -> float:
        """How long to wait between two looks."""
        return self._us / LOOKS / SECOND_US

    def is_over(self, standing: ServedRun, now: int) -> bool:
        """Whether the service took no job of it and none came to an end for so long, nobody having paused it.

        A job that goes back and forth between here and a service that does not answer is no news.
        """
        count = standing.progress.count
        ended = sum(count(state.value) for state in TERMINAL)
        stands = (standing, ended, count(State.OUTSTANDING.value), count(FAILED_EXECUTIONS))
        if stands != self._stood or standing.wishes.pause:
            self._stood, self._since = stands, now
        return now - self._since >= self._us
