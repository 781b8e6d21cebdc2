"""`orchestrator pods create` and `pods modify`: what a pod is to be, from the flags."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from orchestrator.cli.account.pod_options import PodId, at_pod, at_pods, say_status
from orchestrator.cli.account.templates import CONTAINER, Env, RegistryAuth, template_id
from orchestrator.cli.account.variables import EnvFile, unshown, variables
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.help.command_screens import common
from orchestrator.cli.output import streams
from orchestrator.cli.output.tables import plain
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.account import Account, Mounts, Pod  # at run time `--help` would pay for it

_COMMON: Final = (
    *("image", "args", "disk", "env", "port", "template"),
    *("gpu", "gpu_count", "cpu", "network_volume", "ssh", "wait"),
)
"""What most people say of a pod, by parameter."""

_HARDWARE: Final = "Hardware"
_ACCESS: Final = "Access"
_STORAGE: Final = "Storage"

Image = Annotated[str | None, typer.Option(metavar="IMAGE:TAG", help="Container image.", rich_help_panel=CONTAINER)]
Args = Annotated[
    str | None,
    typer.Option(
        "--args", metavar="TEXT", help="The container's command; empty: the image's own.", rich_help_panel=CONTAINER
    ),
]
Disk = Annotated[
    int | None,
    typer.Option(metavar="GB", help="Size of the container disk, wiped on restart.", rich_help_panel=CONTAINER),
]
Port = Annotated[
    list[str] | None,
    typer.Option(metavar="PORT/PROTOCOL", help="As in 8888/http or 22/tcp. Repeatable.", rich_help_panel=CONTAINER),
]
Template = Annotated[
    str | None,
    typer.Option(
        metavar="ID|NAME", help="The template that has whatever is not given here.", rich_help_panel=CONTAINER
    ),
]
GlobalNetworking = Annotated[
    bool | None,
    typer.Option(
        "--global-networking/--no-global-networking",
        help="A private address that the account's other pods reach.",
        rich_help_panel=_ACCESS,
    ),
]


def _hardware(kind: Any, metavar: str, means: str) -> Any:
    return Annotated[kind, typer.Option(metavar=metavar, help=means, rich_help_panel=_HARDWARE)]


def _volume(flag: str, metavar: str, means: str) -> Any:
    return Annotated[str | None, typer.Option(flag, metavar=metavar, help=means, rich_help_panel=_STORAGE)]


def _switch(flag: str, means: str) -> Any:
    return Annotated[bool | None, typer.Option(flag, metavar="", help=means, rich_help_panel=_ACCESS)]


_CONTAINER: Final[Mapping[str, Any]] = {
    "image": Image,
    "args": Args,
    "disk": Disk,
    "env": Env,
    "env_file": EnvFile,
    "port": Port,
    "registry_auth": RegistryAuth,
    "template": Template,
    "global_networking": GlobalNetworking,
}

_MADE: Final[Mapping[str, Any]] = {
    "gpu": _hardware(str | None, "TYPE", "GPU type, as in 'NVIDIA L4'."),
    "gpu_count": _hardware(int | None, "N", "GPUs of that type; 1 if not said."),
    "min_ram_per_gpu": _hardware(int | None, "GB", "Only machines with so much memory for each GPU."),
    "min_vcpu_per_gpu": _hardware(int | None, "N", "Only machines with so many vCPUs for each GPU."),
    "cuda": _hardware(list[str] | None, "VERSION", "Only machines with this CUDA version. Repeatable."),
    "min_cuda": _hardware(str | None, "VERSION", "Only machines with this CUDA version or a newer one."),
    "cpu": _hardware(str | None, "FLAVOR", "A pod without GPUs, as in cpu3c."),
    "vcpus": _hardware(int | None, "N", "vCPUs of that flavor; a power of two."),
    "cloud": _hardware(str | None, "SECURE|COMMUNITY", "Whose hardware; SECURE if not said."),
    "data_center": _hardware(list[str] | None, "ID", "Only there. Repeatable."),
    "volume": _volume("--volume", "GB:PATH", "Storage of the host's own, lost with the host."),
    "network_volume": _volume("--network-volume", "ID:PATH", "A network volume of the data center, and where."),
    "global_volume": _volume("--global-volume", "ID[:PATH]", "A global volume, and where."),
    "ssh": _switch("--ssh", "Put the account's SSH keys in. Without it nobody gets in by SSH, ever."),
    "jupyter": _switch("--jupyter", "Start Jupyter, with a password that the service makes up."),
}

_MODIFIED: Final[Mapping[str, Any]] = {
    "name": Annotated[str | None, typer.Option(metavar="NAME", help="Another name.", rich_help_panel=CONTAINER)],
    "lock": _switch("--lock/--unlock", "Whether stopping it is prevented; terminating is not."),
    "unset_env": Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Takes a variable out. Repeatable.", rich_help_panel=CONTAINER),
    ],
}
_WAIT: Final = Annotated[bool | None, typer.Option("--wait", metavar="", help="Follow the pod until it is RUNNING.")]


@at_pods(**_CONTAINER, **_MADE, wait=_WAIT, timeout=service_access.Timeout)
@common(*_COMMON)
async def create_pod(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pod's name.")],
    *,
    flags: Flags,
    account: "Account",
    as_json: bool,
) -> None:
    """Create a pod, which costs from then on. --wait: until it is RUNNING.

    Examples:
        orchestrator pods create trainer --image me/trainer:2 --gpu 'NVIDIA L4' --wait
        orchestrator pods create trainer --template trainer --env HF_TOKEN=env:HF_TOKEN
    """
    from orchestrator.account import CpuRequest, PodCreate

    wait_s = service_access.wait_s(bool(flags["wait"]), flags["timeout"])
    of_gpus = ("gpu_count", "min_ram_per_gpu", "min_vcpu_per_gpu", "cuda", "min_cuda")
    if flags["gpu"] is None and (idle := [flag for flag in of_gpus if flags[flag]]):
        raise UsageError(f"--{idle[0].replace('_', '-')} goes with --gpu TYPE, which is missing")
    if (flags["cpu"] is None) != (flags["vcpus"] is None):
        raise UsageError("--cpu FLAVOR and --vcpus N go together")
    cpu = None if flags["cpu"] is None else CpuRequest(id=flags["cpu"], vcpu_count=flags["vcpus"])
    spec = PodCreate(
        name=name,
        **_given(
            **await _container(flags, account),
            env=variables(flags["env"] or (), flags["env_file"]) or None,
            registry=flags["registry_auth"],
            gpu=_gpu(flags),
            cpu=cpu,
            cloud=flags["cloud"],
            data_center_ids=_texts(flags["data_center"]),
            mounts=_mounts(flags),
            start_ssh=flags["ssh"],
            start_jupyter=flags["jupyter"],
        ),
    )
    pod = await account.pods.create(spec, wait=wait_s, watch=say_status)
    _put(pod, as_json)
    streams.say(f"pod {pod.id}: created; it is {plain(pod.status)} now, and costs ${pod.cost:.3f} an hour")
    if "22/tcp" in pod.ports and not flags["ssh"]:
        streams.warn("22/tcp is open, and nobody gets in: SSH keys reach a pod only if it was created with --ssh")


@at_pods(**_MODIFIED, **_CONTAINER)
async def modify_pod(pod: PodId, *, flags: Flags, account: "Account", as_json: bool) -> None:
    """Change what is given and nothing else: name, lock, image, variables. Empty texts clear a value.

    Example: orchestrator pods modify trainer --name night-trainer --lock
    """
    from orchestrator.account import PodModify

    env = variables(flags["env"] or (), flags["env_file"])
    without = tuple(flags["unset_env"] or ())
    spec = PodModify(
        **_given(**await _container(flags, account), name=flags["name"], locked=flags["lock"], env=env or None)
    )
    if flags["registry_auth"] is not None:
        spec = msgspec.structs.replace(spec, registry=flags["registry_auth"] or None)
    if spec == PodModify() and not without:
        raise UsageError("nothing was named that should change")
    change = partial(account.pods.modify, spec=spec, keeping_env=bool(env or without), without_env=without)
    changed = await at_pod(account, pod, change)
    _put(changed, as_json)
    locked = "; it is locked against stopping" if changed.locked else ""
    streams.say(f"pod {changed.id} ({plain(changed.name)}): modified{locked}")


async def _container(flags: Flags, account: "Account") -> dict[str, object]:
    """What both take in the same way."""
    return {
        "image": flags["image"],
        "template_id": None if flags["template"] is None else await template_id(flags["template"], account),
        "args": flags["args"],
        "disk": flags["disk"],
        "ports": _texts(flags["port"]),
        "global_networking": flags["global_networking"],
    }


def _given(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _texts(given: list[str] | None) -> tuple[str, ...] | None:
    """What was given to a flag that can be repeated. A single empty text is none at all."""
    return tuple(filter(None, given)) if given else None


def _gpu(flags: Flags) -> object:
    from orchestrator.account import GpuRequest

    if flags["gpu"] is None:
        return None
    return GpuRequest(
        id=flags["gpu"],
        **_given(
            count=flags["gpu_count"],
            allowed_cuda_versions=_texts(flags["cuda"]),
            min_cuda_version=flags["min_cuda"],
            min_ram_per_gpu=flags["min_ram_per_gpu"],
            min_vcpu_count_per_gpu=flags["min_vcpu_per_gpu"],
        ),
    )


def _mounts(flags: Flags) -> "Mounts | None":
    from orchestrator.account import GlobalMount, Mounts, NetworkMount, PersistentMount

    persistent, network, global_ = flags["volume"], flags["network_volume"], flags["global_volume"]
    if persistent is None and network is None and global_ is None:
        return None
    kinds: dict[str, Any] = {}
    if persistent is not None:
        size, path = _place(persistent, "--volume", "GB:PATH")
        if not size.isdecimal():
            raise UsageError(f"--volume {persistent:.80}: write it as GB:PATH, as in 20:/data")
        kinds["persistent"] = PersistentMount(size=int(size), path=path)
    if network is not None:
        volume, path = _place(network, "--network-volume", "ID:PATH")
        kinds["network"] = (NetworkMount(volume_id=volume, path=path),)
    if global_ is not None:
        volume, _, path = global_.partition(":")
        kinds["global_"] = (GlobalMount(volume_id=volume, path=path or None),)
    return Mounts(**kinds)


def _place(text: str, flag: str, form: str) -> tuple[str, str]:
    what, colon, path = text.partition(":")
    if not (what and colon and path):
        raise UsageError(f"{flag} {text:.80}: write it as {form}")
    return what, path


def _put(pod: "Pod", as_json: bool) -> None:
    """The record on standard output, but for the values of variables, which somebody may just have typed."""
    if as_json:
        record = msgspec.json.decode(pod.raw, type=dict[str, Any])
        streams.put_json({**record, "env": unshown(pod.env)})
