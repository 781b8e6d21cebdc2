"""Batches by OpenAI's own client, from the file that is posted to the files that come back."""

import json
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from openai import AsyncOpenAI, BadRequestError, ConflictError, NotFoundError
from openai.types import Batch

from orchestrator.api.admin.run_admin import delete
from orchestrator.api.batch_api.batch_keeper import AGAIN_S
from orchestrator.api.inspect.status import show
from orchestrator.api.runs.process_commands import control
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.errors import StorageError
from orchestrator.ledger import IntakeRight
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.batch_api.batch_api_settings import BatchApiSettings
from orchestrator.settings.command_requests import ControlAction
from orchestrator.units import DAY_US, MINUTE_US
from orchestrator.views.posted_status import PostedStatus
from tests.api.desk import desk
from tests.batch_api.harness import CHAT, MODEL, Site, at_files, batch_api, ended, lines, posted, request, rows_of
from tests.core.batch_api.test_posted_batch import BATCH
from tests.ledger.ledgers import CutOff

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def answer(raw: bytes, _number: int) -> WorkerResult:
    """What a worker of a language model makes of a request."""
    said = json.loads(raw)["messages"][0]["content"]
    if said == "hi 1":
        return WorkerResult(error="CUDA out of memory")
    if said == "hi 2":
        return WorkerResult(output=b'{"object":"error","code":400,"message":"too long"}')
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}
    return WorkerResult(output=json.dumps([{"object": "chat.completion", "said": said, "usage": usage}]).encode())


async def test_a_batch_is_a_run_whose_files_have_each_request_once(tmp_path: Path) -> None:
    async with desk(tmp_path, work=answer) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await posted(client, lines([request(n) for n in range(40)]), metadata={"night": "7"})
        assert (batch.status, batch.metadata, batch.errors) == ("validating", {"night": "7"}, None)
        assert (batch.expires_at or 0) - batch.created_at == 86_400
        batch = await ended(client, batch)
        counts = batch.request_counts
        assert counts is not None
        assert (batch.status, counts.total, counts.completed, counts.failed) == ("completed", 40, 38, 2)
        assert (
            batch.created_at <= (batch.in_progress_at or 0) <= (batch.finalizing_at or 0) <= (batch.completed_at or 0)
        )
        assert batch.model == MODEL
        usage = batch.usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (7 * 38, 2 * 38, 9 * 38)
        assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (0, 38)
        results, errors = await rows_of(client, batch.output_file_id), await rows_of(client, batch.error_file_id)
        assert results.keys() | errors.keys() == {f"r{n}" for n in range(40)}
        assert results["r0"]["response"]["status_code"] == 200
        assert results["r0"]["response"]["body"]["said"] == "hi 0"
        assert errors["r1"]["error"] == {"code": "failed", "message": "CUDA out of memory"}
        assert (errors["r2"]["response"]["status_code"], errors["r2"]["error"]) == (400, None)
        run = await site.ledger.runs.named(batch.id)
        assert run is not None, "all commands see it"
        shown = await show(shop.ledger, batch.id)
        assert shown.posted == PostedStatus(by=None, model=MODEL, state="completed")
        assert run.settings.finish_by // 1_000_000 == batch.expires_at
        files = [each async for each in client.files.list(purpose="batch_output")]
        assert {each.id for each in files} == {batch.output_file_id, batch.error_file_id}


async def test_a_batch_without_failures_has_no_file_of_errors(tmp_path: Path) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        client = site.client()
        kept = {"anchor": "created_at", "seconds": 3_600}
        batch = await ended(client, await posted(client, lines([request(0, "other")]), output_expires_after=kept))
        output = await client.files.retrieve(batch.output_file_id or "")
        assert output.expires_at == output.created_at + 3_600
        assert (batch.status, batch.error_file_id, batch.usage) == ("completed", None, None)
        assert [*await rows_of(client, batch.output_file_id)] == ["r0"]


async def test_a_batch_may_begin_with_a_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await ended(client, await posted(client, b"\xef\xbb\xbf\n \n\n" + lines([request(0)])))
        assert (batch.status, batch.model) == ("completed", MODEL)


