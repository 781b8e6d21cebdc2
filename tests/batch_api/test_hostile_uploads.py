"""Uploads that are cut, endless, or no forms at all: each is answered, bounded, and leaves nothing."""

import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.batch_api.multipart import FIELD_BYTES_MAX, PARTS_MAX
from orchestrator.batch_api.uploads import FORM_BYTES, SLOWEST
from orchestrator.settings.batch_api.batch_api_settings import MB, BatchApiSettings
from tests.batch_api.harness import at_files

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FORM = {"Content-Type": "multipart/form-data; boundary=b"}
SMALL = BatchApiSettings(file_megabytes_max=1)


def part(name: str, value: bytes, more: str = "", headers: str = "") -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n%b\r\n%b\r\n' % (
        name.encode(),
        more.encode(),
        headers.encode(),
        value,
    )


PURPOSE = part("purpose", b"batch")
FILE = part("file", b"{}", '; filename="in.jsonl"')
END = b"--b--\r\n"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (PURPOSE + FILE, FORM),
        (PURPOSE + FILE[:-4], FORM),
        (b"", FORM),
        (b"no form at all", FORM),
        (PURPOSE + FILE + END, {"Content-Type": "multipart/form-data"}),
        (PURPOSE + FILE + END, {"Content-Type": "application/json"}),
        (PURPOSE + FILE + END, {}),
        (PURPOSE + FILE + END, {"Content-Type": f"multipart/form-data; boundary={'b' * 300}"}),
        (PURPOSE + FILE + END, {"Content-Type": "multipart/form-data; boundary=another"}),
        (PURPOSE + FILE + FILE + END, FORM),
        (PURPOSE + PURPOSE + FILE + END, FORM),
        (PURPOSE + part("image", b"{}", '; filename="in.jsonl"') + END, FORM),
        (PURPOSE + part("file", b"{}") + END, FORM),
        (PURPOSE + part("", b"{}") + FILE + END, FORM),
        (PURPOSE + END, FORM),
        (part("purpose", b"x" * (FIELD_BYTES_MAX + 1)) + FILE + END, FORM),
        (b"".join(part(f"p{n}", b"") for n in range(PARTS_MAX)) + FILE + END, FORM),
        (part("purpose", b"batch", headers=f"X: {'x' * 9_000}\r\n") + FILE + END, FORM),
        (part("purpose", b"batch", headers="X: x\r\n" * 100) + FILE + END, FORM),
    ],
)
async def test_what_is_no_form_with_one_file_is_refused_and_leaves_nothing(
    tmp_path: Path, body: bytes, headers: dict[str, str]
) -> None:
    async with at_files(tmp_path) as site, site.http() as http:
        answer = await http.post("/v1/files", content=body, headers=headers)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["message"]
        assert site.stored == []


async def test_a_form_may_come_byte_by_byte_with_parts_that_nobody_knows(tmp_path: Path) -> None:
    body = part("color", b"blue") + FILE + PURPOSE + END

    async def bytewise() -> AsyncIterator[bytes]:
        for byte in body:
            yield bytes([byte])

    async with at_files(tmp_path) as site, site.http() as http:
        answer = await http.post("/v1/files", content=bytewise(), headers=FORM)
        assert answer.status_code == 200, answer.text
        assert (site.store.folder / answer.json()["id"]).read_bytes() == b"{}"


