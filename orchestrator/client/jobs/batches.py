"""The operations of the service's own Batch at one endpoint (beta): `/batch` and what is below it.

As those of `ServerlessEndpoint`, which sends them: each needs a permit, none is repeated, and an HTTP error status is
an `Answer` like any other. `core/lanes/batch_outcomes.py` says what they mean.
"""

import msgspec

from orchestrator.client.http.backends import Request
from orchestrator.client.http.bodies import Leaving
from orchestrator.client.jobs.rate_limiter import Permit
from orchestrator.client.jobs.serverless import ServerlessEndpoint, path_with_id
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.batches import PAGE_REQUESTS
from orchestrator.core.service.http_answers import Answer


class BatchCalls:
    """The batches of the endpoint that `api` speaks to, which is one of the service's.

    Each call takes a permit for `Operation.BATCH`, and raises what those of `ServerlessEndpoint` raise: `NotSent`,
    `Unanswered`, `RuntimeError` for a permit that is used up; and `ValueError` for an id that is none.
    """

    def __init__(self, api: ServerlessEndpoint) -> None:
        self._api = api

    async def create(self, permit: Permit, body: bytes = b"[]", *, leaving: Leaving | None = None) -> Answer:
        """`POST /batch`: a draft with the requests in `body`, a JSON array. `leaving` is as in `run`."""
        return await self._send(permit, self._api.submission("batch", body, leaving))

    async def append(self, permit: Permit, batch_id: str, body: bytes, *, leaving: Leaving | None = None) -> Answer:
        """`POST /batch/{batch_id}/requests`: adds those in `body` (`append_body`) to a draft. Twice adds them twice."""
        return await self._send(permit, self._api.submission(f"{_path(batch_id)}/requests", body, leaving))

    async def remove(self, permit: Permit, batch_id: str, request_id: str) -> Answer:
        """`DELETE /batch/{batch_id}/requests/{request_id}`: takes a request out of a draft."""
        path = path_with_id(f"{_path(batch_id)}/requests", request_id)
        return await self._send(permit, self._api.request("DELETE", f"{self._api.url}/{path}"))

    async def change(self, permit: Permit, batch_id: str, body: bytes) -> Answer:
        """`PUT /batch/{batch_id}`: gives it other attributes, a name for one: `body` is a JSON object of them."""
        request = msgspec.structs.replace(self._api.submission(_path(batch_id), body), method="PUT")
        return await self._send(permit, request)

    async def finalize(self, permit: Permit, batch_id: str) -> Answer:
        """`POST /batch/{batch_id}/finalize`: from now on it is executed, whenever the service sees fit."""
        return await self._send(permit, self._api.order(f"{_path(batch_id)}/finalize"))

    async def cancel(self, permit: Permit, batch_id: str) -> Answer:
        """`POST /batch/{batch_id}/cancel`: what waits is not executed, what runs goes on and is paid."""
        return await self._send(permit, self._api.order(f"{_path(batch_id)}/cancel"))

    async def all(self, permit: Permit, offset: int = 0) -> Answer:
        """`GET /batch`: the endpoint's batches, newest first, but for the newest `offset`."""
        return await self._send(permit, self._api.question(f"batch?offset={offset}" if offset else "batch"))

    async def get(self, permit: Permit, batch_id: str) -> Answer:
        """`GET /batch/{batch_id}`: how it stands, in counts."""
        return await self._send(permit, self._api.question(_path(batch_id)))

    async def page(self, permit: Permit, batch_id: str, offset: int, limit: int = PAGE_REQUESTS) -> Answer:
        """`GET /batch/{batch_id}/requests`: so many of its requests from `offset` on, with their results."""
        return await self._send(permit, self._api.question(f"{_path(batch_id)}/requests?offset={offset}&limit={limit}"))

    async def _send(self, permit: Permit, request: Request) -> Answer:
        return await self._api.send(permit, Operation.BATCH, request)


def _path(batch_id: str) -> str:
    return path_with_id("batch", batch_id)
