"""What is answered has the fields that OpenAI's client, as it is installed, knows of each object, and no others."""

from pathlib import Path

import pytest
from openai import NotFoundError
from openai.types import Batch, BatchError, BatchUsage, FileDeleted, FileObject, Model

from tests.api.desk import desk
from tests.batch_api.harness import MODEL, batch_api, ended, lines, posted, request
from tests.batch_api.test_batches import answer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_what_is_answered_has_the_fields_that_the_client_knows_and_no_others(tmp_path: Path) -> None:
    async with desk(tmp_path, work=answer) as shop, batch_api(shop) as site, site.http() as http:
        client = site.client()
        batch = await ended(client, await posted(client, lines([request(0), request(1)])))

        async def fields(path: str) -> set[str]:
            return {*(await http.get(f"/v1/{path}")).json()}

        assert await fields(f"batches/{batch.id}") == {*Batch.model_fields}
        assert await fields(f"files/{batch.output_file_id}") == {*FileObject.model_fields}
        assert await fields(f"models/{MODEL}") == {*Model.model_fields}
        with pytest.raises(NotFoundError) as refused_once:
            await client.models.retrieve("nobody's")
        names = [batch._request_id, refused_once.value.request_id]
        assert all(name is not None and name.startswith("req_") for name in names)
        assert len({*names}) == 2, "each request has a name of its own, refused ones too"
        deleted = await http.delete(f"/v1/files/{batch.input_file_id}")
        assert {*deleted.json()} == {*FileDeleted.model_fields}
        refused = await ended(client, await posted(client, b"{"))
        assert refused.errors is not None
        assert refused.errors.object == "list"
        found = (await http.get(f"/v1/batches/{refused.id}")).json()
        assert {*found["errors"]["data"][0]} == {*BatchError.model_fields}
        usage = (await http.get(f"/v1/batches/{batch.id}")).json()["usage"]
        assert {*usage} == {*BatchUsage.model_fields}