async def test_an_upload_without_end_is_refused_once_it_is_too_long_and_read_no_further(tmp_path: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield PURPOSE + FILE[:-2]
        while True:
            sent += 100_000
            yield b"x" * 100_000

    async with at_files(tmp_path, SMALL) as site, site.http() as http:
        answer = await http.post("/v1/files", content=endless(), headers=FORM)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert sent <= MB + FORM_BYTES
        assert site.stored == []


async def test_parts_without_end_are_bounded_too(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield PURPOSE + FILE
        while True:  # what comes behind the last boundary is nobody's
            yield END + b"x" * 100_000

    async with at_files(tmp_path, SMALL) as site, site.http() as http:
        answer = await http.post("/v1/files", content=endless(), headers=FORM)
        assert answer.status_code in (400, 413)
        assert site.stored == []


async def test_a_length_that_is_too_long_is_refused_before_anything_is_read(tmp_path: Path) -> None:

    headers = {**FORM, "Content-Length": str(MB + FORM_BYTES + 1)}
    async with at_files(tmp_path, SMALL) as site, site.http() as http:
        request = http.build_request("POST", "/v1/files", content=b"", headers=headers)
        assert (await http.send(request)).status_code == 413
        assert site.stored == []


async def test_who_falls_silent_is_given_up(tmp_path: Path) -> None:
    async def silent() -> AsyncIterator[bytes]:
        yield PURPOSE + FILE[:-2]
        await anyio.sleep_forever()

    async with at_files(tmp_path) as site, site.http() as http:
        answer = await http.post("/v1/files", content=silent(), headers=FORM, timeout=None)
        assert answer.status_code == 400
        assert "60 s" in answer.json()["error"]["message"]
        assert site.stored == []


async def test_a_question_that_never_ends_is_given_up_like_one_that_is_too_long(tmp_path: Path) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        while True:
            await anyio.sleep(10)
            yield b" "

    async with at_files(tmp_path) as site, site.http() as http:
        late = await http.post("/v1/batches", content=dripping(), timeout=None)
        assert (late.status_code, late.headers["connection"]) == (400, "close")
        assert (await http.post("/v1/batches", content=b" " * 70_000)).status_code == 413


async def test_who_sends_a_byte_now_and_then_is_given_up_and_who_is_only_slow_is_not(tmp_path: Path) -> None:
    async def dripping(size: int) -> AsyncIterator[bytes]:
        yield PURPOSE + FILE[:-2]
        for _ in range(10):
            await anyio.sleep(50)
            yield b"x" * size
        yield b"\r\n" + END

    async with at_files(tmp_path) as site, site.http() as http:
        refused = await http.post("/v1/files", content=dripping(1), headers=FORM, timeout=None)
        assert (refused.status_code, site.stored) == (400, [])
        assert "too slowly" in refused.json()["error"]["message"]
        taken = await http.post("/v1/files", content=dripping(50 * SLOWEST), headers=FORM, timeout=None)
        assert taken.status_code == 200, taken.text


async def test_room_is_kept_for_what_is_coming_and_given_back_where_it_never_came(tmp_path: Path) -> None:
    settings = BatchApiSettings(file_megabytes_max=1, storage_megabytes_max=2)
    body, begun, cut = PURPOSE + FILE + END, anyio.Event(), anyio.Event()

    async def waiting() -> AsyncIterator[bytes]:  # nobody says how much it is
        yield PURPOSE
        begun.set()
        await cut.wait()
        yield b"no form"

    async with at_files(tmp_path, settings) as site, site.http() as http, anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(partial(http.post, "/v1/files", content=waiting(), headers=FORM))
        await begun.wait()
        await anyio.sleep(1)
        refused = await http.post("/v1/files", content=body, headers=FORM)
        assert refused.json()["error"]["code"] == "storage_limit_exceeded"
        cut.set()
        await anyio.sleep(1)
        assert (await http.post("/v1/files", content=body, headers=FORM)).status_code == 200


async def test_no_file_is_taken_that_would_leave_no_room_on_the_disk(tmp_path: Path) -> None:
    free_mb = shutil.disk_usage(tmp_path).free // MB
    settings = BatchApiSettings(file_megabytes_max=2 * free_mb, storage_megabytes_max=2 * free_mb)
    async with at_files(tmp_path, settings) as site, site.http() as http:
        headers = {**FORM, "Content-Length": str(free_mb * MB)}
        request = http.build_request("POST", "/v1/files", content=b"", headers=headers)
        refused = await http.send(request)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "storage_limit_exceeded")
        assert "disk" in refused.json()["error"]["message"]
        assert site.stored == []


@pytest.mark.parametrize("path", ["/v1/files/..%2f..%2fl.db", "/v1/files/.file-1.7.tmp/content", "/v1/files/%00", "/"])
async def test_no_path_leads_to_anything_but_a_file_of_the_ledger(tmp_path: Path, path: str) -> None:
    async with at_files(tmp_path) as site, site.http() as http:
        (site.store.folder / ".file-1.7.tmp").write_text("secret")
        answer = await http.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert (await http.put("/v1/files")).status_code == 405
