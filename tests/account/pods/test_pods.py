"""`account.pods` against the emulator on virtual time: actions, local refusals, and following a pod."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from orchestrator.account import Account
from orchestrator.account.pods.pod_record import Mounts, NetworkMount, Pod
from orchestrator.account.pods.pods import ActionRefusedError, Pods, WaitError
from orchestrator.account.pods.specs import CpuRequest, GpuRequest, PodCreate, PodModify
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client import InProcess, Service
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.emulator.account.pod_bodies import parse_creation
from orchestrator.emulator.account.pod_records import ClusterRecord
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.callers import QUOTAS, Caller, Quota
from orchestrator.errors import NotSent, Unanswered, UsageError
from tests.emulator.pod_service import GPU, KEY, PodService
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SPEC = PodCreate(name="trainer", image="img:1", gpu=GpuRequest(id="NVIDIA L4"))
SLOW = PodSettings(provisioning_s=30, starting_s=15, strict=True)


@asynccontextmanager
async def pods_of(emulated: PodService, *, key: str = KEY, team_id: str | None = None) -> AsyncIterator[Pods]:
    transport = InProcess(emulated.app, cut=ConnectionCut)
    service = Service("http://jobs", key, emulated.clock, transport=transport)
    yield Account(service, base_url="http://rest", team_id=team_id).pods
    await service.aclose()


def emulated(settings: PodSettings = SLOW, **more: Any) -> PodService:
    return PodService(settings, clock=VirtualClock(), **more)


async def running(pods: Pods) -> Pod:
    pod = await pods.create(SPEC)
    await anyio.sleep(60)
    return await pods.show(pod.id)


# --- the operations --------------------------------------------------------------------------------------------------


async def test_a_pod_goes_through_its_whole_life() -> None:
    async with pods_of(emulated()) as pods:
        pod = await pods.create(SPEC)
        assert (pod.status, pod.actions) == ("PROVISIONING", ("stop", "terminate"))
        assert await pods.list() == (pod,)
        await anyio.sleep(60)
        assert (await pods.restart(pod.id)).status == "RUNNING"
        assert (await pods.stop(pod.id)).status == "EXITED"
        assert (await pods.start(pod.id)).status == "PROVISIONING"
        assert (await pods.modify(pod.id, PodModify(name="n"))).name == "n"
        await pods.terminate(pod.id)
        assert await pods.list() == ()
        other = await pods.create(PodCreate(name="n", image="i", cpu=CpuRequest(id="cpu3c", vcpu_count=2)))
        await pods.delete(other.id)
        assert await pods.list() == ()


async def test_members_of_clusters_are_listed_when_asked_for() -> None:
    """Contract, Pod: `includeClusterPods`."""
    service = emulated()
    service.world.create("user", parse_creation(msgspec.json.encode(GPU)), 0, cluster=ClusterRecord(id="c1"))
    async with pods_of(service) as pods:
        assert await pods.list() == ()
        (member,) = await pods.list(include_cluster_pods=True)
        assert member.cluster is not None


async def test_a_list_is_followed_page_by_page() -> None:
    """As published: the contract shows no pages, and a service without them is asked once."""
    service = emulated(PodSettings(page_max=2))
    async with pods_of(service) as pods:
        made = [(await pods.create(SPEC)).id for _ in range(5)][::-1]  # newest first
        assert [pod.id for pod in await pods.list()] == made
        assert [pod.id for pod in await pods.list(limit=3)] == made[:3]
        assert [pod.id for pod in await pods.list(limit=1)] == made[:1]


async def test_a_cursor_that_leads_round_in_a_circle_is_one_clear_error() -> None:
    page = {"pods": [], "pagination": {"nextCursor": "again", "hasNextPage": True}}
    service = Service("http://jobs", KEY, transport=httpx.MockTransport(lambda _: httpx.Response(200, json=page)))
    with pytest.raises(AnswerError, match="pods list: the service answered with a cursor that it has given before"):
        await Account(service).pods.list()


async def test_variables_are_changed_one_by_one_only_by_who_asks_for_it() -> None:
    """A modification takes the place of all of them (as observed): what it does not name would be lost."""
    async with pods_of(emulated()) as pods:
        pod = await pods.create(msgspec.structs.replace(SPEC, env={"A": "a", "B": "{{ RUNPOD_SECRET_b }}", "C": "c"}))
        changed = await pods.modify(pod.id, PodModify(env={"A": "x"}), keeping_env=True, without_env=("C",))
        assert changed.env == {"A": "x", "B": "{{ RUNPOD_SECRET_b }}"}
        with pytest.raises(UsageError, match="it has no variable D"):
            await pods.modify(pod.id, PodModify(), keeping_env=True, without_env=("D",))
        assert (await pods.modify(pod.id, PodModify(env={"Z": "z"}))).env == {"Z": "z"}


async def test_a_team_is_named_in_the_header() -> None:
    """Contract, Authentication 4."""
    callers = {KEY: Caller(user="ann", session=True, teams=frozenset({"red"}))}
    service = emulated(callers=callers)
    async with pods_of(service) as own, pods_of(service, team_id="red") as team:
        pod = await team.create(SPEC)
        assert await own.list() == ()
        assert [each.id for each in await team.list()] == [pod.id]
    with pytest.raises(UsageError, match="no team id"):
        Account(Service("http://jobs", KEY, VirtualClock()), team_id="red\r\n")


# --- refused before anything is sent ---------------------------------------------------------------------------------


async def test_a_record_that_breaks_rules_is_refused_with_all_of_them() -> None:
    async with pods_of(emulated()) as pods:
        with pytest.raises(UsageError, match=r"exactly one of .*; image is missing.*; nothing was sent"):
            await pods.create(PodCreate(name="n"))
        pod = await pods.create(SPEC)
        with pytest.raises(UsageError, match=r"mounts\.network cannot be introduced"):
            await pods.modify(pod.id, PodModify(mounts=Mounts(network=(NetworkMount(volume_id="v", path="/n"),))))
        assert pods.windows[0].remaining == 58, "a creation and a look, no more"


@pytest.mark.parametrize("pod_id", ["", "a/b", "../x", "a b", "a?b", "x" * 129])
async def test_what_is_no_pod_id_enters_no_path(pod_id: str) -> None:
    async with pods_of(emulated()) as pods:
        with pytest.raises(UsageError, match="no pod id"):
            await pods.show(pod_id)


async def test_an_action_that_the_record_does_not_list_is_refused_with_the_list() -> None:
    """Contract, Actions valid per status."""
    async with pods_of(emulated()) as pods:
        pod = await running(pods)
        with pytest.raises(ActionRefusedError) as refused:
            await pods.start(pod.id)
        assert refused.value.allowed == ("stop", "restart", "terminate")
        assert str(refused.value) == (
            f"pod {pod.id} is RUNNING, which does not allow start; it allows: stop, restart, terminate; nothing was sent"
        )


async def test_a_locked_pod_is_not_stopped() -> None:
    """Contract, Pod: `locked`."""
    async with pods_of(emulated()) as pods:
        pod = await running(pods)
        await pods.modify(pod.id, PodModify(locked=True))
        with pytest.raises(ActionRefusedError, match="locked"):
            await pods.stop(pod.id)
        with pytest.raises(ProblemError, match=r"it is locked \(409 Conflict: .*\); unlock it first"):
            await pods.restart(pod.id)


async def test_a_member_of_a_cluster_is_not_deleted_on_its_own() -> None:
    """Contract, Pod: cluster members."""
    service = emulated()
    record = service.world.create("user", parse_creation(msgspec.json.encode(GPU)), 0, cluster=ClusterRecord(id="c1"))
    async with pods_of(service) as pods:
        with pytest.raises(ActionRefusedError, match="belongs to cluster c1"):
            await pods.terminate(record.id)
        with pytest.raises(ProblemError, match=r"409 .*its members are managed through the cluster"):
            await pods.stop(record.id)
        with pytest.raises(UsageError, match="cluster c1"):
            await pods.modify(record.id, PodModify(name="x"))


# --- following a pod -------------------------------------------------------------------------------------------------

Call = Callable[[Pods, str], Awaitable[object]]


async def test_start_waits_until_the_pod_runs() -> None:
    service = emulated()
    async with pods_of(service) as pods:
        pod = await running(pods)
        assert (await pods.stop(pod.id, wait=60)).status == "EXITED"
        before = service.clock.now()
        assert (await pods.start(pod.id, wait=60)).status == "RUNNING"
        assert 45 <= (service.clock.now() - before) / 1e6 <= 56


async def test_whoever_waits_is_told_each_status_on_the_way_once() -> None:
    seen: list[str] = []
    pods = scripted(
        *(record(status) for status in ("EXITED", "PROVISIONING", "PROVISIONING", "STARTING", "STARTING", "RUNNING"))
    )
    await pods.start("p1", wait=600, watch=lambda pod: seen.append(pod.status))
    assert seen == ["PROVISIONING", "STARTING"]


async def test_terminate_waits_until_the_pod_is_gone() -> None:
    async with pods_of(emulated()) as pods:
        pod = await running(pods)
        await pods.restart(pod.id, wait=1)
        await pods.terminate(pod.id, wait=1)
        with pytest.raises(ProblemError) as gone:
            await pods.show(pod.id)
        assert gone.value.status == 404


async def test_a_deadline_ends_the_wait_and_says_where_the_pod_is() -> None:
    service = emulated()
    async with pods_of(service) as pods:
        pod = await running(pods)
        await pods.stop(pod.id)
        before = service.clock.now()
        with pytest.raises(WaitError, match="is still PROVISIONING 20 s after start") as late:
            await pods.start(pod.id, wait=20)
        assert late.value.pod is not None
        assert round((service.clock.now() - before) / 1e6) == 20


async def follow_while(happens: Callable[[PodService, str], None]) -> WaitError:
    """What a wait for RUNNING comes to when this happens to the pod after 10 s."""
    service = emulated()
    async with pods_of(service) as pods:
        pod = await running(pods)
        await pods.stop(pod.id)

        async def strike() -> None:
            await anyio.sleep(10)
            happens(service, pod.id)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(strike)
            with pytest.raises(WaitError) as failed:
                await pods.start(pod.id, wait=1000)
    return failed.value


async def test_a_pod_that_fails_while_it_is_followed_ends_the_wait() -> None:
    failed = await follow_while(lambda service, pod_id: service.world.fail(pod_id, service.clock.now()))
    assert "is ERROR now" in str(failed)
    assert failed.pod is not None
    exited = await follow_while(lambda service, pod_id: service.world.exit(pod_id, service.clock.now()))
    assert "is EXITED now" in str(exited)


async def test_a_pod_that_somebody_terminates_while_it_is_followed_ends_the_wait() -> None:
    gone = await follow_while(lambda service, pod_id: service.world.delete("user", pod_id, service.clock.now()))
    assert "is gone" in str(gone)
    assert gone.pod is None


# --- answers of another service --------------------------------------------------------------------------------------


def scripted(*answers: httpx.Response | Exception) -> Pods:
    """Pods of a service that gives these answers, the last one for ever."""
    left = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    return Account(Service("http://jobs", KEY, VirtualClock(), transport=httpx.MockTransport(handle))).pods


def record(status: str, **more: Any) -> httpx.Response:
    return httpx.Response(200, json={"id": "p1", "name": "n", "status": status, **more})


def problem(status: int, detail: str = "no") -> httpx.Response:
    return httpx.Response(status, json={"title": "T", "status": status, "detail": detail})


async def test_the_published_odd_example_blocks_nothing() -> None:
    """As observed: a PROVISIONING pod that lists start, terminate may be stopped, and even started."""
    odd = record("PROVISIONING", actions=["start", "terminate"])
    assert (await scripted(odd, record("EXITED")).stop("p1")).status == "EXITED"
    assert (await scripted(odd, record("RUNNING")).start("p1")).status == "RUNNING"


async def test_an_unknown_status_leaves_the_decision_to_the_service() -> None:
    assert (await scripted(record("HIBERNATING"), record("EXITED")).stop("p1")).status == "EXITED"
    with pytest.raises(ActionRefusedError, match="it allows: thaw"):
        await scripted(record("HIBERNATING", actions=["thaw"])).stop("p1")
    with pytest.raises(ActionRefusedError, match="it allows: none"):
        await scripted(record("TERMINATED", actions=[])).start("p1")


async def test_a_conflict_is_explained() -> None:
    """Contract, 409: the pod has changed since the record was read."""
    with pytest.raises(ProblemError) as refused:
        await scripted(record("RUNNING"), problem(409, "not valid")).stop("p1")
    assert str(refused.value) == (
        "pods stop p1: the pod's state does not allow it now; it was RUNNING a moment ago, which allows it"
        " (409 T: not valid); look at the pod and try again"
    )
    with pytest.raises(ProblemError, match="409 Conflict"):
        await scripted(record("RUNNING"), httpx.Response(409)).stop("p1")
    with pytest.raises(ProblemError, match=r"403 T: no\)"):
        await scripted(record("RUNNING"), problem(403)).stop("p1")


async def test_an_action_whose_answer_is_lost_says_so_and_is_not_repeated() -> None:
    with pytest.raises(Unanswered, match=r"pods stop p1: .*whether it happened is unknown, look before you repeat it"):
        await scripted(record("RUNNING"), httpx.ReadError("cut"), record("EXITED")).stop("p1")
    with pytest.raises(NotSent):
        await scripted(record("RUNNING"), httpx.ConnectError("refused"), record("EXITED")).stop("p1")


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"id":"p1"', b"[1]", b"[" * 5000])
async def test_an_answer_that_is_no_pod_is_one_clear_error(body: bytes) -> None:
    """Contract of pods, An answer that is not JSON, is empty, or is cut."""
    with pytest.raises(AnswerError, match="pods show p1: the service answered 200 with a body that cannot be read"):
        await scripted(httpx.Response(200, content=body)).show("p1")
    with pytest.raises(AnswerError):
        await scripted(httpx.Response(200, content=body)).list()


async def test_trouble_while_following_is_waited_out() -> None:
    pods = scripted(
        record("EXITED"),
        record("EXITED"),
        httpx.Response(200, content=b"garbage"),
        *[problem(500)] * 4,
        *[httpx.ReadError("cut")] * 4,
        *[problem(429)] * 4,
        record("STARTING"),
        record("RUNNING"),
    )
    assert (await pods.start("p1", wait=600)).status == "RUNNING"


async def test_a_refusal_while_following_ends_it() -> None:
    with pytest.raises(ProblemError, match="403"):
        await scripted(record("EXITED"), record("PROVISIONING"), problem(403)).start("p1", wait=600)


async def test_a_pod_that_terminates_may_pass_other_states_and_stay_known() -> None:
    pods = scripted(record("RUNNING"), httpx.Response(204), record("EXITED"), record("TERMINATED"))
    await pods.terminate("p1", wait=60)


async def test_a_pod_that_was_in_error_may_stay_there_for_a_moment() -> None:
    pods = scripted(record("ERROR"), record("ERROR"), record("ERROR"), record("STARTING"), record("RUNNING"))
    assert (await pods.start("p1", wait=60)).status == "RUNNING"


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_client_that_is_busy_never_meets_a_429() -> None:
    """Contract, Limits: before a window is empty, requests wait."""
    quotas = {"minute": Quota(requests=5, window_s=60), "hour": Quota(requests=1000, window_s=3600)}
    waits: list[tuple[str, float]] = []
    service = emulated(quotas=quotas)
    async with pods_of(service) as pods:
        pods._rest.notify = lambda reason, wait_s: waits.append((reason, wait_s))
        for _ in range(13):
            await pods.list()
            await anyio.sleep(0.5)
        assert [window.remaining for window in pods.windows] == [4, 987]
    assert len(waits) == 3
    assert waits[0] == ("the minute window of the rate limit is nearly used up", 58.5)


async def test_exempt_callers_are_told_no_limits() -> None:
    """Contract, Limits 4."""
    async with pods_of(emulated(callers={KEY: Caller(exempt=True)})) as pods:
        await pods.list()
        assert len(pods.windows) == 0
    async with pods_of(emulated(quotas=QUOTAS)) as pods:
        assert not list(pods.windows)
        await pods.list()
        assert [window.name for window in pods.windows] == ["minute", "hour", "day"]


def test_nothing_shows_the_key() -> None:
    account = Account(Service("http://jobs", "a-very-secret-key", VirtualClock()))
    assert "secret" not in repr(account.pods)
