"""When those who wait for nothing but time are woken: together.

A process that wakes for one request, sleeps, and wakes for the next pays each time for the way there and back, and
finds its caches cold: with two endpoints at their limits that was a sixth of the processor time, with eight a twelfth
(measured). So waits end at whole ticks of the event loop's time, which are the same for all parts and all endpoints.
"""

from typing import Final

from orchestrator.units import MILLISECOND_US, SECOND_US

TICK_US: Final = 20 * MILLISECOND_US
"""Less than anybody would notice. Like every tick a whole number of milliseconds: uvloop's timers know no finer ones,
and round to the nearest, so that half of them would fire too early."""


def until_tick_s(wait_us: int, *, now_s: float, tick_us: int = TICK_US) -> float:
    """How many seconds to sleep from `now_s` of the event loop's time: `wait_us`, and on to the end of a tick.

    Those to whom `TICK_US` would be too long have ticks of their own.
    """
    at_us = round(now_s * SECOND_US) + wait_us
    return -(-at_us // tick_us) * tick_us / SECOND_US - now_s
