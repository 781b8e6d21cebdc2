"""The Batch API of a process at work, without a socket, and OpenAI's own client for it.

async with desk(tmp_path) as shop, batch_api(shop) as site:
    file = await site.client().files.create(file=b"...", purpose="batch")
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import httpx
from openai import AsyncOpenAI
from openai.types import Batch
from starlette.types import ASGIApp

from orchestrator.api.batch_api.batch_service import batch_service
from orchestrator.api.batch_api.batch_store import BatchStore
from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.api.foreground.serve import serve
from orchestrator.api.hosting.host import Host
from orchestrator.batch_api.application import batch_api_application
from orchestrator.core.batch_api.posted_batch import POSTED_ENDS
from orchestrator.engine.engine import Engine
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger
from orchestrator.settings.batch_api.batch_api_settings import BatchApiSettings
from orchestrator.settings.batch_api.served_models import read_models
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.api.desk import Desk
from tests.engine.process import Heard
from tests.ledger.ledgers import opened
from tests.simulation.world import ENDPOINT, URL

HOST: Final = "http://127.0.0.1:8800"
CHAT: Final = "/v1/chat/completions"
MODEL: Final = "org/small"
MODELS: Final = (
    f'[models."{MODEL}"]\nendpoint = "{ENDPOINT}"\n[models.other]\nendpoint = "{ENDPOINT}"\nvia = "openai"\n'
)


class Site:
    """One Batch API, and ways to ask it."""

    def __init__(self, app: ASGIApp, store: FileStore, heard: Heard) -> None:
        self.store, self.heard = store, heard
        self._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    @property
    def ledger(self) -> Ledger:
        return self.store.ledger

    def client(self, key: str = "any") -> AsyncOpenAI:
        """OpenAI's client, which has that key."""
        return AsyncOpenAI(api_key=key, base_url=f"{HOST}/v1", http_client=cast("Any", self.http()), max_retries=0)

    def http(self) -> httpx.AsyncClient:
        """A client that sends anything."""
        return httpx.AsyncClient(transport=self._transport, base_url=HOST)

    @property
    def stored(self) -> list[str]:
        """The names of all that lies in the folder of files."""
        return sorted(each.name for each in self.store.folder.iterdir())


def request(n: int, model: str = MODEL, url: str = CHAT, **body: Any) -> dict[str, Any]:
    """A request of a batch."""
    said = {"model": model, "messages": [{"role": "user", "content": f"hi {n}"}], **body}
    return {"custom_id": f"r{n}", "method": "POST", "url": url, "body": said}


def lines(requests: Sequence[object]) -> bytes:
    """A file of these requests."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in requests)


async def posted(client: AsyncOpenAI, text: bytes, *, window: Any = "24h", url: Any = CHAT, **more: Any) -> Batch:
    """A batch of a file with this text."""
    file = await client.files.create(file=("in.jsonl", text), purpose="batch")
    return await client.batches.create(input_file_id=file.id, endpoint=url, completion_window=window, **more)


async def ended(client: AsyncOpenAI, batch: Batch, *, poll_s: float = 1.0) -> Batch:
    """The batch once it has ended, as a program waits for it."""
    while batch.status not in POSTED_ENDS:
        await anyio.sleep(poll_s)
        batch = await client.batches.retrieve(batch.id)
    return batch


async def rows_of(client: AsyncOpenAI, file: str | None) -> dict[str, Any]:
    """The lines of a file, by the ids of their requests."""
    assert file is not None
    found = [json.loads(line) for line in (await client.files.content(file)).text.splitlines()]
    assert len({each["custom_id"] for each in found}) == len(found)
    return {each["custom_id"]: each for each in found}


@asynccontextmanager
async def batch_api(
    shop: Desk,
    settings: BatchApiSettings = BatchApiSettings(),  # noqa: B008  it is frozen
    *,
    keys: Mapping[str, str] | None = None,
    models: str = MODELS,
    around: Dependencies | None = None,
) -> AsyncIterator[Site]:
    """That of a process that works on the ledger of `shop`, and is killed at the end of the block."""
    configuration = shop.folder / "orchestrator.toml"
    configuration.write_text(models)
    heard, ready = Heard(), anyio.Event()
    found: list[Site] = []

    async def alongside(host: Host, engine: Engine) -> None:
        service = batch_service(host, engine, settings, read_models(str(configuration), {}))
        app = batch_api_application(service.store, service.keeper.runs.models, keys or {})
        found.append(Site(app, service.store.files, heard))
        ready.set()
        await service.serve()

    connection = ConnectionSettings(serverless_url=URL, api_key="key")
    request = ServeRequest(ledger=shop.ledger, connection=connection)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve, request, heard, around or shop.dependencies, alongside=alongside))
        await ready.wait()
        yield found[0]
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def at_files(
    folder: Path,
    settings: BatchApiSettings = BatchApiSettings(),  # noqa: B008  it is frozen
    *,
    keys: Mapping[str, str] | None = None,
) -> AsyncIterator[Site]:
    """One beside which nobody works: files can be posted, and batches wait."""
    async with opened(folder / "l.db") as ledger:
        files = FileStore(ledger=ledger, settings=settings)
        files.make_folder()
        yield Site(batch_api_application(BatchStore(files=files), (), keys or {}), files, Heard())
