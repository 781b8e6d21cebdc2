"""For how long a store is waited for."""

import threading

import pytest

from orchestrator.stores.repeats import answered_within
from orchestrator.stores.store_errors import StoreError, denied


def refused() -> str:
    raise denied("access is denied")


def test_what_is_answered_soon_enough_is_what_it_is() -> None:
    assert answered_within(60, lambda: "there") == "there"
    with pytest.raises(StoreError, match="access is denied"):
        answered_within(60, refused)


def test_who_says_nothing_is_not_waited_for_and_may_be_asked_again() -> None:
    over = threading.Event()
    with pytest.raises(StoreError, match="the server says nothing") as silent:
        answered_within(0.01, over.wait)
    over.set()
    assert silent.value.may_pass
