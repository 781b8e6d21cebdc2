"""Pods of a run go over with its shard to the process that asks for that; nobody ends them, or makes others."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.account.run_pods import RunPods
from orchestrator.client import Service
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.ownership.shard_bids import ASK_US
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.api.hosting.site import Site
from tests.engine.pods.workplace import CONNECTION, TEMPLATE, Workplace

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WITH_PODS = RunSettings(via=Via.HTTP, path="/work", pods=2, pod_template=TEMPLATE, queue_depth=1, allow_env=("TOKEN",))


class SiteWithPods(Site):
    """The account of `place`, too."""

    place: Workplace

    def dependencies(self, name: str) -> Dependencies:
        way = self.place.way
        return replace(
            super().dependencies(name),
            service=lambda connection, clock: Service(connection.serverless_url, "key", clock, transport=way),
            pods=RunPods,
        )

    def request(self, **asked: Any) -> ServeRequest:
        return replace(super().request(**asked), connection=CONNECTION)


@pytest.mark.slow
async def test_pods_go_on_where_another_process_takes_their_run_over(site: Site, tmp_path: Path) -> None:
    site.__class__ = SiteWithPods
    site.environ["b"] = {"TOKEN": "it is offered to who has that"}
    assert isinstance(site, SiteWithPods)
    site.place = place = Workplace(tmp_path, execution_s=5.0)
    async with anyio.create_task_group() as tasks:
        await tasks.start(place.emulator.serve)
        run = await site.run_at("pods:vllm", WITH_PODS, jobs=30)
        async with site.serving("a"):
            await site.until(run, State.SUCCEEDED, 4)
            before = sorted(place.pods)
            assert len(place.running) == 2
            async with site.serving("b"):
                with anyio.fail_after(3 * ASK_US / SECOND_US):
                    while (await site.shards())[run.endpoint_id] != "b":  # noqa: ASYNC110  nobody tells
                        await anyio.sleep(0.5)
                await site.until(run, State.SUCCEEDED, 30)
                assert sorted(place.pods) == before
                assert set(place.executed.values()) == {1}
                with anyio.fail_after(60):
                    while place.running:  # noqa: ASYNC110  nobody tells
                        await anyio.sleep(0.5)
        tasks.cancel_scope.cancel()
