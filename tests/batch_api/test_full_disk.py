"""A disk that is full for a while under a Batch API: what is there is shown, what is new is refused at once, and each batch
ends once there is room.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from openai import InternalServerError

from tests.api.desk import desk
from tests.batch_api.harness import CHAT, batch_api, ended, lines, posted, request, rows_of
from tests.batch_api.test_batches import answer
from tests.ledger.full_disk import full_disk

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ROWS = 40


async def test_while_the_disk_is_full_what_is_new_is_refused_at_once_and_batches_end_once_there_is_room(
    tmp_path: Path,
) -> None:
    text = lines([request(n) for n in range(ROWS)])
    async with desk(tmp_path, work=answer) as shop, batch_api(shop) as site, site.http() as http:
        client = site.client()
        batch = await posted(client, text)
        async with full_disk(site.ledger):
            await anyio.sleep(60)
            file = batch.input_file_id
            attempts: list[Callable[[], Awaitable[object]]] = [
                lambda: client.files.create(file=("in.jsonl", text), purpose="batch"),
                lambda: client.files.delete(file),
                lambda: client.batches.create(input_file_id=file, endpoint=CHAT, completion_window="24h"),
                lambda: client.batches.cancel(batch.id),
            ]
            for attempt in attempts:
                with anyio.fail_after(1), pytest.raises(InternalServerError) as refused:
                    await attempt()
                assert refused.value.status_code == 503
                assert refused.value.response.headers["retry-after"] == "15"
                assert "cannot write down now what you ask" in refused.value.message
                assert str(tmp_path) not in refused.value.message, "where it lies is no business of theirs"
            assert (await client.batches.retrieve(batch.id)).status in ("validating", "in_progress")
            assert (await client.files.content(file)).text.encode() == text
            assert (await http.get("/v1/models")).status_code == 200
            [told] = [line for line in site.heard.warnings if "free some space on its disk" in line]
            assert told.endswith("nothing is sent; it is tried again")
        batch = await ended(client, batch)
        assert batch.status == "completed"
        found = {**await rows_of(client, batch.output_file_id), **await rows_of(client, batch.error_file_id)}
        assert found.keys() == {f"r{n}" for n in range(ROWS)}
        assert any("the ledger can be used again" in line for line in site.heard.lines)
