"""What an S3 store is asked for where something is written, and what comes of stores that forget, and that know less."""

import errno
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.stores.leftover_uploads import UploadNote, abort_leftovers
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.s3_upload import S3Upload
from orchestrator.stores.store_errors import StoreError

BUCKET, KEY = "data", "out/results.jsonl"
URL = f"s3://{BUCKET}/{KEY}"
PART = b"a part"


class Forgetful:
    """A store that has forgotten an upload, or knows no conditions."""

    def __init__(self, complete: type[OSError] | None) -> None:
        self.complete = complete
        self.asked: list[tuple[str, str]] = []
        """Each operation, with its condition or its upload."""

        self.uploads: list[dict[str, Any]] = []

    def split_path(self, url: str) -> tuple[str, str, None]:
        return BUCKET, KEY, None

    def invalidate_cache(self) -> None:
        pass

    def info(self, url: str) -> dict[str, Any]:
        raise FileNotFoundError(url)

    def call_s3(self, operation: str, **more: Any) -> dict[str, Any]:
        told = more.get("IfNoneMatch") or more.get("IfMatch") or ""
        self.asked.append((operation, more["UploadId"] if operation == "abort_multipart_upload" else told))
        if operation == "complete_multipart_upload" and self.complete is FileNotFoundError:
            raise FileNotFoundError
        if operation == "complete_multipart_upload" and more.get("IfNoneMatch"):
            raise OSError(errno.ENOSYS, "NotImplemented")
        return {"UploadId": "u", "ETag": "none of MD5", "Uploads": self.uploads}


def test_one_whose_parts_are_gone_says_so() -> None:
    upload = S3Upload(URL, Forgetful(FileNotFoundError), None)
    upload.add(PART)
    with pytest.raises(StoreError) as refused:
        upload.complete(b"")
    assert refused.value.strerror == "its parts are gone: somebody has aborted the upload"


def test_one_that_is_replaced_has_to_be_the_one_that_was_there() -> None:
    store = Forgetful(None)
    upload = S3Upload(URL, store, ObjectState(size=3, identity='ETag "e"'))
    upload.add(PART)
    upload.complete(b"")
    assert store.asked[-1] == ("complete_multipart_upload", '"e"')


def test_a_store_that_knows_no_conditions_is_asked_without() -> None:
    store = Forgetful(None)
    upload = S3Upload(URL, store, None)
    upload.add(PART)
    upload.complete(b"")
    assert store.asked[-2:] == [("complete_multipart_upload", "*"), ("complete_multipart_upload", "")]


def test_one_that_began_and_was_not_noted_yet_is_found_by_its_key_and_its_time(tmp_path: Path) -> None:
    (tmp_path / "left.json").write_text(json.dumps({"url": URL}))
    (tmp_path / "cut.json").write_text('{"ur')
    now = datetime.fromtimestamp((tmp_path / "left.json").stat().st_mtime, UTC)
    store = Forgetful(None)
    store.uploads = [
        {"Key": KEY, "UploadId": "ours", "Initiated": now + timedelta(seconds=5)},
        {"Key": KEY, "UploadId": "of another time", "Initiated": now - timedelta(hours=1)},
        {"Key": f"{KEY}.gz", "UploadId": "of another object", "Initiated": now},
    ]
    assert abort_leftovers(tmp_path, S3Upload(URL, store, None)._abort_leftover) == 1
    assert [told for operation, told in store.asked if operation == "abort_multipart_upload"] == ["ours"]
    assert not tmp_path.exists()


def test_a_note_of_an_upload_that_cannot_be_aborted_now_stays(tmp_path: Path) -> None:
    (tmp_path / "left.json").write_text(json.dumps({"url": URL, "upload": "u"}))

    def nobody_there(*_: object) -> None:
        raise ConnectionError

    assert abort_leftovers(tmp_path, nobody_there) == 0
    note = UploadNote(tmp_path, URL)
    assert abort_leftovers(tmp_path, lambda *_: None) == 1, "the one that is locked is somebody's"
    note.ended()
    assert not tmp_path.exists()
