"""Questions are asked again, with backoff, while that may help: they change nothing, and cost only a request."""

from collections.abc import Awaitable, Callable
from traceback import clear_frames
from typing import Final, TypeVar

import tenacity

from orchestrator.client.jobs.refusals import RefusedError
from orchestrator.errors import NotSent, Unanswered

TRIES: Final = 4
"""How often a question is asked in all."""

REPEAT_S_MIN: Final = 0.5
REPEAT_S_MAX: Final = 8.0
"""The pause before a question is repeated, doubled each time."""

RETRY_AFTER_S_MAX: Final = 30.0
"""A service that wants a longer pause is reported instead of obeyed in silence."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
"""Waits so many seconds."""

_growing: Final = tenacity.wait_exponential(multiplier=REPEAT_S_MIN, max=REPEAT_S_MAX)


def may_pass(error: BaseException) -> bool:
    """Whether a question that met `error` may be answered a little later: the connection failed, the service did, or
    it wants a short pause.
    """
    if isinstance(error, RefusedError):
        return error.passing and (error.retry_after_s or 0) <= RETRY_AFTER_S_MAX
    return isinstance(error, NotSent | Unanswered)


async def repeated(
    ask: Callable[[], Awaitable[T]], sleep: Sleep, *, may_help: Callable[[BaseException], bool] = may_pass
) -> T:
    """What `ask` returns, in the end; or raises its last error.

    It is called up to `TRIES` times, while it `may_help`. The pauses grow, and are as long as the service wants;
    `sleep` makes them.
    """
    asking = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(TRIES),
        wait=_pause_s,
        retry=tenacity.retry_if_exception(may_help),
        reraise=True,
        sleep=sleep,
    )
    try:
        return await asking(ask)
    except BaseException as error:
        clear_frames(error.__traceback__)  # tenacity's frame keeps the error, which keeps the answers in all frames
        raise


def _pause_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    wanted_s = error.retry_after_s if isinstance(error, RefusedError) else None
    return max(_growing(state), wanted_s or 0.0)
