"""Reading a Pod record, and the rules that are checked before anything is sent (contract of pods)."""

from typing import Any

import msgspec
import pytest

from orchestrator.account.pods.command import ContainerCommand, command_problems, parse_args
from orchestrator.account.pods.pod_record import (
    ACTIONS_BY_STATUS,
    GlobalMount,
    Mounts,
    NetworkMount,
    PersistentMount,
    Pod,
    PodAction,
    PodStatus,
    decode_pod,
)
from orchestrator.account.pods.specs import (
    CpuRequest,
    GpuRequest,
    PodCreate,
    PodModify,
    create_problems,
    modify_problems,
)

GPU = GpuRequest(id="NVIDIA L4")
PERSISTENT = PersistentMount(size=10, path="/p")
NETWORK = (NetworkMount(volume_id="n", path="/n"),)
GLOBAL = (GlobalMount(volume_id="g", path="/g"),)

WHOLE = {
    "id": "p1",
    "name": "trainer",
    "status": "RUNNING",
    "actions": ["stop", "restart", "terminate"],
    "image": "img:1",
    "args": "a b",
    "cmd": ["a", "b"],
    "entrypoint": ["sh"],
    "disk": 20,
    "env": {"A": "1"},
    "ports": ["22/tcp"],
    "registry": "r",
    "mounts": {"network": [{"volumeId": "n", "path": "/n"}], "global": [{"volumeId": "g", "path": "/g"}]},
    "gpu": {"id": "NVIDIA L4", "count": 2, "vcpuCount": 16.5, "memory": 64},
    "cloud": "SECURE",
    "dataCenterId": "EU-1",
    "cudaVersion": "12.8",
    "ssh": {"proxy": {"host": "h", "port": 22, "username": "u", "command": "ssh u@h"}, "direct": None},
    "cluster": {"id": "c", "rank": 0, "role": "RAY_HEAD", "ip": "10.0.0.1"},
    "template": "t",
    "cost": 1.25,
    "locked": True,
    "globalNetworking": {"enabled": True, "ip": "10.1.0.1", "internalDns": "p1.internal"},
    "runtime": {
        "uptime": 5,
        "gpus": [{"util": 90, "memoryUtil": 50}],
        "cpu": {"util": 3},
        "memory": {"util": 4},
        "ports": [{"private": 22, "public": 20022, "type": "tcp", "ip": "203.0.113.1"}],
    },
    "createdAt": "2026-01-01T00:00:00Z",
    "startedAt": None,
}


def read(**more: Any) -> Pod:
    return decode_pod(msgspec.json.encode({"id": "p1", "name": "n", "status": "RUNNING", **more}))


# --- the record ------------------------------------------------------------------------------------------------------


def test_the_whole_record_is_typed() -> None:
    """Contract, Resources: every field of every table has its place."""
    pod = decode_pod(msgspec.json.encode(WHOLE))
    assert pod.unknown == {}
    back = msgspec.json.decode(msgspec.json.encode(pod))
    del back["<raw>"]
    assert back == {**WHOLE, "cpu": None}
    assert pod.mounts.global_ == GLOBAL
    assert pod.runtime is not None
    assert pod.runtime.gpus[0].memory_util == 50
    assert pod.global_networking.internal_dns == "p1.internal"


def test_unknown_members_and_values_are_kept_and_harmless() -> None:
    """Contract of pods, Enumerations."""
    record = {
        **WHOLE,
        "status": "HIBERNATING",
        "cloud": "MOON",
        "novel": [1],
        "ssh": {"proxy": None, "direct": None, "x": 1},
    }
    raw = msgspec.json.encode(record)
    pod = decode_pod(raw)
    assert (pod.status, pod.cloud, pod.unknown) == ("HIBERNATING", "MOON", {"novel": [1]})
    assert pod.raw == raw


def test_what_the_published_interface_leaves_out_may_be_missing() -> None:
    """As observed: cmd, entrypoint, mounts.global, gpu.vcpuCount and gpu.memory."""
    pod = read(gpu={"id": "g", "count": 1}, mounts={}, cost=1)
    assert pod.gpu is not None
    assert (pod.gpu.vcpu_count, pod.cmd, pod.entrypoint, pod.mounts.global_) == (None, None, None, None)
    assert read(cpu={"id": "cpu3c", "vcpuCount": 2, "memory": 8}).cpu is not None


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"id":1,"name":"n","status":"s"}', b"<html>"])
def test_what_is_no_pod_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode_pod(raw)


def test_environment_variables_are_in_no_repr() -> None:
    for value in (
        read(env={"TOKEN": "hunter2"}),
        PodCreate(name="n", env={"TOKEN": "hunter2"}),
        PodModify(env={"TOKEN": "hunter2"}),
    ):
        assert "hunter2" not in repr(value)
    assert Pod(id="a", name="n", status="RUNNING").unknown == {}


