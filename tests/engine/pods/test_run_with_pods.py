"""A run whose jobs pods execute: asked for once it is sent, taking part as they are ready, and ended with it.

Time is that of `tests.simulation`.
"""

from functools import partial
from itertools import pairwise
from pathlib import Path

import anyio
import httpx
import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.run import run as run_in_foreground
from orchestrator.api.runs.process_commands import control
from orchestrator.client import Service
from orchestrator.client.http.posts import post_notification
from orchestrator.clock import Clock
from orchestrator.core.pods.pod_lease import LeaseEnd, PodLease
from orchestrator.core.pods.pod_template import POD_URL_DEFAULT, WhenDone
from orchestrator.core.pods.replacements import PAUSE_US
from orchestrator.core.service.endpoint_headers import read_headers
from orchestrator.engine.hosting.worker_scaling import END_S_MAX
from orchestrator.errors import StoppedError, StorageError, UsageError
from orchestrator.ledger import read_ledger
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.views.status import Summary
from tests.api.flows.test_notifications import Receiver
from tests.engine.pods.workplace import CONNECTION, TEMPLATE, Workplace, is_action
from tests.ledger.ledgers import a_run, opened
from tests.simulation.database import async_creator

STOPS = replace(TEMPLATE, when_done=WhenDone.STOP)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def leases(place: Workplace) -> list[PodLease]:
    async def read() -> list[PodLease]:
        async with read_ledger(place.folder / "db", clock=place.clock) as ledger:
            return await ledger.runs.pod_leases.all()

    return anyio.run(read)


def test_pods_are_made_for_the_run_do_its_jobs_and_are_gone_after_it(place: Workplace) -> None:
    summary = place.world(place.carry_out)
    assert summary.jobs["succeeded"] == 40
    assert set(place.executed.values()) == {1}
    assert place.pods == {}
    assert sum(each.done for each in summary.members) == 40
    assert [0.002 < (each.cost or 0) < 0.006 for each in summary.members] == [True] * 2  # a dollar an hour, for 10 s
    paid = sum(lease.cost(place.clock.now()) for lease in leases(place))
    assert sum(each.cost or 0 for each in summary.members) == pytest.approx(paid), "to the last second"
    assert "in: asks for 2 pods of vllm" in place.console.lines
    assert sum(line.endswith("is ready") for line in place.console.lines) == 2


@pytest.mark.slow
def test_pods_that_are_stopped_are_started_again_for_the_next_run(place: Workplace) -> None:
    async def twice() -> None:
        await place.carry_out(6, pod_template=STOPS)
        assert list(place.pods.values()) == ["EXITED"] * 2
        await place.carry_out(6, name="other", pod_template=STOPS)

    place.world(twice)
    found = leases(place)
    assert list(place.pods.values()) == ["EXITED"] * 2
    assert [lease.is_new for lease in found] == [True, True, False, False]
    assert {lease.pod for lease in found[:2]} == {lease.pod for lease in found[2:]}
    assert all(lease.end is LeaseEnd.DONE and lease.cost(place.clock.now()) > 0 for lease in found)


def test_no_more_pods_are_made_than_there_are_jobs(place: Workplace) -> None:
    place.world(lambda: place.carry_out(1, pods=5))
    assert "in: asks for 1 pod of vllm" in place.console.lines


@pytest.mark.slow
def test_one_that_dies_is_replaced_and_its_jobs_go_on_elsewhere(place: Workplace) -> None:
    place.execution_s = 20.0

    async def dies() -> None:
        async with anyio.create_task_group() as group:

            async def kill() -> None:
                while len(place.executed) < 5:  # noqa: ASYNC110  nobody tells of it
                    await anyio.sleep(0.5)
                place.fail(place.running[0])

            group.start_soon(kill)
            summary = await place.carry_out(60)
        assert summary.jobs["succeeded"] == 60

    place.world(dies)
    found = leases(place)
    assert place.pods == {}
    assert [lease.end for lease in found] == [LeaseEnd.LOST, LeaseEnd.DONE, LeaseEnd.DONE]
    assert any("the pod is ERROR" in line for line in place.console.lines)
    assert set(place.executed.values()) <= {1, 2}


@pytest.mark.slow
def test_one_whose_server_never_answers_is_given_up_and_paid_no_longer(tmp_path: Path) -> None:
    place = Workplace(tmp_path, booting_s=10_000)

    async def waits() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: place.carry_out(3, stop=stop, pod_template=replace(TEMPLATE, ready_within_us=60_000_000))
            )
            await anyio.sleep(75)
            stop.set()

    place.world(waits)
    found = leases(place)
    assert [lease.end for lease in found[:2]] == [LeaseEnd.LATE, LeaseEnd.LATE]
    assert place.pods == {}


@pytest.mark.slow
def test_pods_are_gone_once_people_interrupt_the_run(place: Workplace) -> None:
    async def interrupted() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: place.carry_out(900, stop=stop))
            await anyio.sleep(13)
            assert len(place.running) == 2
            stop.set()

    place.world(interrupted)
    assert place.pods == {}


