"""Objects of S3 as they are written: in parts, which become the object in one step, on condition of what was there."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

from orchestrator.core.text.object_urls import shown_url
from orchestrator.stores.driver_source import driver_state
from orchestrator.stores.leftover_uploads import UploadNote, abort_leftovers
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.repeats import ANSWER_S, LOOK_S, LOOK_TRIES, TRIES, until_answered
from orchestrator.stores.store_errors import StoreError, gone, is_missing, is_unknown_request, too_large

PARTS_MAX: Final = 10_000
"""S3 takes no more of one object."""

ABORT_S: Final = 10.0
"""So long may an abort take, for which everybody waits: what is left is noted."""

CLOCKS_S: Final = 60
"""So far may the clock of a store and that of this machine be apart."""

_MD5: Final = re.compile(r'"?([0-9a-f]{32})"?')


class S3Upload:
    """The coming object at `url`. All of it raises `StoreError`."""

    def __init__(
        self,
        url: str,
        filesystem: Any,
        before: ObjectState | None,
        notes: Path | None = None,
        *,
        answer_s: float = ANSWER_S,
        given_up: Event | None = None,
    ) -> None:
        """What was there `before` is to be there still when it appears. `notes`: the folder where uploads are noted.
        What is not answered within `answer_s` is asked again, until all is `given_up`.
        """
        self._url = url
        self._before = before
        self._filesystem = filesystem
        bucket, key, _ = filesystem.split_path(url)
        self._place = {"Bucket": bucket, "Key": key}
        self._notes = notes
        self._answer_s = answer_s
        self._tries = TRIES
        self._given_up = given_up
        self._note: UploadNote | None = None
        self._upload: str | None = None
        self._tags: list[str] = []

    @property
    def has_begun(self) -> bool:
        """Whether parts of it are there."""
        return bool(self._tags)

    def check(self) -> None:
        """Finds out whether objects may be written there: an upload is begun, and aborted. Nobody waits for it long."""
        self._answer_s, self._tries = LOOK_S, LOOK_TRIES
        self._begin()
        self.abort()

    def _begin(self) -> None:
        if self._notes is not None:
            abort_leftovers(self._notes, self._abort_leftover)
            self._note = UploadNote(self._notes, self._url)
        self._upload = self._asked("create_multipart_upload", self._place)["UploadId"]
        if self._note is not None:
            self._note.began(self._upload)

    def add(self, part: bytes) -> None:
        """One more part."""
        if self._upload is None:
            self._begin()
        if len(self._tags) == PARTS_MAX:
            raise too_large(PARTS_MAX * len(part))
        number = len(self._tags) + 1
        told = self._asked("upload_part", self._place, UploadId=self._upload, PartNumber=number, Body=part)
        self._tags.append(told["ETag"])

    def complete(self, rest: bytes) -> None:
        """Has the object appear, with `rest` where that is all of it."""
        tag = None if self._before is None else self._before.identity.removeprefix("ETag ")
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            self._put(rest, condition)
        except StoreError as error:
            if is_unknown_request(error):  # a store that knows no conditions: it was looked at a moment ago
                self._put(rest, {})
            elif not self._is_ours(rest):
                raise (gone() if is_missing(error) else error) from error
        self._end()

    def _put(self, rest: bytes, condition: Mapping[str, str]) -> None:
        if not self._tags:
            self._asked("put_object", self._place, condition, Body=rest)
            return
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(self._tags, start=1)]
        upload = {"UploadId": self._upload, "MultipartUpload": {"Parts": parts}}
        self._asked("complete_multipart_upload", self._place, condition, upload)

    def _is_ours(self, rest: bytes) -> bool:
        """Whether the object is what was uploaded: it may be complete though its answer never came."""
        found = [_MD5.fullmatch(tag) for tag in self._tags]
        if not self._tags:
            expected = hashlib.md5(rest, usedforsecurity=False).hexdigest()
        elif all(found):
            together = b"".join(bytes.fromhex(each[1]) for each in found if each)
            expected = f"{hashlib.md5(together, usedforsecurity=False).hexdigest()}-{len(found)}"
        else:
            return False
        try:
            return driver_state(self._filesystem, self._url).identity.strip('"').removeprefix('ETag "') == expected
        except StoreError:
            return False

    def abort(self) -> None:
        """Nothing of it is left, or else it is noted that something is."""
        if self._upload is None:
            self._end()
            return
        self._given_up = None  # of what is given up this is the end
        with suppress(StoreError):
            self._aborted(self._place, self._upload)
            self._end()

    def _end(self) -> None:
        self._upload = None
        if self._note is not None:
            self._note.ended()
            self._note = None

    def _aborted(self, place: Mapping[str, str], upload: str) -> None:
        try:
            self._asked("abort_multipart_upload", place, answer_s=ABORT_S, tries=1, UploadId=upload)
        except StoreError as error:
            if not is_missing(error):
                raise

    def _abort_leftover(self, url: str, upload: str | None, noted_ns: int) -> None:
        bucket, key, _ = self._filesystem.split_path(url)
        place = {"Bucket": bucket, "Key": key}
        if upload is not None:
            self._aborted(place, upload)
            return
        found = self._asked("list_multipart_uploads", {"Bucket": bucket}, Prefix=key).get("Uploads") or ()
        for each in found:
            is_then = abs(each["Initiated"].timestamp() - noted_ns / 1e9) < CLOCKS_S
            if each["Key"] == key and is_then:
                self._aborted(place, each["UploadId"])

    def _asked(
        self,
        operation: str,
        *groups: Mapping[str, Any],
        answer_s: float | None = None,
        tries: int | None = None,
        **more: Any,
    ) -> Any:
        named = {name: value for group in groups for name, value in group.items()}
        ask = partial(self._filesystem.call_s3, operation, timeout=answer_s or self._answer_s, **named, **more)
        return until_answered(shown_url(self._url), ask, tries=tries or self._tries, given_up=self._given_up)
