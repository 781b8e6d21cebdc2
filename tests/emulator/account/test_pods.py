"""The pods of the emulator over time: states, actions and what the record shows (contract of pods)."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emulator.account.pod_records import VALID_ACTIONS, ClusterRecord, PodPhase, PodVerb
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ProblemRefusal
from orchestrator.emulator.contract.gpu_catalog import GPU_USD
from tests.emulator.pod_service import AT_ONCE, CPU, GPU, T0
from tests.emulator.pod_worlds import ME, SLOW, World, creation, in_status, running, seen

# --- over time -------------------------------------------------------------------------------------------------------


def test_a_new_pod_is_provisioned_started_and_runs() -> None:
    pod = World()
    statuses = []
    for _ in range(6):
        statuses.append(pod.get().status)
        pod.clock.forward(1)
    assert statuses == [PodPhase.PROVISIONING] * 3 + [PodPhase.STARTING] * 2 + [PodPhase.RUNNING]


def test_what_was_due_happened_at_its_own_time_although_nobody_looked() -> None:
    pod = World()
    pod.clock.forward(100)
    runtime = pod.get().runtime
    assert runtime is not None
    assert runtime.uptime == 95
    assert pod.get().started_at == "2026-01-01T00:00:05Z"


# --- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(PodPhase))
@pytest.mark.parametrize("action", list(PodVerb))
def test_the_table_of_valid_actions_holds(status: PodPhase, action: PodVerb) -> None:
    """Contract, Actions valid per status; an action that is not valid is 409 and leaves the pod unchanged."""
    pod = in_status(status)
    before = pod.get()
    assert before.actions == VALID_ACTIONS[status]
    if action in before.actions:
        pod.act(action)
        return
    assert pod.refusal(action).status == 409
    assert pod.get() == before


@pytest.mark.parametrize("status", [PodPhase.EXITED, PodPhase.ERROR])
def test_start_boots_a_pod_again(status: PodPhase) -> None:
    """Contract, Transitions: EXITED, ERROR, start."""
    pod = in_status(status)
    started = pod.act(PodVerb.START)
    assert started is not None
    assert started.status is PodPhase.PROVISIONING
    pod.clock.forward(5)
    assert pod.get().status is PodPhase.RUNNING


def test_the_status_that_start_answers_is_a_setting() -> None:
    pod = World(msgspec.structs.replace(SLOW, started_as=PodPhase.RUNNING))
    pod.act(PodVerb.STOP)
    started = pod.act(PodVerb.START)
    assert started is not None
    assert started.status is PodPhase.RUNNING


@pytest.mark.parametrize("status", [PodPhase.RUNNING, PodPhase.PROVISIONING, PodPhase.STARTING])
def test_stop_releases_the_compute_and_keeps_the_disk(status: PodPhase) -> None:
    """Contract, Transitions: stop."""
    pod = in_status(status)
    pod.world.files(pod.id)["a"] = b"1"
    stopped = pod.act(PodVerb.STOP)
    assert stopped is not None
    assert (stopped.status, stopped.cost, stopped.runtime) == (PodPhase.EXITED, 0.0, None)
    pod.clock.forward(100)
    assert pod.get().status is PodPhase.EXITED
    pod.act(PodVerb.START)
    assert pod.world.files(pod.id) == {"a": b"1"}


def test_restart_wipes_the_disk_and_stays_in_running() -> None:
    """Contract, Transitions: restart; `disk` is wiped on restart."""
    pod = in_status(PodPhase.RUNNING)
    pod.world.files(pod.id)["a"] = b"1"
    pod.clock.forward(60)
    restarted = pod.act(PodVerb.RESTART)
    assert restarted is not None
    assert restarted.status is PodPhase.RUNNING
    assert restarted.runtime is not None
    assert restarted.runtime.uptime == 0
    assert pod.world.files(pod.id) == {}


@pytest.mark.parametrize("status", list(PodPhase))
def test_terminate_deletes_a_pod_for_good(status: PodPhase) -> None:
    """Contract, Transitions: terminate."""
    pod = in_status(status)
    assert pod.act(PodVerb.TERMINATE) is None
    with pytest.raises(ProblemRefusal) as gone:
        pod.get()
    assert gone.value.status == 404
    assert pod.world.list(ME, T0) == ()


@pytest.mark.parametrize("action", [PodVerb.STOP, PodVerb.RESTART])
def test_a_locked_pod_is_neither_stopped_nor_restarted(action: PodVerb) -> None:
    """Contract, Pod: `locked` prevents stopping or resetting."""
    pod = in_status(PodPhase.RUNNING)
    assert pod.modify(locked=True).locked
    assert "locked" in pod.refusal(action).detail
    assert pod.get().status is PodPhase.RUNNING
    pod.modify(locked=False)
    pod.act(action)


def test_a_locked_pod_can_be_terminated() -> None:
    pod = in_status(PodPhase.RUNNING)
    pod.modify(locked=True)
    assert pod.act(PodVerb.TERMINATE) is None


# --- clusters and accounts -------------------------------------------------------------------------------------------

MEMBER = ClusterRecord(id="c1", rank=0, role="RAY_HEAD", ip="10.2.0.1")


def test_members_of_a_cluster_are_listed_only_when_asked_for() -> None:
    """Contract, Pod: `includeClusterPods`."""
    pod = World(cluster=MEMBER)
    assert pod.world.list(ME, T0) == ()
    (record,) = pod.world.list(ME, T0, include_cluster_pods=True)
    assert seen(record)["cluster"] == {"id": "c1", "rank": 0, "role": "RAY_HEAD", "ip": "10.2.0.1"}
    assert record == pod.get()


def test_members_of_a_cluster_are_protected() -> None:
    """Contract, Pod: cluster members cannot be modified or deleted through the pod endpoints."""
    pod = World(cluster=ClusterRecord(id="c1"))
    attempts: list[Callable[[], object]] = [
        lambda: pod.act(PodVerb.STOP),
        lambda: pod.act(PodVerb.TERMINATE),
        lambda: pod.modify(name="x"),
        lambda: pod.world.delete(ME, pod.id, T0),
    ]
    for attempt in attempts:
        with pytest.raises(ProblemRefusal) as refused:
            attempt()
        assert refused.value.status == 409
        assert "/v2/clusters/c1" in refused.value.detail
    assert seen(pod.get())["cluster"] == {"id": "c1", "rank": None}


def test_a_pod_of_somebody_else_is_not_found() -> None:
    pod = World()
    assert pod.world.list("you", T0) == ()
    attempts: list[Callable[[], object]] = [
        lambda: pod.world.get("you", pod.id, T0),
        lambda: pod.world.act("you", pod.id, PodVerb.STOP, T0),
        lambda: pod.world.delete("you", pod.id, T0),
    ]
    for attempt in attempts:
        with pytest.raises(ProblemRefusal) as refused:
            attempt()
        assert refused.value.status == 404


# --- the record ------------------------------------------------------------------------------------------------------

REQUIRED = {
    "id", "name", "status", "actions", "image", "args", "disk", "env", "ports", "registry", "mounts", "cloud",
    "dataCenterId", "cudaVersion", "ssh", "template", "cost", "locked", "globalNetworking", "runtime", "createdAt",
    "startedAt",
}  # fmt: skip
"""Contract, Pod: the fields that are always there."""


@pytest.mark.parametrize("status", list(PodPhase))
def test_the_required_fields_are_always_there(status: PodPhase) -> None:
    record = seen(in_status(status).get())
    assert record.keys() == REQUIRED | {"gpu"}
    assert record["ssh"].keys() == {"proxy", "direct"}


def test_a_cpu_pod_has_cpu_and_no_gpu() -> None:
    """Contract, Pod: `gpu` and `cpu` exclude each other; `cudaVersion` is null for CPU pods."""
    record = seen(running(CPU).get())
    assert record["cpu"] == {"id": "cpu3c", "vcpuCount": 4, "memory": 16}
    assert "gpu" not in record
    assert record["cudaVersion"] is None
    assert record["runtime"]["gpus"] == []
    assert record["cost"] == 0.12


def test_a_gpu_pod_shows_the_total_of_its_gpus() -> None:
    """Contract, GpuConfig."""
    record = seen(running(gpu={"id": "NVIDIA L4", "count": 2}).get())
    assert record["gpu"] == {"id": "NVIDIA L4", "count": 2, "vcpuCount": 16.0, "memory": 128.0}
    assert "cpu" not in record
    assert record["runtime"]["gpus"] == [{"util": 0, "memoryUtil": 0}] * 2
    assert record["cost"] == 2 * GPU_USD["SECURE"]
    assert seen(running(cloud="COMMUNITY").get())["cost"] == GPU_USD["COMMUNITY"]


def test_the_machine_comes_with_the_end_of_provisioning_and_is_kept_while_stopped() -> None:
    """Contract, Pod: `cudaVersion`, `dataCenterId`, `ssh.proxy`."""
    pod = World()
    first = pod.get()
    assert (first.data_center_id, first.cuda_version, first.ssh.proxy) == (None, None, None)
    pod.clock.forward(3)
    placed = pod.get()
    assert (placed.data_center_id, placed.cuda_version) == ("EMU-1", "12.8")
    assert placed.ssh.proxy is not None
    pod.act(PodVerb.STOP)
    stopped = pod.get()
    assert (stopped.data_center_id, stopped.cuda_version, stopped.ssh.proxy) == ("EMU-1", "12.8", placed.ssh.proxy)


def test_the_direct_way_in_is_there_while_a_running_pod_publishes_22_tcp() -> None:
    """Contract, PodSsh."""
    pod = World(body={**GPU, "ports": ["8888/http", "22/tcp"]})
    assert pod.get().ssh.direct is None
    pod.clock.forward(5)
    direct = pod.get().ssh.direct
    assert direct is not None
    assert direct.command == f"ssh root@{direct.host} -p {direct.port}"
    record = pod.get()
    assert record.runtime is not None
    http, ssh = record.runtime.ports
    assert (http.private, http.public, http.type, http.ip) == (8888, None, "http", None)
    assert (ssh.private, ssh.public, ssh.type, ssh.ip) == (22, direct.port, "tcp", direct.host)
    pod.act(PodVerb.STOP)
    assert pod.get().ssh.direct is None
    assert running(ports=["22/udp", "23/tcp"]).get().ssh.direct is None


def test_global_networking_is_on_once_there_is_an_address() -> None:
    """Contract, PodGlobalNetworking."""
    pod = World(body={**GPU, "globalNetworking": True})
    assert seen(pod.get())["globalNetworking"] == {"enabled": False}
    pod.clock.forward(3)
    networking = seen(pod.get())["globalNetworking"]
    assert networking == {"enabled": True, "ip": networking["ip"], "internalDns": f"{pod.id}.emulator.internal"}
    assert seen(pod.modify(globalNetworking=False))["globalNetworking"] == {"enabled": False}


@pytest.mark.parametrize(
    ("given_fields", "args", "cmd", "entrypoint"),
    [
        ({"args": "python a.py 'b c'"}, "python a.py 'b c'", ["python", "a.py", "b c"], None),
        ({"args": '{"cmd": ["a"], "entrypoint": ["b"]}'}, '{"cmd": ["a"], "entrypoint": ["b"]}', ["a"], ["b"]),
        ({"cmd": ["a", "b"]}, '{"cmd":["a","b"]}', ["a", "b"], None),
        ({"cmd": ["a"], "entrypoint": ["b"]}, '{"entrypoint":["b"],"cmd":["a"]}', ["a"], ["b"]),
        ({"args": "a b", "cmd": ["a", "b"]}, "a b", ["a", "b"], None),
        ({"args": '{"entrypoint": ["b"]}', "entrypoint": ["b"], "cmd": []}, '{"entrypoint": ["b"]}', None, ["b"]),
        ({"args": ""}, "", None, None),
        ({}, "", None, None),
    ],
)
def test_args_are_kept_as_stored_and_taken_apart(given_fields: Any, args: str, cmd: Any, entrypoint: Any) -> None:
    """Contract, Container configuration rules 1 to 3."""
    record = seen(World(body={**GPU, **given_fields}).get())
    assert (record["args"], record.get("cmd"), record.get("entrypoint")) == (args, cmd, entrypoint)


def test_a_global_volume_without_a_path_gets_one() -> None:
    """Contract, Mounts: a default is chosen on create."""
    assert seen(World(body={**GPU, "mounts": {"global": [{"volumeId": "v"}]}}).get())["mounts"] == {
        "global": [{"volumeId": "v", "path": "/global"}]
    }
    both = {"network": [{"volumeId": "n", "path": "/n"}], "global": [{"volumeId": "v", "path": "/v"}]}
    assert seen(World(body={**GPU, "mounts": both}).get())["mounts"] == both


# --- modification ----------------------------------------------------------------------------------------------------


def test_a_modification_changes_what_it_names() -> None:
    pod = World(body={**GPU, "args": "run me", "env": {"A": "1"}})
    record = seen(
        pod.modify(name="n", image="i", disk=7, env={"B": "2"}, ports=["1/tcp"], registry="r", entrypoint=["sh"])
    )
    assert (record["name"], record["image"], record["disk"], record["env"]) == ("n", "i", 7, {"B": "2"})
    assert (record["ports"], record["registry"]) == (["1/tcp"], "r")
    assert (record["entrypoint"], record["cmd"]) == (["sh"], ["run", "me"])
    assert record["args"] == '{"entrypoint":["sh"],"cmd":["run","me"]}'
    assert pod.modify(registry=None).registry is None


def test_an_empty_command_clears_and_an_omitted_one_stays() -> None:
    """Contract, Container configuration rule 4."""
    pod = World(body={**GPU, "entrypoint": ["sh"], "cmd": ["a"]})
    assert seen(pod.modify())["args"] == '{"entrypoint":["sh"],"cmd":["a"]}'
    record = seen(pod.modify(cmd=[]))
    assert (record["args"], record.get("cmd"), record["entrypoint"]) == ('{"entrypoint":["sh"]}', None, ["sh"])
    record = seen(pod.modify(args=""))
    assert (record["args"], record.get("cmd"), record.get("entrypoint")) == ("", None, None)


NETWORK = {"network": [{"volumeId": "n", "path": "/n"}]}
GLOBAL = {"global": [{"volumeId": "g", "path": "/g"}]}
PERSISTENT = {"persistent": {"size": 10, "path": "/p"}}


@pytest.mark.parametrize(
    ("mounts", "wanted", "result"),
    [
        (NETWORK, {}, NETWORK),
        (NETWORK, {"network": [{"volumeId": "n", "path": "/m"}]}, {"network": [{"volumeId": "n", "path": "/m"}]}),
        (GLOBAL, {"global": [{"volumeId": "g", "path": "/h"}]}, {"global": [{"volumeId": "g", "path": "/h"}]}),
        (GLOBAL, {"global": [{"volumeId": "g"}]}, GLOBAL),
        (PERSISTENT, {"persistent": {"size": 10, "path": "/q"}}, {"persistent": {"size": 10, "path": "/q"}}),
    ],
)
def test_only_the_path_of_a_mount_changes(mounts: Any, wanted: Any, result: Any) -> None:
    """Contract, Mounts rule 4."""
    pod = World(body={**GPU, "mounts": mounts})
    assert seen(pod.modify(mounts=wanted))["mounts"] == result


@pytest.mark.parametrize(
    ("mounts", "wanted"),
    [
        (NETWORK, {"network": []}),
        (GLOBAL, {"global": []}),
        ({}, NETWORK),
        ({"network": []}, NETWORK),
        (NETWORK, GLOBAL),
        (NETWORK, PERSISTENT),
        (NETWORK, {"network": [{"volumeId": "other", "path": "/n"}]}),
        (PERSISTENT, {"persistent": {"size": 20, "path": "/p"}}),
    ],
)
def test_every_other_change_of_mounts_is_400_and_changes_nothing(mounts: Any, wanted: Any) -> None:
    """Contract, Mounts rule 4."""
    pod = World(body={**GPU, "mounts": mounts})
    before = pod.get()
    with pytest.raises(ProblemRefusal) as refused:
        pod.modify(name="x", mounts=wanted)
    assert refused.value.status == 400
    assert pod.get() == before


# --- what stands in the way ------------------------------------------------------------------------------------------


def test_a_lack_of_capacity_is_400_for_new_and_stopped_pods() -> None:
    pod = World(msgspec.structs.replace(SLOW, capacity=1))
    with pytest.raises(ProblemRefusal, match="no longer any instances") as refused:
        pod.world.create(ME, creation(GPU), T0)
    assert refused.value.status == 400
    pod.act(PodVerb.STOP)
    pod.world.create(ME, creation(GPU), T0)
    assert pod.refusal(PodVerb.START).status == 400
    assert pod.get().status is PodPhase.EXITED


def test_an_empty_account_is_402() -> None:
    with pytest.raises(ProblemRefusal) as refused:
        World(PodSettings(balance=False))
    assert refused.value.status == 402


def from_template(pod: World) -> Any:
    return {"name": "n", "gpu": {"id": "g", "count": 1}, "templateId": pod.web, "env": {"B": "b"}}


def test_a_template_fills_in_and_the_body_wins() -> None:
    """Contract, Pod: `template` is the template that the pod was created from."""
    pod = World(body=from_template)
    record = seen(pod.get())
    assert (record["image"], record["disk"], record["ports"]) == ("from:template", 33, ["80/http", "22/tcp"])
    assert (record["cmd"], record["template"], record["registry"]) == (["serve"], pod.web, "reg")
    assert record["env"] == {"A": "{{ RUNPOD_SECRET_a }}", "B": "b"}
    pod = World(body={**GPU, "disk": 5})
    record = seen(pod.modify(templateId=pod.web, disk=6))
    assert (record["image"], record["disk"], record["template"]) == ("from:template", 6, None)
    assert record["env"] == {"A": "{{ RUNPOD_SECRET_a }}", "B": "t"}


def test_a_template_must_exist_and_be_one_for_pods() -> None:
    pod = World()
    for template, status in (("unknown", 404), (pod.worker, 422)):
        with pytest.raises(ProblemRefusal) as refused:
            pod.modify(templateId=template)
        assert refused.value.status == status


# --- properties ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(list(PodVerb)), st.integers(0, 4)), max_size=20), st.booleans())
def test_whatever_is_asked_the_record_keeps_the_contract(steps: list[tuple[PodVerb, int]], locked: bool) -> None:
    pod = World(body={**GPU, "ports": ["22/tcp"]})
    pod.modify(locked=locked)
    for action, seconds in steps:
        pod.clock.forward(seconds)
        before = pod.get()
        try:
            if pod.act(action) is None:
                assert action is PodVerb.TERMINATE
                return
        except ProblemRefusal:
            assert pod.get() == before
            assert locked or action not in before.actions
        now = pod.get()
        assert now.actions == VALID_ACTIONS[now.status]
        assert (now.runtime is None) == (now.status is not PodPhase.RUNNING)
        assert (now.cost == 0) == (now.status in (PodPhase.EXITED, PodPhase.ERROR))
        assert now.ssh.direct is None or now.status is PodPhase.RUNNING


def test_pods_that_start_at_once_are_running_when_they_are_created() -> None:
    assert World(AT_ONCE).get().status is PodPhase.RUNNING


def test_a_gpu_pod_without_a_count_finds_no_instance_unless_the_settings_say_so() -> None:
    """As observed: the schema has a default, and the service does not."""
    body = {"name": "n", "image": "i:1", "gpu": {"id": "g"}}
    with pytest.raises(ProblemRefusal, match="no longer any instances") as refused:
        World(SLOW, body)
    assert refused.value.status == 400
    gpu = World(msgspec.structs.replace(SLOW, assumes_gpu_count=True), body).get().gpu
    assert msgspec.to_builtins(gpu)["count"] == 1
