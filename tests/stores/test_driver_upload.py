"""Objects as fsspec's drivers write them: here by a store whose objects appear when their file is closed, as Google's
and Azure's do.
"""

import io
import threading
from typing import Any

import pytest

from orchestrator.stores.driver_upload import DriverUpload
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.store_errors import StoreError
from tests.stores.gate import give_up

URL = "gs://bucket/results.jsonl"
THERE = ObjectState(size=3, identity="generation 1")


class Store:
    """Objects by their URLs. `x` in a mode is a condition, which is looked at in the end."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_expired = False
        self.is_silent = False
        self.stalled, self.over = threading.Event(), threading.Event()

    def open(self, url: str, mode: str, block_size: int) -> Any:
        store = self

        class File(io.BytesIO):
            def write(self, data: Any, /) -> int:
                if store.is_silent:
                    store.stalled.set()
                    store.over.wait()
                if store.is_expired:
                    raise PermissionError("the text of a driver, with a-secret in it")
                return super().write(data)

            def discard(self) -> None:
                self.is_dropped = True

            def close(self) -> None:
                if not self.closed and not hasattr(self, "is_dropped"):
                    if "x" in mode and url in store.objects:
                        raise FileExistsError(url)
                    store.objects[url] = self.getvalue()
                super().close()

        return File()


def test_it_appears_once_it_is_complete() -> None:
    store = Store()
    upload = DriverUpload(URL, store, None)
    upload.add(b"some ")
    assert (upload.has_begun, store.objects) == (True, {})
    upload.complete(b"rows")
    assert store.objects == {URL: b"some rows"}


def test_one_that_was_there_is_replaced_and_one_that_came_meanwhile_is_not() -> None:
    store = Store()
    upload = DriverUpload(URL, store, None)
    upload.add(b"ours")
    store.objects[URL] = b"theirs"
    with pytest.raises(StoreError, match="it was changed meanwhile"):
        upload.complete(b"")
    upload.abort()
    assert store.objects[URL] == b"theirs"
    DriverUpload(URL, store, THERE).complete(b"new")
    assert store.objects[URL] == b"new"


def test_one_that_is_given_up_never_appears() -> None:
    store = Store()
    upload = DriverUpload(URL, store, None)
    upload.add(b"half")
    upload.abort()
    assert store.objects == {}


def test_what_a_driver_says_is_not_repeated() -> None:
    store = Store()
    store.is_expired = True
    with pytest.raises(StoreError) as refused:
        DriverUpload(URL, store, None).add(b"x")
    assert refused.value.strerror == "access is denied (PermissionError)"


def test_one_that_is_given_up_is_not_waited_for_and_never_appears() -> None:
    store, given_up = Store(), threading.Event()
    upload = DriverUpload(URL, store, None, given_up)
    upload.add(b"some")
    store.is_silent = True
    giving_up = threading.Thread(target=give_up, args=(store.stalled, given_up))
    giving_up.start()
    with pytest.raises(StoreError, match="it was not there in time"):
        upload.add(b"rows")
    giving_up.join()
    upload.abort()
    store.over.set()
    assert store.objects == {}
