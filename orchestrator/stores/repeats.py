"""What is asked of a store is asked again, with growing pauses, while that may help."""

import logging
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

import tenacity

from orchestrator.stores.store_errors import StoreError, broken, store_error_of

log = logging.getLogger(__name__)

T = TypeVar("T")

TRIES: Final = 8
"""How often the same is asked for in all."""

REPEAT_S_MIN: Final = 0.5
REPEAT_S_MAX: Final = 30.0
"""The pause before it is asked for again, doubled each time."""


ANSWER_S: Final = 300.0
"""Within this a part or a block has to be there that its driver would wait for without end; a line of half a megabit a
second suffices.
"""

LOOK_TRIES: Final = 2
"""The same where somebody waits to hear whether anything is there: drivers ask again themselves."""


def repeating(place: str, sleep: Callable[[float], None] = time.sleep, *, tries: int = TRIES) -> tenacity.Retrying:
    """What asks again where a `StoreError` may pass, and says so of `place`; `sleep` makes the pauses."""

    def say(state: tenacity.RetryCallState) -> None:
        count, s = state.attempt_number, state.upcoming_sleep
        log.warning("%s: %s; asked again in %.1f s (%d of %d)", place, _error_of(state).strerror, s, count, tries - 1)

    def give_up(state: tenacity.RetryCallState) -> NoReturn:
        error = _error_of(state)
        raise broken(f"{error.strerror}, asked {tries} times; try again later") from error

    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(tries),
        wait=tenacity.wait_exponential(multiplier=REPEAT_S_MIN, max=REPEAT_S_MAX),
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, StoreError) and error.may_pass),
        reraise=True,
        sleep=sleep,
        before_sleep=say,
        retry_error_callback=give_up if tries > 1 else None,
    )


def _error_of(state: tenacity.RetryCallState) -> StoreError:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, StoreError)  # nothing else is asked for again
    return error


def until_answered(place: str, ask: Callable[[], T], *, tries: int = TRIES) -> T:
    """What `ask` returns of a driver, in the end, which is asked about `place`. Raises `StoreError`."""

    def tried() -> T:
        try:
            return ask()
        except Exception as error:
            raise store_error_of(error) from error

    return repeating(place, tries=tries)(tried)
