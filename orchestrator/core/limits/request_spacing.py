"""How far apart requests must leave so that the service refuses none, however it counts and whatever round trips do.

The service stamps a request between its sending and its answer. So requests that leave evenly are stamped unevenly: two
of them may be nearer to each other by a round trip. At a thousand requests a window that is lost among the others; at a
hundred it is a few requests, and at ten most of one, so that the room for it is counted in requests, not in percent.

Two ways to count ask for more than a guard of whole windows gives. A *weighted counter* (this fixed window's count,
plus the last one's, less and less of it) refuses the first request of a window that follows a full one until its share
of the window is over; so no fixed window may be quite full. A *token bucket* of a tenth of the limit, one token at
least, refuses what comes nearer than its tokens do.
"""

import math
from typing import Final

MANY: Final = 30
"""From so many requests a window on, what round trips do to them adds up by chance, not at its worst."""

LARGE: Final = 700
"""From so many on, half a percent less than the whole rate is room enough, together with the guard."""

CHANCE: Final = 2.0
"""How many times the square root of the requests that are on their way at once: in simulated days none was refused."""

BUCKET_SHARE: Final = 10
"""The smallest token bucket holds the limit divided by this."""


def least_gap_us(requests: int, window_us: int, spread_us: int) -> float:
    """The least time between two requests under a limit of `requests` in `window_us`; 0 where that is no matter.

    `spread_us`: by how much two of them may be nearer to each other when they are stamped.
    """
    if requests >= LARGE:
        return 0.0
    if requests == 1:
        return 2 * window_us + spread_us  # after a window with one request in it, the next must have none
    tokens = max(1, requests // BUCKET_SHARE)
    by_bucket = (window_us / requests + spread_us) / tokens
    if requests < MANY:
        return max(by_bucket, min(_for_fewer(requests, by, window_us, spread_us) for by in range(1, requests)))
    root = math.sqrt(spread_us / window_us)
    in_window = (math.sqrt(root * root * CHANCE * CHANCE / 4 + requests - 1) - root * CHANCE / 2) ** 2
    return max(by_bucket, window_us / in_window)


def _for_fewer(requests: int, by: int, window_us: int, spread_us: int) -> float:
    """The gap at which no window, of whatever phase, holds more than `requests` less `by`.

    Then the weighted counter lets the first `by` of a window pass at any time, and each further one once its share of
    the window is over, of which it may be short by the spread.
    """
    fewer = requests - by
    return max((window_us + spread_us) / fewer, (window_us / fewer + spread_us) / by)
