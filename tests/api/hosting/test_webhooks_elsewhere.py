"""Webhooks come to any of the machines that listen, whichever owns the endpoint that they are of."""

import anyio
import httpx
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE
from tests.api.hosting.site import ONE, Site
from tests.simulation.transport import SimulatedTransport

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_one_that_comes_to_another_one_than_the_owner_counts_within_a_second_without_a_question(
    site: Site,
) -> None:
    site.listen = "127.0.0.1:0"
    site.environ = {name: {WEBHOOK_KEY_VARIABLE: "5e" * 32} for name in "ab"}
    came_s = list[float]()

    async def to_the_other_one(url: str, body: bytes) -> int:
        [other] = {"a", "b"} - set(site.senders(ONE))
        came_s.append(anyio.current_time())
        async with httpx.AsyncClient(transport=SimulatedTransport(site.listeners[other])) as hooks:
            return (await hooks.post(url, content=body)).status_code

    site.service.receiver = to_the_other_one
    run = await site.run_at(ONE, jobs=1)
    async with site.serving("a", "b"):
        await site.until(run, State.SUCCEEDED, 1)
        [at_s] = came_s
        assert anyio.current_time() - at_s < 1
        assert "status" not in {each.operation for each in site.sent}
    assert site.service.paid == 1