async def test_what_is_wrong_with_a_file_is_told_by_lines_and_nothing_is_sent(tmp_path: Path) -> None:
    wrong: list[Any] = [
        request(0),
        request(1, "nobodys"),
        request(2, "other"),
        request(0),
        request(3, url="/v1/embeddings"),
        {**request(4), "method": "GET"},
        request(5, stream=True),
        {**request(6), "body": {}},
        {**request(7), "body": {"model": 7}},
        {"custom_id": "r8"},
    ]
    text = lines(wrong) + b"{no json\n\n" + lines([request(11)]) + b"[1]"
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await ended(client, await posted(client, text))
        assert (batch.status, batch.output_file_id, batch.failed_at is not None) == ("failed", None, True)
        assert batch.errors is not None
        found = [(each.line, each.code) for each in batch.errors.data or []]
        assert found == [
            (2, "model_not_found"),
            (3, "mismatched_model"),
            (4, "duplicate_custom_id"),
            (5, "invalid_url"),
            (6, "invalid_request"),
            (7, "invalid_request"),
            (8, "missing_required_parameter"),
            (9, "invalid_request"),
            (10, "invalid_request"),
            (11, "invalid_json_line"),
            (14, "invalid_json_line"),
        ]
        assert await site.ledger.runs.names(not_accepted=True) == []
        assert not shop.service.counts.submitted


async def test_more_requests_than_a_batch_may_have_and_longer_ones_than_a_worker_takes_are_refused(
    tmp_path: Path,
) -> None:
    text = lines([request(0, padding="x" * 11_000_000), *(request(n) for n in range(1, 9))])
    async with desk(tmp_path) as shop, batch_api(shop, BatchApiSettings(rows_max=3)) as site:
        client = site.client()
        batch = await ended(client, await posted(client, text))
        assert batch.errors is not None
        found = [(each.line, each.code) for each in batch.errors.data or []]
        assert found == [(1, "request_too_large"), (4, "too_many_requests")]


async def test_a_batch_is_read_again_where_the_ledger_was_away_or_another_process_has_cleared_what_was_read(
    tmp_path: Path,
) -> None:
    class Watched(IntakeRight):
        is_kept = False

        async def keep(self) -> None:
            self.is_kept = True
            await anyio.sleep_forever()

    asked, seen, right = count(1), list[bool](), Watched()

    def intake_lock(_ledger: LedgerAddress, _run: str, *, now: int) -> AbstractAsyncContextManager[IntakeRight]:
        if next(asked) == 1:
            raise StorageError("the ledger is away")
        return nullcontext(right)

    async with (
        desk(tmp_path) as shop,
        batch_api(shop, around=replace(shop.dependencies, intake_lock=intake_lock)) as site,
    ):
        intakes = site.ledger.runs.intakes

        async def clear() -> None:
            seen.append(right.is_kept)
            await intakes.clear(batch.id)

        intakes.pace = CutOff(1, clear)
        batch = await posted(site.client(), lines([request(0)]))
        done = await ended(site.client(), batch)
        assert (done.status, done.errors) == ("completed", None)
        assert site.heard.warnings == [f"{batch.id}: the ledger is away; it is tried again"]
        assert f"another process has taken over what was read of {batch.id}: it is read again" in site.heard.lines
        assert seen == [True], "the right to take in was kept"


async def test_what_nobody_could_begin_with_in_time_has_expired_and_what_is_gone_is_told(tmp_path: Path) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        client, now = site.client(), site.ledger.now()
        late = replace(BATCH, id="batch_late", created_at=now, expires_at=now)
        gone = replace(BATCH, id="batch_gone", created_at=now, expires_at=now + DAY_US)
        for each in (late, gone):
            await site.ledger.runs.posted.batches.add(each)
        await posted(client, lines([request(0)]))  # somebody asks for something
        assert (await ended(client, await client.batches.retrieve("batch_late"))).status == "expired"
        found = await ended(client, await client.batches.retrieve("batch_gone"))
        assert found.errors is not None
        assert [each.code for each in found.errors.data or []] == ["file_not_found"]


