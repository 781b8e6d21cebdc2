"""Pods of a run go over with its shard to the process that asks for that; nobody ends them, or makes others."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from msgspec.structs import replace

from orchestrator.account.run_pods import RunPods
from orchestrator.api.admin.run_admin import Deleted, delete
from orchestrator.api.runs.process_commands import control
from orchestrator.client import Service
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.ownership.shard_bids import ASK_US
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import ControlAction, ServeRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.api.hosting.site import Site
from tests.engine.pods.workplace import CONNECTION, TEMPLATE, Workplace, is_create, is_list, lost, refused

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

    async def pods_of(self, run: Run) -> int:
        """How many pods of `run` may be paid, as the ledger says."""
        async with self.ledger() as ledger:
            return len(await ledger.runs.pod_leases.all(run=run.id, open_only=True))

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


@pytest.mark.slow
async def test_a_run_is_deleted_once_no_pod_of_it_can_come_that_nobody_would_end(site: Site, tmp_path: Path) -> None:
    site.__class__ = SiteWithPods
    assert isinstance(site, SiteWithPods)
    site.place = place = Workplace(tmp_path)
    is_shown = False

    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if is_create(request):
            return await lost(request, answer)
        return answer if is_shown or not is_list(request) else httpx.Response(200, json={"pods": []}, request=request)

    place.way.after = after
    async with anyio.create_task_group() as tasks:
        await tasks.start(place.emulator.serve)
        run = await site.run_at("pods:vllm", WITH_PODS, jobs=3)
        async with site.serving("a") as [machine]:
            with anyio.fail_after(60):
                while len(place.running) < 2:  # noqa: ASYNC110  nobody tells
                    await anyio.sleep(0.5)
            ledger, people = parse_ledger_url(site.url), site.dependencies("people")
            await control(ledger, run.name, ControlAction.CANCEL, people)
            await site.until(run, State.CANCELLED, 3)
            with pytest.raises(UsageError, match="a pod of it may still be paid; whoever works on the ledger ends it"):
                await delete(ledger, run.name, people)
            is_shown = True
            with anyio.fail_after(60):
                while place.running:  # noqa: ASYNC110  nobody tells
                    await anyio.sleep(0.5)
                while (await site.pods_of(run)) > 0:  # noqa: ASYNC110  nobody tells
                    await anyio.sleep(0.5)
            assert await delete(ledger, run.name, people) == Deleted(run=run.name, jobs=3)
            machine.heard.warnings.clear()  # that it was cancelled
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_pod_that_is_about_to_be_ready_ends_nothing_at_those_that_are(site: Site, tmp_path: Path) -> None:
    site.__class__ = SiteWithPods
    assert isinstance(site, SiteWithPods)
    site.place = place = Workplace(tmp_path, execution_s=20.0, booting_s=20.0)
    asked = 0

    async def before(request: httpx.Request) -> httpx.Response | None:
        nonlocal asked
        asked += is_create(request)
        return await refused(request) if is_create(request) and asked > 1 and not place.executed else None

    place.way.before = before
    async with anyio.create_task_group() as tasks:
        await tasks.start(place.emulator.serve)
        run = await site.run_at("pods:vllm", WITH_PODS, jobs=12)
        async with site.serving("a") as [machine]:
            await site.until(run, State.SUCCEEDED, 12)
            machine.heard.warnings.clear()  # that one was refused
            async with site.ledger() as ledger:
                counts = await ledger.runs.counts(run.id)
                assert {name: number for name, number in counts.items() if number} == {"succeeded": 12}
            assert set(place.executed.values()) == {1}
            assert len(place.pods) == 2
        tasks.cancel_scope.cancel()