# --- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "actions"),
    [
        ("RUNNING", ("stop", "restart", "terminate")),
        ("EXITED", ("start", "terminate")),
        ("ERROR", ("start", "terminate")),
        ("PROVISIONING", ("stop", "terminate")),
        ("STARTING", ("stop", "terminate")),
        ("TERMINATED", None),
        ("HIBERNATING", None),
    ],
)
def test_without_a_list_the_contracts_table_says_what_is_allowed(status: str, actions: Any) -> None:
    """Contract, Actions valid per status; nothing is shown for TERMINATED, so the service decides."""
    assert read(status=status).allowed == actions


def test_the_actions_of_the_record_are_allowed_and_those_of_the_table_too() -> None:
    """As observed: the published example lists start, terminate for a PROVISIONING pod."""
    assert read(status="PROVISIONING", actions=["start", "terminate"]).allowed == ("start", "terminate", "stop")
    assert read(status="EXITED", actions=["start", "terminate", "thaw"]).allowed == ("start", "terminate", "thaw")
    assert read(status="TERMINATED", actions=[]).allowed == ()


def test_every_status_but_terminated_has_its_actions() -> None:
    assert set(ACTIONS_BY_STATUS) == set(PodStatus) - {PodStatus.TERMINATED}
    assert all(PodAction.TERMINATE in actions for actions in ACTIONS_BY_STATUS.values())


# --- args ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "command"),
    [
        ("", ContainerCommand()),
        ("   ", ContainerCommand()),
        ("python a.py --x 'b c'", ContainerCommand(cmd=("python", "a.py", "--x", "b c"))),
        ('{"cmd": ["a"]}', ContainerCommand(cmd=("a",))),
        ('{"entrypoint": ["b"], "cmd": []}', ContainerCommand(entrypoint=("b",))),
        ("{}", ContainerCommand()),
        ("{ a; b; }", ContainerCommand(cmd=("{", "a;", "b;", "}"))),
        ("[1]", ContainerCommand(cmd=("[1]",))),
        ("[" * 2000, ContainerCommand(cmd=("[" * 2000,))),
    ],
)
def test_both_shapes_of_args_are_parsed(args: str, command: ContainerCommand) -> None:
    """Contract, Container configuration rule 1."""
    assert parse_args(args) == command


@pytest.mark.parametrize("args", ['{"cmd": "a"}', '{"cmd": [1]}', '{"cmd": null}', '{"shell": []}', "echo 'a"])
def test_args_of_another_form_are_refused(args: str) -> None:
    assert len(command_problems(args, None, None)) == 1


@pytest.mark.parametrize(
    ("args", "entrypoint", "cmd", "problems"),
    [
        (None, ("a",), ("b",), 0),
        ("a b", None, ("a", "b"), 0),
        ("a b", None, None, 0),
        ("a b", (), ("a", "b"), 0),
        ("", (), (), 0),
        ("a b", ("a",), ("b",), 2),
        ("a b", None, (), 1),
        ('{"entrypoint": ["a"]}', ("a",), None, 0),
        ('{"entrypoint": ["a"]}', ("b",), None, 1),
    ],
)
def test_args_and_arrays_must_describe_the_same_command(args: Any, entrypoint: Any, cmd: Any, problems: int) -> None:
    """Contract, Container configuration rule 3."""
    assert len(command_problems(args, entrypoint, cmd)) == problems


# --- creation --------------------------------------------------------------------------------------------------------


def create(**more: Any) -> tuple[str, ...]:
    return create_problems(PodCreate(**{"name": "n", "image": "i", "gpu": GPU, **more}))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"disk": 1, "ports": ("8888/http", "22/tcp")},
        {"mounts": Mounts()},
        {"mounts": Mounts(persistent=PERSISTENT)},
        {"mounts": Mounts(network=NETWORK, global_=GLOBAL)},  # contract, Mounts rule 2
        {"mounts": Mounts(global_=(GlobalMount(volume_id="g"),))},
    ],
)
def test_what_the_contract_allows_passes(more: Any) -> None:
    """Contract of pods, Versioning 2: the persistent mount is deprecated."""
    assert create(**more) == ()
    assert create_problems(PodCreate(name="n", template_id="t", cpu=CpuRequest(id="cpu3c", vcpu_count=8))) == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": " "}, "name is empty"),
        ({"disk": 0}, "disk is 0 GB; at least 1"),
        ({"gpu": GpuRequest(id="g", count=0)}, "gpu.count is 0; at least 1"),
        ({"gpu": GpuRequest(id="g", min_ram_per_gpu=0)}, "gpu.minRamPerGpu is 0; at least 1"),
        ({"gpu": GpuRequest(id="g", min_vcpu_count_per_gpu=0)}, "gpu.minVcpuCountPerGpu is 0; at least 1"),
        ({"cpu": CpuRequest(id="c", vcpu_count=2)}, "exactly one of gpu and cpu must be given"),
        ({"ports": ("80",)}, "port '80' is not of the form port/protocol, as in 8888/http"),
        ({"ports": ("65536/tcp",)}, "port '65536/tcp' is not of the form port/protocol, as in 8888/http"),
        ({"args": "a", "cmd": ("b",)}, "args and cmd describe different commands: ['a'] and ['b']"),
        (
            {"mounts": Mounts(persistent=PERSISTENT, network=NETWORK)},
            "mounts.persistent excludes mounts.network and mounts.global",
        ),
        (
            {"mounts": Mounts(persistent=PERSISTENT, global_=GLOBAL)},
            "mounts.persistent excludes mounts.network and mounts.global",
        ),
        (
            {"mounts": Mounts(persistent=PersistentMount(size=9, path="/p"))},
            "mounts.persistent.size is 9 GB; at least 10",
        ),
        ({"mounts": Mounts(network=NETWORK * 2)}, "mounts.network holds at most one volume"),
        ({"mounts": Mounts(global_=GLOBAL * 2)}, "mounts.global holds at most one volume"),
    ],
)
def test_each_rule_of_creation_is_checked(more: Any, words: str) -> None:
    """Contract, Field bounds; Mounts rule 1; Container configuration rules 3 and 5."""
    assert create(**more) == (words,)


