"""Objects by fsspec's drivers, here by its file system in memory, and one that breaks."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from orchestrator.errors import UsageError
from orchestrator.stores.driver_source import DriverSource, driver_state
from orchestrator.stores.drivers import DRIVERS, filesystem_of
from orchestrator.stores.object_state import state_by_info
from orchestrator.stores.object_url import ObjectUrl
from orchestrator.stores.ranged_reader import opened
from orchestrator.stores.store_errors import StoreError

DATA = bytes(range(256)) * 1_000
URL = "memory://bucket/rows.jsonl"


class Breaking(MemoryFileSystem):  # type: ignore[misc]  # it has no types
    """Each file of it fails every other time, and `changes` when its end was read."""

    cachable = False
    changes = False

    def open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        found = super().open(path, mode, **more)
        if mode != "rb":
            return found
        data, outer = found.read(), self

        class File(io.BytesIO):
            number = 0

            def read(self, size: int | None = -1, /) -> bytes:
                self.number += 1
                if self.number % 2:
                    raise ConnectionResetError
                got = super().read(size)
                if outer.changes and not got:
                    outer.pipe(path, b"another")
                return got

        return File(data)


class Remembering(MemoryFileSystem):  # type: ignore[misc]  # the same
    """It keeps what it knows of an object until it is told to ask anew, as that of Hugging Face does."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Any] = {}

    def info(self, path: str, **more: Any) -> Any:
        if path not in self._known:
            self._known[path] = super().info(path, **more)
        return self._known[path]

    def invalidate_cache(self, path: str | None = None) -> None:
        self._known.clear()


@pytest.fixture
def store() -> Iterator[Breaking]:
    store = Breaking()
    store.pipe(URL, DATA)
    yield store
    store.rm("/bucket", recursive=True)


def test_where_it_breaks_it_goes_on_at_that_byte(store: Breaking) -> None:
    with opened(DriverSource(URL, store), sleep=lambda _: None) as stream:
        assert stream.read() == DATA


def test_one_that_is_another_behind_its_last_byte_is_refused(store: Breaking) -> None:
    store.changes = True
    with opened(DriverSource(URL, store), sleep=lambda _: None) as stream, pytest.raises(StoreError) as error:
        stream.read()
    assert error.value.strerror == "it was changed meanwhile"


def test_a_driver_that_remembers_is_asked_anew(store: Breaking) -> None:
    remembering = Remembering()
    assert driver_state(remembering, URL).size == len(DATA)
    store.pipe(URL, DATA * 2)
    with opened(DriverSource(URL, remembering)) as stream:
        assert len(stream.read()) == len(DATA) * 2
    with opened(DriverSource(URL, remembering)) as stream:
        store.pipe(URL, DATA)
        with pytest.raises(StoreError, match="changed meanwhile"):
            stream.read()


@pytest.mark.parametrize("path", ["memory://bucket/none", "memory://bucket"])
def test_one_that_is_not_there_or_is_a_folder_is_told(path: str, store: Breaking) -> None:
    with pytest.raises(StoreError) as error:
        opened(DriverSource(path, store))
    assert error.value.strerror == "there is no such object"


@pytest.mark.parametrize(
    ("info", "identity"),
    [
        ({"size": 3, "ETag": '"e"', "LastModified": "2026-11-28"}, 'ETag "e"'),  # s3fs
        ({"size": 3, "generation": "17", "etag": "CAE="}, "generation 17"),  # gcsfs
        ({"size": 3, "etag": "0x8D", "last_modified": None}, "ETag 0x8D"),  # adlfs
        ({"size": 3, "blob_id": "ab12"}, "blob ab12"),  # huggingface_hub
        ({"size": 3, "mtime": "2026-11-28T10:00:00Z"}, "3 bytes of 2026-11-28T10:00:00Z"),
    ],
)
def test_what_stands_for_the_content_is_where_each_driver_has_it(info: dict[str, Any], identity: str) -> None:
    assert state_by_info(info).identity == identity


def test_when_it_was_written_is_told_as_files_have_it() -> None:
    assert state_by_info({"size": 0, "mtime": "1970-01-01T00:00:01Z"}).st_mtime_ns == 1_000_000_000
    assert state_by_info({"size": 0, "mtime": "some day"}).st_mtime_ns == 0


@pytest.mark.parametrize("scheme", ["gs", "az", "hf"])
def test_a_missing_driver_is_told_with_the_command_that_installs_it(scheme: str) -> None:
    driver = DRIVERS[scheme]
    with pytest.raises(
        UsageError, match=rf"{scheme}:// needs {driver.package}, which is not installed: .*\[{driver.extra}\]"
    ):
        filesystem_of(f"{scheme}://bucket/key")


def test_each_scheme_is_a_protocol_that_fsspec_finds_by_the_package_that_is_told() -> None:
    from fsspec.registry import known_implementations

    modules = {driver.package: known_implementations[driver.protocol]["class"] for driver in DRIVERS.values()}
    assert all(module.startswith(package) for package, module in modules.items())


def test_a_url_is_shown_without_its_query_and_takes_part_in_names() -> None:
    url = ObjectUrl.parsed("https://h/a/rows.jsonl?sig=hush")
    assert "hush" not in f"{url} {url!r}"
    output = ObjectUrl.parsed("s3://b/out/results.jsonl")
    assert str(output.parent / f"{output.name}.errors.jsonl") == "s3://b/out/results.jsonl.errors.jsonl"
    assert output == ObjectUrl.parsed("S3://b/out/results.jsonl").absolute()
