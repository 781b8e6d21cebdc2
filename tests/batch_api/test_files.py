"""Files of the Batch API, as OpenAI's own client sends, lists, reads and removes them."""

import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from openai import AuthenticationError, BadRequestError, InternalServerError, NotFoundError
from openai.types.file_create_params import ExpiresAfter

from orchestrator.api.batch_api.file_store import UNCLAIMED_US
from orchestrator.api.batch_api.refusals import RequestRefusedError
from orchestrator.settings.batch_api.batch_api_settings import MB, BatchApiSettings
from orchestrator.units import DAY_US, SECOND_US
from tests.batch_api.harness import at_files

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOUR = ExpiresAfter(anchor="created_at", seconds=3_600)


async def test_a_file_is_posted_listed_read_and_removed(tmp_path: Path) -> None:
    async with at_files(tmp_path) as site:
        files, text = site.client().files, b'{"n": 1}\n' * 50_000
        file = await files.create(file=("../../in.jsonl", text), purpose="batch", expires_after=HOUR)
        now_s = site.ledger.now() // SECOND_US
        assert (file.filename, file.bytes, file.purpose, file.status) == ("in.jsonl", len(text), "batch", "processed")
        assert (file.created_at, file.expires_at) == (now_s, now_s + 3_600)
        assert site.stored == [file.id]
        assert await files.retrieve(file.id) == file
        assert [each async for each in files.list()] == [file]
        assert (await files.content(file.id)).content == text
        assert (await files.delete(file.id)).deleted
        assert site.stored == []
        with pytest.raises(NotFoundError, match="No such File object"):
            await files.content(file.id)


async def test_a_list_is_followed_by_its_cursors(tmp_path: Path) -> None:
    async with at_files(tmp_path) as site:
        files = site.client().files
        made = [(await files.create(file=b"{}", purpose="batch")).id for _ in range(5)]
        page = await files.list(limit=2)
        assert ([each.id for each in page.data], page.has_more) == ([made[4], made[3]], True)
        assert [each.id async for each in page] == made[::-1]
        assert [each.id async for each in files.list(order="asc", limit=2)] == made
        assert [each.id async for each in files.list(purpose="batch_output")] == []
        with pytest.raises(NotFoundError):
            await files.list(after="file-of-nobody")
        with pytest.raises(BadRequestError, match="limit"):
            await files.list(limit=0)


async def test_each_key_has_its_own_files_and_a_wrong_one_none(tmp_path: Path) -> None:
    async with at_files(tmp_path, keys={"team-a": "key-a", "team-b": "key-b"}) as site:
        ours, theirs = site.client("key-a").files, site.client("key-b").files
        file = await ours.create(file=b"{}", purpose="batch")
        assert [each async for each in theirs.list()] == []
        for ask in (theirs.retrieve, theirs.content, theirs.delete):
            with pytest.raises(NotFoundError):
                await ask(file.id)
        for wrong in ("key-c", "key", "key-a2"):
            with pytest.raises(AuthenticationError) as refused:
                await site.client(wrong).files.list()
            assert refused.value.code == "invalid_api_key"
        for header in (b"Bearer k\xc3\xa9y", b"Bearer \xff", b"Basic key-a", b"key-a", b""):
            async with site.http() as http:
                assert (await http.get("/v1/files", headers={b"Authorization": header})).status_code == 401
        assert await ours.retrieve(file.id) == file


async def test_without_keys_no_page_in_a_browser_is_answered(tmp_path: Path) -> None:
    async with at_files(tmp_path) as site, site.http() as http:
        assert (await http.get("/v1/files")).status_code == 200
        assert (await http.get("/v1/files", headers={"Host": "localhost:8800"})).status_code == 200
        for header in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
            answer = await http.post("/v1/files", headers=header, files={"file": b"{}"}, data={"purpose": "batch"})
            assert (answer.status_code, site.stored) == (403, [])
    async with at_files(tmp_path, keys={"a": "ka"}) as site, site.http() as http:
        named = {"Host": "batches.example.org", "Authorization": "Bearer ka"}
        assert (await http.get("/v1/files", headers=named)).status_code == 200