def test_a_pod_needs_hardware_and_an_image() -> None:
    assert create_problems(PodCreate(name="n")) == (
        "exactly one of gpu and cpu must be given",
        "image is missing, and no template brings one",
    )


@pytest.mark.parametrize("count", [-2, 0, 1, 3, 6, 12])
def test_vcpu_counts_are_powers_of_two_from_two(count: int) -> None:
    """Contract, CpuConfig."""
    spec = PodCreate(name="n", image="i", cpu=CpuRequest(id="cpu3c", vcpu_count=count))
    assert create_problems(spec) == (f"cpu.vcpuCount is {count}; a power of two, at least 2",)


def test_a_cpu_pod_has_a_flavor_and_no_persistent_mount() -> None:
    """Contract, CpuConfig and Mounts."""
    spec = PodCreate(name="n", image="i", cpu=CpuRequest(id="", vcpu_count=2), mounts=Mounts(persistent=PERSISTENT))
    assert create_problems(spec) == ("cpu.id is empty", "mounts.persistent is not allowed on CPU pods")


def test_only_what_is_given_is_sent() -> None:
    spec = PodCreate(name="n", gpu=GPU, image="i", mounts=Mounts(global_=(GlobalMount(volume_id="g"),)), cmd=())
    assert msgspec.json.decode(msgspec.json.encode(spec)) == {
        "name": "n",
        "gpu": {"id": "NVIDIA L4", "count": 1},
        "image": "i",
        "cmd": [],
        "mounts": {"global": [{"volumeId": "g"}]},
    }
    assert msgspec.json.encode(PodModify(registry=None, args="")) == b'{"args":"","registry":null}'


# --- modification ----------------------------------------------------------------------------------------------------


def modify(pod: Pod | None, **changes: Any) -> tuple[str, ...]:
    return modify_problems(PodModify(**changes), pod)


def test_a_path_may_change_and_everything_may_be_left_out() -> None:
    """Contract, Mounts rule 4."""
    network = read(mounts={"network": [{"volumeId": "n", "path": "/n"}]})
    moved = Mounts(network=(NetworkMount(volume_id="n", path="/m"),))
    for pod in (network, None):
        assert modify(pod, mounts=moved) == ()
        assert modify(pod, mounts=Mounts(), name="x", args="") == ()
    persistent = read(mounts={"persistent": {"size": 10, "path": "/p"}})
    assert modify(persistent, mounts=Mounts(persistent=PersistentMount(size=10, path="/q"))) == ()


@pytest.mark.parametrize(
    ("present", "wanted", "words"),
    [
        ({}, Mounts(network=()), "mounts.network cannot be emptied; leave it out to keep it"),
        ({}, Mounts(global_=()), "mounts.global cannot be emptied; leave it out to keep it"),
        (
            {},
            Mounts(network=NETWORK),
            "mounts.network cannot be introduced; the kind of a mount is fixed when the pod is created",
        ),
        (
            {"network": [{"volumeId": "n", "path": "/n"}]},
            Mounts(global_=GLOBAL),
            "mounts.global cannot be introduced; the kind of a mount is fixed when the pod is created",
        ),
        (
            {"network": [{"volumeId": "other", "path": "/n"}]},
            Mounts(network=NETWORK),
            "mounts.network names another volume; only the path can change",
        ),
        (
            {"persistent": {"size": 20, "path": "/p"}},
            Mounts(persistent=PERSISTENT),
            "mounts.persistent.size cannot change; only the path can",
        ),
    ],
)
def test_each_rule_of_modified_mounts_is_checked(present: Any, wanted: Mounts, words: str) -> None:
    """Contract, Mounts rule 4."""
    assert modify(read(mounts=present), mounts=wanted) == (words,)


def test_a_member_of_a_cluster_is_not_modified() -> None:
    """Contract, Pod: cluster members cannot be modified through the pod endpoints."""
    assert modify(read(cluster={"id": "c1"}), name="x") == (
        "the pod belongs to cluster c1 and is modified through /v2/clusters only",
    )


def test_a_modification_keeps_the_bounds_as_well() -> None:
    assert modify(None, disk=0) == ("disk is 0 GB; at least 1",)
