"""When to give up a run that gets nowhere: the time-out of a stalled run (exit)."""

from collections.abc import Callable
from typing import Final

import anyio

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.observers.served_run import ServedRun
from orchestrator.settings import run_settings
from orchestrator.units import SECOND_US

LOOKS: Final = 20
"""How often to look in the time after which a run is given up: it may last longer by one part in so many."""


async def until_stalled(look: Callable[[], ServedRun | None], after_us: int) -> None:
    """Returns once what `look` finds got nowhere for `after_us` microseconds: it may be served by another process by
    then.
    """
    timeout = StallTimeout(after_us)
    while True:
        await anyio.sleep(timeout.look_s)
        if (standing := look()) is not None and timeout.is_over(standing):
            return


def why_given_up(standing: ServedRun, after_us: int) -> str:
    """What is said of a run that is given up."""
    hold, finding = standing.blocked_by, standing.of_run.finding
    why = f"; {hold.sentence}" if hold else f"; {finding}" if finding else ""
    return f"it got nowhere for {format_duration(after_us)} ({run_settings.GIVE_UP_AFTER}){why}"


class StallTimeout:
    """Whether one run gets anywhere, within `us` microseconds in which this process sees how it stands."""

    def __init__(self, us: int) -> None:
        self._us = us
        self._at_once_us_max = max(2 * us // LOOKS, SECOND_US)
        self._stalled_us = 0
        self._refreshed_at = 0
        self._stood: tuple[object, ...] = ()

    @property
    def look_s(self) -> float:
        """How long to wait between two looks."""
        return self._us / LOOKS / SECOND_US

    def is_over(self, standing: ServedRun) -> bool:
        """Whether the service took no job of it and none came to an end for so long, nobody having paused it.

        A job that goes back and forth between here and a service that does not answer is no news. Where more time has
        passed between two looks than usual, this process was asleep, or cut off: what has come of the run meanwhile it
        has yet to find out.
        """
        count = standing.progress.count
        ended = sum(count(state.value) for state in TERMINAL)
        stands = (standing, ended, count(State.OUTSTANDING.value), count(FAILED_EXECUTIONS))
        if stands != self._stood or standing.controls.pause:
            self._stood, self._stalled_us = stands, 0
        else:
            self._stalled_us += min(standing.refreshed_at - self._refreshed_at, self._at_once_us_max)
        self._refreshed_at = standing.refreshed_at
        return self._stalled_us >= self._us
