"""The batches of one endpoint for people and their programs: the service's own Batch, a beta (see `EndpointJobs`).

What is read is asked for again while that may help. What changes something never is: an append that is repeated is
executed twice, and paid twice.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import msgspec

from orchestrator.client.jobs.batches import BatchCalls
from orchestrator.client.jobs.checked_calls import CheckedCalls, Send
from orchestrator.client.jobs.job_request import JobInput, check_size, job_input_text
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.batches import (
    CALL_BYTES_MAX,
    BatchChanged,
    BatchRow,
    ServiceBatch,
    append_body,
    read_batch,
    read_batch_change,
    read_batch_list,
    read_batch_page,
)

T = TypeVar("T")


class EndpointBatches:
    """Each call raises what those of `EndpointJobs` raise."""

    def __init__(self, checked: CheckedCalls) -> None:
        self._checked = checked
        self._calls = BatchCalls(checked.api)

    async def create(self, inputs: Iterable[JobInput] = ()) -> ServiceBatch:
        """Makes a draft with these inputs (`POST /batch`). Nothing is executed before it is finalized."""
        body = b"[%b]" % b",".join(map(_request, inputs))
        check_size(body, CALL_BYTES_MAX)
        return await self._change("batch", partial(self._calls.create, body=body), read_batch)

    async def append(self, batch_id: str, inputs: Iterable[JobInput]) -> BatchChanged:
        """Adds inputs to a draft; the answer may tell the ids of its requests."""
        requests = [_request(each) for each in inputs]
        body = append_body(requests)
        check_size(body, CALL_BYTES_MAX)
        send = partial(self._calls.append, batch_id=_batch_id(batch_id), body=body)
        read = partial(read_batch_change, batch_id=batch_id, requests=len(requests))
        return await self._change(f"append to {batch_id}", send, read)

    async def change(self, batch_id: str, attributes: Mapping[str, object]) -> ServiceBatch:
        """Gives a batch other attributes, a `name` for one (`PUT /batch/{batch_id}`)."""
        send = partial(self._calls.change, batch_id=_batch_id(batch_id), body=msgspec.json.encode(attributes))
        return await self._change(f"change of {batch_id}", send, partial(read_batch, batch_id=batch_id))

    async def finalize(self, batch_id: str) -> ServiceBatch:
        """Lets a draft be executed, whenever the service sees fit; from now on nothing of it can be changed."""
        send = partial(self._calls.finalize, batch_id=_batch_id(batch_id))
        return await self._change(f"finalize {batch_id}", send, partial(read_batch, batch_id=batch_id))

    async def cancel(self, batch_id: str) -> ServiceBatch:
        """Cancels a batch: what waits is not executed, what runs goes on and is paid."""
        send = partial(self._calls.cancel, batch_id=_batch_id(batch_id))
        return await self._change(f"cancel {batch_id}", send, partial(read_batch, batch_id=batch_id))

    async def get(self, batch_id: str) -> ServiceBatch:
        """How a batch stands, in counts."""
        ask = partial(self._calls.get, batch_id=_batch_id(batch_id))
        return await self._ask(f"batch {batch_id}", ask, partial(read_batch, batch_id=batch_id))

    async def all(self) -> AsyncIterator[ServiceBatch]:
        """The endpoint's batches, newest first, page after page."""
        offset, has_more = 0, True
        while has_more:
            ask = partial(self._calls.all, offset=offset)
            page = await self._ask("batches", ask, partial(read_batch_list, offset=offset))
            for batch in page.batches:
                yield batch
            offset += len(page.batches)
            has_more = page.has_more and bool(page.batches)

    async def rows(self, batch_id: str) -> AsyncIterator[BatchRow]:
        """The requests of a batch with what came of them, in the service's order, page after page."""
        offset, has_more = 0, True
        while has_more:
            ask = partial(self._calls.page, batch_id=_batch_id(batch_id), offset=offset)
            page = await self._ask(f"requests of {batch_id}", ask, partial(read_batch_page, offset=offset))
            for row in page.rows:
                yield row
            offset += len(page.rows)
            has_more = page.has_more and bool(page.rows)

    async def _change(self, doing: str, send: Send, read: Callable[[bytes], T]) -> T:
        return await self._checked.sent(doing, Operation.BATCH, send, read)

    async def _ask(self, doing: str, ask: Send, read: Callable[[bytes], T]) -> T:
        return await self._checked.asked_by(doing, Operation.BATCH, ask, read)


def _request(job_input: JobInput) -> bytes:
    return b'{"input":%b}' % job_input_text(job_input)


def _batch_id(text: str) -> str:
    return checked_id(text, "batch")
