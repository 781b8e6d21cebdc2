"""Objects as they are written to an S3 server: whole or not at all, over nobody else's, and nothing left behind."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from orchestrator.stores.driver_source import DriverSource, driver_state
from orchestrator.stores.ranged_reader import opened
from orchestrator.stores.repeats import TRIES
from orchestrator.stores.s3_upload import S3Upload
from orchestrator.stores.store_errors import StoreError
from orchestrator.units import MIB
from tests.stores.gate import gate_before, give_up
from tests.stores.s3_server import BUCKET, S3Server, s3_server

pytestmark = pytest.mark.slow  # the server is a process of its own

PART = b"x" * (5 * MIB)
KEY = "out/results.jsonl"
URL = f"s3://{BUCKET}/{KEY}"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(server: S3Server) -> Any:
    for key in server.names():
        server.client.delete_object(Bucket=BUCKET, Key=key)
    environment = server.environment
    return fsspec.filesystem(
        "s3",
        key=environment["AWS_ACCESS_KEY_ID"],
        secret=environment["AWS_SECRET_ACCESS_KEY"],
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        use_listings_cache=False,
    )


def test_parts_become_the_object_in_one_step(store: Any, server: S3Server, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    upload = S3Upload(URL, store, None, notes)
    upload.add(PART)
    upload.add(b"the rest")
    assert server.names() == []
    assert len(list(notes.iterdir())) == 1
    upload.complete(b"")
    assert server.get(KEY) == PART + b"the rest"
    assert (server.uploads(), notes.exists()) == ([], False)


@pytest.mark.parametrize("parts", [0, 1])
def test_what_is_aborted_never_appears_and_leaves_nothing(store: Any, server: S3Server, parts: int) -> None:
    upload = S3Upload(URL, store, None)
    for _ in range(parts):
        upload.add(PART)
    upload.abort()
    assert (server.names(), server.uploads()) == ([], [])


@pytest.mark.parametrize(
    ("was_there", "parts"),
    [(False, 0), (False, 1), (True, 0)],  # of one that is replaced by parts this server ignores the condition
)
def test_what_another_has_written_meanwhile_is_not_replaced(
    store: Any, server: S3Server, parts: int, was_there: bool
) -> None:
    before = None
    if was_there:
        server.put(KEY, b"ours, of before")
        before = driver_state(store, URL)
    upload = S3Upload(URL, store, before)
    for _ in range(parts):
        upload.add(PART)
    server.put(KEY, b"theirs")
    with pytest.raises(StoreError) as refused:
        upload.complete(b"the rest" if not parts else b"")
    assert refused.value.strerror == "it was changed meanwhile"
    upload.abort()
    assert (server.get(KEY), server.uploads()) == (b"theirs", [])


@pytest.mark.parametrize("parts", [0, 1])
def test_what_is_there_still_is_replaced(store: Any, server: S3Server, parts: int) -> None:
    server.put(KEY, b"ours, of before")
    upload = S3Upload(URL, store, driver_state(store, URL))
    for _ in range(parts):
        upload.add(PART)
    upload.complete(b"new" if not parts else b"")
    assert server.get(KEY) == (PART if parts else b"new")


@pytest.mark.parametrize("parts", [0, 1])
def test_one_that_is_complete_though_nobody_heard_of_it_is_ours(store: Any, server: S3Server, parts: int) -> None:
    """The answer was lost, and the same is asked again: the store knows no such upload, and has the object."""
    upload = S3Upload(URL, store, None)
    for _ in range(parts):
        upload.add(PART)
    rest = b"" if parts else b"small"
    upload._put(rest, {})
    upload.complete(rest)
    assert server.get(KEY) == (PART if parts else b"small")


@pytest.mark.parametrize(
    ("url", "told"), [("s3://none/k", "there is no such bucket"), (f"s3://{BUCKET}/k", "")], ids=["none", "there"]
)
def test_that_it_could_be_written_is_tried_without_writing(store: Any, server: S3Server, url: str, told: str) -> None:
    if told:
        with pytest.raises(StoreError) as refused:
            S3Upload(url, store, None).check()
        assert refused.value.strerror == told
    else:
        S3Upload(url, store, None).check()
    assert (server.names(), server.uploads()) == ([], [])


KILLED = """
import json, os, signal, sys
from pathlib import Path
import fsspec
from orchestrator.stores.s3_upload import S3Upload
url, notes, parts, options = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
upload = S3Upload(url, fsspec.filesystem("s3", **options), None, notes)
for _ in range(parts):
    upload.add(b"x" * 5 * 1024 * 1024)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_aborted_by_the_next_and_what_one_at_work_has_is_not(
    store: Any, server: S3Server, tmp_path: Path
) -> None:
    notes = tmp_path / "orchestrator.db.uploads"
    options = json.dumps(
        {"key": "a", "secret": "b", "endpoint_url": server.environment["AWS_ENDPOINT_URL"]}
    )  # fmt: skip
    for parts in (1, 2):
        process = subprocess.run([sys.executable, "-c", KILLED, URL, str(notes), str(parts), options], check=False)
        assert process.returncode == -signal.SIGKILL
    assert server.uploads() == [KEY]  # the second has aborted what the first had left

    at_work = S3Upload(f"s3://{BUCKET}/another", store, None, notes)
    at_work.add(PART)
    assert server.uploads() == ["another"]
    next_one = S3Upload(URL, store, None, notes)
    next_one.add(PART)
    assert sorted(server.uploads()) == ["another", KEY]
    for each in (at_work, next_one):
        each.abort()
    assert (server.uploads(), notes.exists()) == ([], False)


