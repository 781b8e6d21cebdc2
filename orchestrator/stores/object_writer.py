"""An object that appears whole or not at all: uploaded in parts, which become the object in one step.

What was there when writing began is replaced only if it is still the same then. What breaks off is aborted.
"""

from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Final, Protocol, Self

from orchestrator.core.text.object_urls import scheme_of
from orchestrator.errors import StorageError, UsageError
from orchestrator.stores.driver_upload import DriverUpload
from orchestrator.stores.drivers import filesystem_of
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.object_url import ObjectUrl
from orchestrator.stores.repeats import until_answered
from orchestrator.stores.s3_upload import S3Upload
from orchestrator.stores.store_errors import StoreError, changed, is_missing
from orchestrator.units import MIB

PART_BYTES: Final = 16 * MIB
"""So much is uploaded at once, and held; of S3's 10,000 parts that makes 156 GiB."""


class ObjectUpload(Protocol):
    """An object on its way. All of it raises `StoreError`."""

    @property
    def has_begun(self) -> bool:
        """Whether some of it is there."""
        ...

    def add(self, part: bytes) -> None:
        """One more part."""
        ...

    def complete(self, rest: bytes) -> None:
        """Has the object appear, with `rest` behind its parts."""
        ...

    def abort(self) -> None:
        """It never appears, and nothing of it is left."""
        ...


class ObjectReplacement:
    """The coming content of the object at `path`.

    Used as a context manager: `write` as often as needed, then `prepare` and `put_in_place`. Leaving without the last
    aborts what was uploaded. All of it raises `StorageError`, and may take its time.
    """

    def __init__(
        self, path: ObjectUrl, notes: Path | None = None, *, is_new: bool = False, given_up: Event | None = None
    ) -> None:
        """`notes` is the folder where uploads are noted, so that none is left behind by a kill. `is_new`: what is there
        already is not replaced, but an error, as what comes there meanwhile. Once `given_up` is set, what is under way
        raises at once.
        """
        self.path = path
        self._given_up = given_up
        self._is_new = is_new
        self._notes = notes
        self._buffer = bytearray()
        self._upload: ObjectUpload | None = None
        self._before: ObjectState | None = None
        self._is_prepared = False
        self.is_in_place = False
        """Whether it has taken its place."""

    def __enter__(self) -> Self:
        return self

    def write(self, data: bytes) -> None:
        """Adds `data`; it is in the object only once that is put in place."""
        self._buffer += data
        while len(self._buffer) >= PART_BYTES:
            part = bytes(memoryview(self._buffer)[:PART_BYTES])
            del self._buffer[:PART_BYTES]
            try:
                self._begun().add(part)
            except StoreError as error:
                raise self._failed(error) from error

    def prepare(self) -> None:
        """Uploads what is left. Nothing can be written afterwards."""
        if self._is_prepared:
            return
        try:
            upload = self._begun()
            if upload.has_begun and self._buffer:
                upload.add(bytes(self._buffer))
                self._buffer.clear()
            if self._found() != self._before:
                raise changed()
        except StoreError as error:
            raise self._failed(error) from error
        self._is_prepared = True

    def put_in_place(self) -> None:
        """Has the object appear."""
        try:
            self._begun().complete(bytes(self._buffer))
        except StoreError as error:
            raise self._failed(error) from error
        self.is_in_place = True

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._buffer.clear()
        if self._upload is not None and not self.is_in_place:
            self._upload.abort()

    def _begun(self) -> ObjectUpload:
        if self._upload is None:
            filesystem = filesystem_of(self.path.url)
            self._before = self._found()
            if self._is_new and self._before is not None:
                raise changed()
            if scheme_of(self.path.url) == "s3":
                self._upload = S3Upload(self.path.url, filesystem, self._before, self._notes, given_up=self._given_up)
            else:
                self._upload = DriverUpload(self.path.url, filesystem, self._before, self._given_up)
        return self._upload

    def _found(self) -> ObjectState | None:
        try:
            return until_answered(str(self.path), self.path.look, given_up=self._given_up)
        except StoreError as error:
            if is_missing(error):
                return None
            raise

    def _failed(self, error: StoreError) -> StorageError:
        return StorageError(f"cannot write {self.path}: {error.strerror}")


def check_object_writable(path: ObjectUrl) -> None:
    """Finds out whether `path` could be written. Raises `UsageError`. What is there is not touched."""
    filesystem = filesystem_of(path.url)
    try:
        if scheme_of(path.url) == "s3":
            S3Upload(path.url, filesystem, None).check()
        else:
            path.exists()
    except StoreError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
