"""What is asked of a store is asked again, with growing pauses, while that may help."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

import tenacity

from orchestrator.stores.store_errors import StoreError, store_error_of

T = TypeVar("T")

TRIES: Final = 8
"""How often the same is asked for in all."""

REPEAT_S_MIN: Final = 0.5
REPEAT_S_MAX: Final = 30.0
"""The pause before it is asked for again, doubled each time."""


LOOK_TRIES: Final = 2
"""The same where somebody waits to hear whether anything is there: drivers ask again themselves."""


def repeating(sleep: Callable[[float], None] = time.sleep, *, tries: int = TRIES) -> tenacity.Retrying:
    """What asks again where a `StoreError` may pass; `sleep` makes the pauses."""
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(tries),
        wait=tenacity.wait_exponential(multiplier=REPEAT_S_MIN, max=REPEAT_S_MAX),
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, StoreError) and error.may_pass),
        reraise=True,
        sleep=sleep,
    )


def until_answered(ask: Callable[[], T]) -> T:
    """What `ask` returns of a driver, in the end. Raises `StoreError`."""

    def tried() -> T:
        try:
            return ask()
        except Exception as error:
            raise store_error_of(error) from error

    return repeating()(tried)
