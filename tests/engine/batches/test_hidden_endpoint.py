"""An endpoint that answers 404 to everything for a while, as a new one does: nothing of its batches is gone by that."""

from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.emulator.batches.batch_rules import BatchRules
from tests.engine.batches.batched import Call, Lost, batched
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NAMED = BatchRules(append_ids=True, delay_s=10.0)


@pytest.mark.parametrize(
    ("kind", "n", "for_s"),
    [("create", 1, 45.0), ("append", 2, 3.0), ("finalize", 1, 45.0), ("get", 2, 45.0), ("page", 1, 3.0)],
)
async def test_while_an_endpoint_is_unknown_none_of_its_batches_is_taken_for_gone(
    tmp_path: Path, kind: str, n: int, for_s: float
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, batch=NAMED, seconds=lambda _: 40.0)
    hidden = anyio.Event()

    def hide(call: Call) -> Lost | None:
        if call == Call(kind, n):
            service.gate.hide(ENDPOINT)
            hidden.set()
        return None

    async def show_again() -> None:
        await hidden.wait()
        await anyio.sleep(for_s)
        service.gate.show(ENDPOINT)

    async with (
        anyio.create_task_group() as tasks,
        batched(tmp_path, rows=20, service=service, clock=clock, lose=hide) as b,
    ):
        tasks.start_soon(show_again)
        await b.p.finish()
        await b.all_done_once(20)
        assert (b.drafts(), await b.stages()) == ([], [*["dropped"] * (len(await b.stages()) - 1), "over"])


@pytest.mark.parametrize(("kind", "n", "is_named"), [("append", 2, True), ("page", 2, False)])
async def test_a_batch_that_is_unknown_where_others_are_known_is_gone(
    tmp_path: Path, kind: str, n: int, is_named: bool
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, batch=BatchRules(append_ids=is_named, delay_s=10.0))

    def forget(call: Call) -> Lost | None:
        if call == Call(kind, n):
            service.batches.close(ENDPOINT)
        return None

    async with batched(tmp_path, rows=20, service=service, clock=clock, lose=forget) as b:
        await b.p.finish()
        await b.all_done_once(20)
        assert await b.stages() == ["dropped", "over"]


class WithoutBatch(SimulatedService):
    """It has none, and answers all else."""

    def transport(self, **_: object) -> httpx.AsyncBaseTransport:
        return httpx.MockTransport(self._answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if "/batch" in request.url.path:
            return httpx.Response(404, content=b'{"error":"not found"}')
        return await super().transport().handle_async_request(request)


async def test_an_endpoint_that_has_no_batch_at_all_stops_the_run_with_the_reason(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with batched(tmp_path, rows=5, service=WithoutBatch(clock), clock=clock) as b:
        await b.p.wait(lambda: b.p.session.why_stopped is not None)
        assert "has no Batch there" in (b.p.session.why_stopped or "")