@pytest.mark.slow
def test_pods_are_gone_once_the_ledger_of_the_run_is_not_in_its_place_any_more(place: Workplace) -> None:
    async def moved() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(place.carry_out, 900)
            await anyio.sleep(13)
            assert len(place.running) == 2
            (place.folder / "db").rename(place.folder / "moved")

    with pytest.raises(StorageError, match="gone, or another file"):
        place.world(moved)
    assert place.pods == {}


@pytest.mark.slow
def test_pods_are_gone_while_the_run_is_paused_and_others_are_there_once_it_goes_on(place: Workplace) -> None:
    async def paused() -> None:
        async def ask(action: ControlAction) -> None:
            await control(place.folder / "db", "in", action, place.dependencies)

        async with anyio.create_task_group() as group:
            group.start_soon(partial(place.carry_out, 900))
            await anyio.sleep(13)
            assert len(place.running) == 2
            await ask(ControlAction.PAUSE)
            await anyio.sleep(20)
            assert place.pods == {}
            await ask(ControlAction.CONTINUE)

    place.world(paused)
    assert place.pods == {}
    assert sum(place.executed.values()) == 900
    assert len(leases(place)) == 4


@pytest.mark.slow
def test_pods_are_gone_once_a_brake_holds_the_run(place: Workplace) -> None:
    """Two pods cost two dollars an hour: four cents are spent after 72 seconds."""
    place.execution_s = 20.0
    with pytest.raises(StoppedError) as stopped:
        place.world(lambda: place.carry_out(5_000, budget=0.04))
    assert "budget" in stopped.value.message
    assert place.pods == {}
    assert 300 < sum(place.executed.values()) < 1_500


WRONG = (
    (replace(TEMPLATE, template="nobody"), "there is no template nobody"),
    (replace(TEMPLATE, port=9000), "has no HTTP port 9000: its ports are 8000/http, 22/tcp"),
    (replace(TEMPLATE, url=POD_URL_DEFAULT), r"reached at https://\{pod\}.*give it a url"),
)


def runs(place: Workplace) -> list[str]:
    async def read() -> list[str]:
        async with read_ledger(place.folder / "db", clock=place.clock) as ledger:
            return [run.name for run in await ledger.runs.all()]

    return anyio.run(read)


def test_a_run_that_could_have_no_pods_is_none_and_asks_for_nothing(place: Workplace) -> None:
    for template, told in WRONG:
        with pytest.raises(UsageError, match=f"{told}.*no pod was asked for, and no job was sent"):
            place.world(partial(place.carry_out, 3, pod_template=template))
    assert (place.pods, runs(place), leases(place)) == ({}, [], [])


@pytest.mark.slow
def test_a_run_that_is_known_and_can_have_no_pods_any_more_is_refused_in_the_same_way(place: Workplace) -> None:
    place.world(partial(place.carry_out, 3))
    for template, told in WRONG:
        with pytest.raises(UsageError, match=f"{told}.*no pod was asked for, and no job was sent"):
            place.world(partial(place.carry_out, 6, pod_template=template))
    assert (place.pods, runs(place), len(leases(place))) == ({}, ["in"], 2)


def test_where_there_are_no_machines_it_is_asked_again_at_growing_pauses(tmp_path: Path) -> None:
    place = Workplace(tmp_path, capacity=0)

    async def waits() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: place.carry_out(3, stop=stop, pods=1))
            await anyio.sleep(200)
            stop.set()

    place.world(waits)
    found = leases(place)
    assert 3 <= len(found) <= 5
    gaps = [later.wanted_at - before.wanted_at for before, later in pairwise(found)]
    assert all(gap >= PAUSE_US << n for n, gap in enumerate(gaps))
    assert {lease.end for lease in found} == {LeaseEnd.REFUSED}
    assert all("instances" in lease.detail for lease in found)
    assert {lease.cost(place.clock.now()) for lease in found} == {0.0}


def test_what_is_waited_for_is_said_and_until_when(tmp_path: Path) -> None:
    place = Workplace(tmp_path, booting_s=60)
    said: list[str] = []

    async def watched() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(place.carry_out, 3))
            await anyio.sleep(30)

            async with read_ledger(
                place.folder / "db", clock=place.clock, connect=async_creator(place.folder / "db")
            ) as ledger:
                [beat] = await ledger.runs.heartbeats.all()
            hold = beat.report.runs[1].blocked_by
            said.append("" if hold is None else hold.why)

    place.world(watched)
    assert "waits for 2 pods to be ready: " in said[0]
    assert "is RUNNING, and its server does not answer at http://service/proxy/" in said[0]
    assert said[0].endswith("UTC, then another is asked for")


