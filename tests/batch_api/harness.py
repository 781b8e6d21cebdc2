"""The Batch API over a ledger, without a socket, and OpenAI's own client for it.

async with batch_api(path) as site:
    file = await site.client().files.create(file=b"...", purpose="batch")
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
from openai import AsyncOpenAI
from starlette.types import ASGIApp

from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.batch_api.application import batch_api_application
from orchestrator.ledger import Ledger
from orchestrator.settings.batch_api.batch_api_settings import BatchApiSettings
from tests.ledger.ledgers import opened
from tests.simulation.clock import VirtualClock

HOST: Final = "http://127.0.0.1:8800"


class Site:
    """One Batch API, and ways to ask it."""

    def __init__(self, app: ASGIApp, ledger: Ledger, store: FileStore, clock: VirtualClock) -> None:
        self.ledger, self.store, self.clock = ledger, store, clock
        self._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def client(self, key: str = "any") -> AsyncOpenAI:
        """OpenAI's client, which has that key."""
        return AsyncOpenAI(api_key=key, base_url=f"{HOST}/v1", http_client=self.http(), max_retries=0)

    def http(self) -> httpx.AsyncClient:
        """A client that sends anything."""
        return httpx.AsyncClient(transport=self._transport, base_url=HOST)

    @property
    def stored(self) -> list[str]:
        """The names of all that lies in the folder of files."""
        return sorted(each.name for each in self.store.folder.iterdir())


@asynccontextmanager
async def batch_api(
    ledger: Path,
    settings: BatchApiSettings = BatchApiSettings(),  # noqa: B008  it is frozen
    *,
    keys: Mapping[str, str] | None = None,
) -> AsyncIterator[Site]:
    """One over the ledger at that path, on virtual time."""
    clock = VirtualClock()
    async with opened(ledger, clock=clock) as at_work:
        store = FileStore(ledger=at_work, settings=settings)
        store.make_folder()
        yield Site(batch_api_application(store, keys or {}), at_work, store, clock)