async def test_a_file_that_is_to_be_read_for_a_batch_is_not_removed(tmp_path: Path) -> None:
    async with at_files(tmp_path) as site:
        client = site.client()
        batch = await posted(client, lines([request(0)]))
        with pytest.raises(ConflictError):
            await client.files.delete(batch.input_file_id)
        assert batch.input_file_id in site.stored


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "empty_file"),
        (b"\n \n", "empty_file"),
        (b"a,b\n1,2\n", "invalid_json_line"),
        (b"\x1f\x8b\x08\x00packed", "invalid_json_line"),
        (b"\xff\xfe{\x00}\x00", "invalid_json_line"),
    ],
)
async def test_what_is_no_file_of_requests_is_refused(tmp_path: Path, text: bytes, code: str) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await ended(client, await posted(client, text))
        assert batch.errors is not None
        assert [each.code for each in batch.errors.data or []] == [code], batch.errors


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"input_file_id": "file-of-nobody"}, "input_file_id"),
        ({"input_file_id": None}, None),
        ({"endpoint": "/v1/images"}, "endpoint"),
        ({"completion_window": "soon"}, "completion_window"),
        ({"completion_window": "31d"}, "completion_window"),
        ({"metadata": {f"k{n}": "" for n in range(17)}}, "metadata"),
        ({"metadata": {"k": "x" * 513}}, "metadata"),
        ({"metadata": {"k": 1}}, None),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 60}}, "output_expires_after"),
    ],
)
async def test_a_batch_that_cannot_be_meant_is_refused_at_once(
    tmp_path: Path, changed: dict[str, Any], param: str | None
) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site, site.http() as http:
        file = await site.client().files.create(file=b"{}", purpose="batch")
        question = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h", **changed}
        response = await http.post("/v1/batches", json=question)
        assert response.status_code == (404 if changed.get("input_file_id") else 400), response.text
        assert response.json()["error"]["param"] == param
        assert await site.ledger.runs.posted.batches.open() == []


async def begun(client: AsyncOpenAI, text: bytes) -> Batch:
    """A batch that has become a run."""
    batch = await posted(client, text)
    while batch.status != "in_progress":
        await anyio.sleep(1)
        batch = await client.batches.retrieve(batch.id)
    return batch


async def slow(site: Site, n: int = 10, **more: Any) -> tuple[Any, Any]:
    """A batch under way, of which some requests have ended."""
    client = site.client()
    batch = await posted(client, lines([request(each) for each in range(n)]), **more)
    while batch.request_counts is None or not batch.request_counts.completed:
        await anyio.sleep(1)
        batch = await client.batches.retrieve(batch.id)
    assert batch.status == "in_progress"
    return client, batch


async def test_a_batch_is_cancelled_and_what_was_done_is_there(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=2, seconds=lambda _: 5.0) as shop, batch_api(shop) as site:
        client, batch = await slow(site)
        assert (await client.batches.cancel(batch.id)).status == "cancelling"
        batch = await ended(client, await client.batches.cancel(batch.id))
        assert (batch.status, batch.cancelled_at is not None) == ("cancelled", True)
        results, errors = await rows_of(client, batch.output_file_id), await rows_of(client, batch.error_file_id)
        assert results
        assert len(results) + len(errors) == 10
        assert {each["error"]["code"] for each in errors.values()} == {"batch_cancelled"}
        with pytest.raises(BadRequestError, match="Cannot cancel a batch with status 'cancelled'"):
            await client.batches.cancel(batch.id)


async def test_a_batch_that_is_cancelled_before_it_was_read_ends_without_files(tmp_path: Path) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await posted(client, lines([request(0)]))
        batch = await ended(client, await client.batches.cancel(batch.id), poll_s=0.1)
        assert batch.status == "cancelled"


@pytest.mark.slow
async def test_what_is_late_has_expired_and_stands_in_the_file_of_errors(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=2, seconds=lambda _: 5.0) as shop, batch_api(shop) as site:
        client, batch = await slow(site, window="9s")
        batch = await ended(client, batch)
        assert (batch.status, batch.expired_at is not None) == ("expired", True)
        assert (batch.expired_at or 0) - batch.created_at < 60
        results, errors = await rows_of(client, batch.output_file_id), await rows_of(client, batch.error_file_id)
        assert results
        assert len(results) + len(errors) == 10
        assert {each["error"]["code"] for each in errors.values()} == {"batch_expired"}