def slow_store(url: str) -> Any:
    """The same store behind `url`, whose driver waits for an answer for a second only."""
    waiting = {"read_timeout": 1, "retries": {"total_max_attempts": 1}}
    store = fsspec.filesystem(
        "s3", key="a", secret="b", endpoint_url=url, config_kwargs=waiting, skip_instance_cache=True
    )
    store.retries = 1
    return store


def test_a_store_that_falls_silent_is_asked_again(server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    url = server.put("in/rows", PART)
    with gate_before(server.environment["AWS_ENDPOINT_URL"]) as gate:
        gate.silent = 2
        with opened(DriverSource(url, slow_store(gate.url)), sleep=lambda _: None) as stream:
            assert stream.read() == PART
    assert f"{url}: the server says nothing" in caplog.text


def test_a_part_that_nobody_takes_is_sent_again(store: Any, server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    with gate_before(server.environment["AWS_ENDPOINT_URL"]) as gate:
        upload = S3Upload(URL, slow_store(gate.url), None, answer_s=5)
        gate.unread = 1
        upload.add(PART)
        upload.complete(b"")
    assert server.get(KEY) == PART
    assert f"{URL}: the server says nothing (FSTimeoutError); asked again" in caplog.text


def test_one_that_is_given_up_is_not_waited_for_and_leaves_nothing(store: Any, server: S3Server) -> None:
    with gate_before(server.environment["AWS_ENDPOINT_URL"]) as gate:
        given_up = threading.Event()
        upload = S3Upload(URL, slow_store(gate.url), None, given_up=given_up)
        upload.add(PART)
        gate.unread = TRIES
        giving_up = threading.Thread(target=give_up, args=(gate.stalled, given_up))
        giving_up.start()
        with pytest.raises(StoreError, match="it was not there in time"):
            upload.add(PART)
        giving_up.join()
        assert gate.unread == TRIES - 1, "it is not sent again"
        upload.abort()
    assert (server.names(), server.uploads()) == ([], [])


def test_an_object_that_is_replaced_while_it_is_read_is_refused(store: Any, server: S3Server) -> None:
    server.put("in/large", b"a" * (20 * MIB))
    with opened(DriverSource(f"s3://{BUCKET}/in/large", store), sleep=lambda _: None) as stream:
        stream.read(MIB)
        server.put("in/large", b"b" * (20 * MIB))
        with pytest.raises(StoreError) as refused:
            stream.read()
    assert refused.value.strerror == "it was changed meanwhile"