@pytest.mark.slow
def test_what_pods_cost_is_whole_where_another_process_ends_them(place: Workplace) -> None:
    place.execution_s = 10.0
    summaries: list[Summary] = []

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(place.carry_out, 900))
            await anyio.sleep(8)
            summaries.append(await place.carry_out(4, name="beside"))

    place.world(both)
    paid = sum(lease.cost(place.clock.now()) for lease in leases(place) if lease.run == 2)
    assert summaries[0].jobs["succeeded"] == 4
    assert sum(each.cost or 0 for each in summaries[0].members) == pytest.approx(paid)


@pytest.mark.slow
def test_who_could_not_end_a_pod_says_so_once_and_does_not_wait_for_it_again(place: Workplace) -> None:
    async def before(request: httpx.Request) -> httpx.Response | None:
        return httpx.Response(500, request=request) if is_action(request) else None

    place.way.before = before
    place.world(partial(place.carry_out, 5))
    assert place.until_s < 2 * END_S_MAX
    assert sum("may still be paid" in line for line in place.console.lines) == 1


def resumed(place: Workplace, pods: int) -> RunRequest:
    """`orchestrator resume in --pods N`."""
    return RunRequest(
        name="in", source=None, endpoint=None, ledger=place.folder / "db", connection=CONNECTION, pods=pods
    )


@pytest.mark.slow
def test_resume_with_more_pods_starts_more_and_with_fewer_lets_the_surplus_end_what_it_has(place: Workplace) -> None:
    place.execution_s = 50.0
    seen: list[int] = []

    async def work() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(place.carry_out, 1_000))
            for pods in (3, 1):
                await anyio.sleep(60)
                asked = resumed(place, pods)
                group.start_soon(partial(run_in_foreground, asked, place.console, place.dependencies))
                await anyio.sleep(80)
                seen.append(len(place.running))

    place.world(work)
    assert seen == [3, 1]
    assert set(place.executed.values()) == {1}, "what a pod has that is one too many is not cut"
    assert sum(place.executed.values()) == 1_000
    assert [lease.end for lease in leases(place)] == [LeaseEnd.DONE] * 3


def test_pods_are_not_for_a_run_that_has_an_endpoint(place: Workplace) -> None:
    async def both() -> None:
        async with opened(place.folder / "db", clock=place.clock) as ledger:
            await a_run(ledger, 1, name="in")
        await run_in_foreground(resumed(place, 2), place.console, place.dependencies)

    with pytest.raises(UsageError, match=r"--pods: the run 'in' has no pods, but an endpoint"):
        place.world(both)


@pytest.mark.slow
def test_a_pod_that_cannot_be_ended_is_told_to_those_whom_its_run_tells(place: Workplace) -> None:
    receiver = Receiver()
    place.execution_s = 10.0

    async def before(request: httpx.Request) -> httpx.Response | None:
        return httpx.Response(500, request=request) if is_action(request) else None

    async def stays() -> None:
        told = replace(
            place.dependencies,
            environ={"HOOK": "http://hook"},
            post_hook=partial(post_notification, transport=receiver),
        )
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            asked = place.request(900, notify="env:HOOK")
            group.start_soon(partial(run_in_foreground, asked, place.console, told, stop))
            await anyio.sleep(20)
            await control(place.folder / "db", "in", ControlAction.PAUSE, place.dependencies)
            await anyio.sleep(400)
            place.way.before = None
            stop.set()

    place.way.before = before
    place.world(stays)
    assert place.pods == {}
    assert receiver.bodies[0]["type"] == "run.stalled"
    assert receiver.bodies[0]["data"]["why"].startswith("the pod could not be ended so far: it is paid (")


def test_headers_of_all_pods_go_to_each_of_them_and_to_nobody_else_and_are_kept_nowhere(place: Workplace) -> None:
    """As `[endpoints."pods:vllm"]` has them."""
    given = read_headers({"Authorization": "env:VLLM_KEY", "X-Team": "vision"}, {"VLLM_KEY": "sk-of-vllm-7"})
    heard: list[tuple[bool, str, str]] = []

    def with_headers(connection: ConnectionSettings, clock: Clock) -> Service:
        service: Service = place.dependencies.service(connection, clock)
        service.endpoint_headers = {"pods:vllm": given}
        return service

    async def before(request: httpx.Request) -> None:
        is_at_pod = request.url.path.startswith("/proxy/")
        heard.append((is_at_pod, request.headers["authorization"], request.headers.get("x-team", "")))

    place.way.before = before
    told = replace(place.dependencies, service=with_headers)
    place.world(lambda: run_in_foreground(place.request(6), place.console, told))
    assert {each[1:] for each in heard if each[0]} == {("Bearer sk-of-vllm-7", "vision")}
    assert {each[1:] for each in heard if not each[0]} == {("Bearer key", "")}
    assert not any(b"sk-of-vllm-7" in file.read_bytes() for file in place.folder.iterdir())
    assert not any("sk-of-vllm-7" in line for line in place.console.lines)