async def test_a_batch_fails_whose_run_is_deleted(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=("another",)) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await begun(client, lines([request(0)]))
        await anyio.sleep(5)  # the service knows no such endpoint: nothing was taken
        await delete(shop.ledger, batch.id, shop.dependencies)
        batch = await ended(client, batch)
        assert (batch.status, batch.output_file_id, batch.error_file_id) == ("failed", None, None)
        assert batch.errors is not None
        assert [each.code for each in batch.errors.data or []] == ["run_deleted"]


async def test_a_batch_is_over_once_somebody_has_cancelled_its_run(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=1, seconds=lambda _: 600.0) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await begun(client, lines([request(0)]))
        await control(shop.ledger, batch.id, ControlAction.CANCEL, shop.dependencies)
        batch = await ended(client, batch)
        assert batch.status == "completed"
        errors = await rows_of(client, batch.error_file_id)
        assert errors["r0"]["error"]["code"] == "cancelled", "somebody else has cancelled it"


async def test_batches_are_listed_newest_first_each_to_its_owner(tmp_path: Path) -> None:
    async with desk(tmp_path) as shop, batch_api(shop, keys={"a": "ka", "b": "kb"}) as site:
        ours, theirs = site.client("ka"), site.client("kb")
        made = [(await posted(ours, lines([request(n)]))).id for n in range(3)]
        page = await ours.batches.list(limit=2)
        assert ([each.id for each in page.data], page.has_more) == ([made[2], made[1]], True)
        assert [each.id async for each in page] == made[::-1]
        assert [each async for each in theirs.batches.list()] == []
        file = (await ours.batches.retrieve(made[0])).input_file_id
        for ask in (theirs.batches.retrieve, theirs.batches.cancel):
            with pytest.raises(NotFoundError, match="No such Batch"):
                await ask(made[0])
        with pytest.raises(NotFoundError, match="No such File"):
            await theirs.batches.create(input_file_id=file, endpoint=CHAT, completion_window="24h")


async def test_a_batch_whose_files_cannot_be_written_yet_is_finished_later(tmp_path: Path) -> None:
    async with desk(tmp_path, seconds=lambda _: 5.0) as shop, batch_api(shop) as site:
        client = site.client()
        batch = await begun(client, lines([request(0)]))
        aside = site.store.folder.rename(tmp_path / "aside")
        while batch.status == "in_progress":
            await anyio.sleep(1)
            batch = await client.batches.retrieve(batch.id)
        await anyio.sleep(AGAIN_S / 2)
        assert (await client.batches.retrieve(batch.id)).status == "finalizing"
        aside.rename(site.store.folder)
        batch = await ended(client, batch)
        assert [*await rows_of(client, batch.output_file_id)] == ["r0"]


async def test_a_batch_that_ended_long_ago_is_forgotten_with_its_run_and_no_other(tmp_path: Path) -> None:
    settings = BatchApiSettings(keep_batches_us=3 * MINUTE_US)
    async with desk(tmp_path) as shop, batch_api(shop, settings) as site:
        client = site.client()
        old = await ended(client, await posted(client, lines([request(0)])))
        refused = await ended(client, await posted(client, b"{"))
        await anyio.sleep(100)
        kept = await ended(client, await posted(client, lines([request(1)])))
        await anyio.sleep(140)
        assert [each.id async for each in client.batches.list()] == [kept.id]
        for gone in (old, refused):
            with pytest.raises(NotFoundError):
                await client.batches.retrieve(gone.id)
        assert await site.ledger.runs.names() == [kept.id]
        assert [*await rows_of(client, old.output_file_id)] == ["r0"], "files are kept for themselves"


async def test_models_are_those_of_the_configuration_file(tmp_path: Path) -> None:
    async with desk(tmp_path) as shop, batch_api(shop) as site:
        models = site.client().models
        assert [each.id async for each in models.list()] == [MODEL, "other"]
        assert (await models.retrieve(MODEL)).id == MODEL
        with pytest.raises(NotFoundError):
            await models.retrieve("gpt-4o")
