"""Who asks stores from the event loop, and for how long."""

import threading
from pathlib import Path

import anyio
import pytest
from anyio import from_thread

from orchestrator.stores.object_url import ObjectUrl, asked_about
from orchestrator.stores.store_errors import StoreError, denied

pytestmark = pytest.mark.anyio

URL = "s3://bucket/in.jsonl"


async def test_files_are_looked_at_where_one_is_and_stores_by_a_thread() -> None:
    here = threading.get_ident()
    assert await asked_about(threading.get_ident, Path("in.jsonl"), "in.jsonl", None) == here
    assert await asked_about(threading.get_ident) == here
    for place in (URL, ObjectUrl(URL), "https://host/in.jsonl"):
        assert await asked_about(threading.get_ident, Path("in.jsonl"), place) != here


async def test_what_a_store_refuses_is_raised() -> None:
    def refused() -> None:
        raise denied("access is denied")

    with pytest.raises(StoreError, match="access is denied"):
        await asked_about(refused, URL)


async def test_one_that_says_nothing_is_left_soon_after_the_cancellation() -> None:
    over = threading.Event()
    with anyio.CancelScope() as scope:

        def silent() -> None:
            from_thread.run_sync(scope.cancel)
            over.wait()

        await asked_about(silent, URL)
    assert (scope.cancelled_caught, over.is_set()) == (True, False)
    over.set()


async def test_one_that_answers_soon_is_waited_for_so_that_what_was_tried_is_taken_back() -> None:
    taken_back = False
    with anyio.CancelScope() as scope:

        def tried() -> None:
            nonlocal taken_back
            from_thread.run_sync(scope.cancel)
            from_thread.run(anyio.lowlevel.checkpoint)
            taken_back = True

        await asked_about(tried, URL)
    assert (scope.cancelled_caught, taken_back) == (True, True)
