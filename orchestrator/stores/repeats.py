"""What is asked of a store is asked again, with growing pauses, while that may help, and nobody has given it up."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, NoReturn, TypeVar

import tenacity

from orchestrator.stores.store_errors import StoreError, broken, given_up_error, store_error_of

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

GIVEN_UP_S: Final = 0.2
"""So soon it is noticed that something was given up."""

LOOK_TRIES: Final = 2
LOOK_S: Final = 30.0
"""The same where somebody waits to hear whether anything is there, or can be: nothing has begun yet."""


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


def until_answered(
    place: str, ask: Callable[[], T], *, tries: int = TRIES, given_up: threading.Event | None = None
) -> T:
    """What `ask` returns of a driver, in the end, which is asked about `place`. Once that is `given_up`, nobody waits
    for its answer. Raises `StoreError`.
    """

    def tried() -> T:
        try:
            return ask() if given_up is None else _unless(given_up, ask)
        except Exception as error:
            raise store_error_of(error) from error

    sleep = time.sleep if given_up is None else tenacity.sleep_using_event(given_up)
    return repeating(place, sleep, tries=tries)(tried)


def _unless(given_up: threading.Event, ask: Callable[[], T]) -> T:
    asked = _left_to_itself(ask)
    while not given_up.is_set():
        if wait([asked], GIVEN_UP_S).done:
            return asked.result()
    raise given_up_error()


def answered_within(most_s: float, ask: Callable[[], T]) -> T:
    """What `ask` returns, if it does so soon enough. Raises what it raises, and else a `StoreError` that may pass."""
    asked = _left_to_itself(ask)
    if wait([asked], most_s).done:
        return asked.result()
    raise broken(f"the server says nothing for {most_s:g} s")


def _left_to_itself(ask: Callable[[], T]) -> Future[T]:
    """What `ask` will return, whom nobody has to wait for: drivers cannot be interrupted."""
    asked = Future[T]()

    def work() -> None:
        try:
            asked.set_result(ask())
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            asked.set_exception(error)

    threading.Thread(target=work, name="asking a store", daemon=True).start()
    return asked