async def test_a_file_that_has_expired_is_gone_and_so_is_what_a_killed_process_has_left(tmp_path: Path) -> None:
    settings = BatchApiSettings(keep_files_us=2 * DAY_US)
    async with at_files(tmp_path, settings) as site:
        files = site.client().files
        short = await files.create(file=b"{}", purpose="batch", expires_after=HOUR)
        usual = await files.create(file=b"{}", purpose="batch")
        for name, age_us in ((".file-cut.7.tmp", UNCLAIMED_US + SECOND_US), ("file-new", 0), (usual.id, DAY_US)):
            (site.store.folder / name).touch()
            at = (site.ledger.now() - age_us) / SECOND_US
            os.utime(site.store.folder / name, (at, at))
        os.utime(site.store.folder / short.id, (0, 0))
        await site.store.tidy()
        assert site.stored == sorted(["file-new", usual.id, short.id])
        await anyio.sleep(3_600)
        with pytest.raises(NotFoundError):
            await files.retrieve(short.id)
        await site.store.tidy()
        assert short.id not in site.stored
        assert [each.id async for each in files.list()] == [usual.id]
        await anyio.sleep(2 * 86_400)
        await site.store.tidy()
        assert usual.id not in site.stored


async def test_a_file_that_cannot_be_kept_is_told_without_our_paths_and_may_be_sent_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_files(tmp_path) as site:
        site.store.folder.rmdir()
        with pytest.raises(InternalServerError) as failed:
            await site.client().files.create(file=b"{}", purpose="batch")
        assert str(tmp_path) not in str(failed.value)
        [logged] = caplog.messages
        assert f"{failed.value.request_id}, a request" in logged, "by which whoever runs this finds it"
        assert str(tmp_path) in logged
        site.store.make_folder()
        assert (await site.client().files.create(file=b"{}", purpose="batch")).id in site.stored


async def test_a_file_whose_content_did_not_come_with_a_copy_of_the_ledger_has_none(tmp_path: Path) -> None:
    async with at_files(tmp_path) as site:
        files = site.client().files
        file = await files.create(file=b"{}", purpose="batch")
        site.store.path(file.id).unlink()
        with pytest.raises(NotFoundError, match="No such content of File"):
            await files.content(file.id)
        assert (await files.delete(file.id)).deleted


async def test_an_upload_that_the_disk_cannot_take_leaves_nothing_and_others_go_on(tmp_path: Path) -> None:
    async with at_files(tmp_path) as site:
        files, usual = site.client().files, resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MB, usual[1]))
        try:
            with pytest.raises(InternalServerError):
                await files.create(file=b"x" * (4 * MB), purpose="batch")
            assert site.stored == []
            assert (await files.create(file=b"{}", purpose="batch")).id in site.stored
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)


async def test_what_does_not_fit_in_is_refused_and_the_oldest_are_told(tmp_path: Path) -> None:
    settings = BatchApiSettings(storage_megabytes_max=1, file_megabytes_max=1)
    async with at_files(tmp_path, settings, keys={"a": "ka", "b": "kb"}) as site:
        oldest = await site.client("ka").files.create(file=b"x" * (MB // 2), purpose="batch")
        kept = await site.client("kb").files.create(file=b"x" * (MB // 4), purpose="batch")
        with pytest.raises(BadRequestError, match=oldest.id) as refused:
            await site.client("ka").files.create(file=b"x" * (MB // 2), purpose="batch")
        assert refused.value.code == "storage_limit_exceeded"
        assert kept.id not in refused.value.message

        async def of_no_length() -> AsyncIterator[bytes]:
            yield b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
            yield b"x" * (MB // 2)
            yield b"\r\n--b--\r\n"

        form = {"Content-Type": "multipart/form-data; boundary=b", "Authorization": "Bearer ka"}
        async with site.http() as http:
            assert (await http.post("/v1/files", content=of_no_length(), headers=form)).status_code == 400
        assert site.stored == sorted([oldest.id, kept.id])
        await site.client("ka").files.delete(oldest.id)
        await site.client("ka").files.create(file=b"x" * (MB // 2), purpose="batch")


async def test_what_came_while_other_things_filled_the_room_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    async with at_files(tmp_path, BatchApiSettings(storage_megabytes_max=1, file_megabytes_max=1)) as site:
        with site.store.coming("file-late") as content:
            content.write(b"x")
            with pytest.raises(RequestRefusedError):
                await site.store.add("team-a", content, filename="f", size=MB + 1, expires_at=None)
        assert site.stored == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "purpose"),
        ({"purpose": "fine-tune"}, "purpose"),
        ({"purpose": "batch", "expires_after[anchor]": "created_at"}, "expires_after"),
        ({"purpose": "batch", "expires_after[anchor]": "then", "expires_after[seconds]": "3600"}, "expires_after"),
    ],
)
async def test_what_is_wrong_with_the_fields_is_said_and_nothing_stays(
    tmp_path: Path, fields: dict[str, str], param: str
) -> None:
    async with at_files(tmp_path) as site, site.http() as http:
        answer = await http.post("/v1/files", data=fields, files={"file": ("in.jsonl", b"{}")})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert site.stored == []
