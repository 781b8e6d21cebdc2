"""The bodies of the pod operations: what they may hold, and the rules that no shape can express.

The contract's distinction is kept: 422 where a body does not have the form, 400 where it contradicts a rule. Not shown
there, and chosen here: a `vcpuCount` that is no power of two, and a port or an `args` object of another form, are 422.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Annotated, TypeVar

import msgspec

from orchestrator.emulator.account.pod_records import OMITTED, Omitted, PodVerb
from orchestrator.emulator.contract.answers import ProblemRefusal, invalid_problem, malformed_problem
from orchestrator.emulator.contract.json_shape import differences, one_of

PORT_MAX = 65_535

T = TypeVar("T")

Name = Annotated[str, msgspec.Meta(min_length=1)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Single = msgspec.Meta(max_length=1)


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A global volume, which may leave the path to the service."""

    volume_id: str
    path: str | Omitted = OMITTED


class NetworkVolume(Volume, frozen=True, kw_only=True, rename="camel"):
    """One that has to say where it goes."""

    path: str


class Persistent(msgspec.Struct, frozen=True, kw_only=True):
    """Storage of the host, `size` in GB."""

    size: Annotated[int, msgspec.Meta(ge=10)]
    path: str


class MountsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Storage by its kind; a kind that is left out and an empty one are different things in a PATCH."""

    persistent: Persistent | Omitted = OMITTED
    network: Annotated[tuple[NetworkVolume, ...], Single] | Omitted = OMITTED
    global_: Annotated[tuple[Volume, ...], Single] | Omitted = msgspec.field(default=OMITTED, name="global")


class PodGpuBody(msgspec.Struct, frozen=True, kw_only=True):
    """How many GPUs of which type."""

    id: str
    count: int


class PodGpuCreateBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The same as it was asked for. The schema has a default for the count; the service has not (as observed)."""

    id: str
    count: AtLeastOne | Omitted = OMITTED
    allowed_cuda_versions: tuple[str, ...] = ()
    min_cuda_version: str = ""
    min_ram_per_gpu: AtLeastOne = 1
    """GB; what the host must have for each GPU, and so the next."""
    min_vcpu_count_per_gpu: AtLeastOne = 1


class PodCpuBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many vCPUs of which flavor."""

    id: Name
    vcpu_count: Annotated[int, msgspec.Meta(ge=2)]


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a container has, whether it is a pod's, a template's or an endpoint's."""

    image: str | Omitted = OMITTED
    args: str | Omitted = OMITTED
    cmd: tuple[str, ...] | Omitted = OMITTED
    entrypoint: tuple[str, ...] | Omitted = OMITTED
    disk: AtLeastOne | Omitted = OMITTED
    env: Mapping[str, str] | Omitted = OMITTED
    ports: tuple[str, ...] | Omitted = OMITTED
    registry: str | Omitted | None = OMITTED


class PodContainer(Container, frozen=True, kw_only=True, rename="camel"):
    """What creation and modification have in common."""

    template_id: str | Omitted = OMITTED
    mounts: MountsBody | Omitted = OMITTED
    global_networking: bool | Omitted = OMITTED


class Creation(PodContainer, frozen=True, kw_only=True, rename="camel"):
    """The body of `POST /v2/pods`."""

    name: Name
    gpu: PodGpuCreateBody | Omitted = OMITTED
    cpu: PodCpuBody | Omitted = OMITTED
    cloud: Annotated[str, one_of("SECURE", "COMMUNITY")] = "SECURE"
    data_center_ids: tuple[str, ...] = ()
    start_ssh: bool = True
    start_jupyter: bool = True
    """Without effect, as the one before."""


class Modification(PodContainer, frozen=True, kw_only=True, rename="camel"):
    """The body of `PATCH /v2/pods/{id}`."""

    name: Name | Omitted = OMITTED
    locked: bool | Omitted = OMITTED


class _ActionBody(msgspec.Struct, frozen=True):
    action: PodVerb


class CommandBody(msgspec.Struct, frozen=True, kw_only=True):
    """A container's command, taken apart; empty is the image's own."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()

    def stored(self) -> str:
        """The form in which it stands in `args` when it was given as arrays."""
        members = {"entrypoint": self.entrypoint, "cmd": self.cmd}
        given = {name: member for name, member in members.items() if member}
        return msgspec.json.encode(given).decode() if given else ""


def parse_action(body: bytes) -> PodVerb:
    """The action that is asked for. Raises Problem (400, 422; a bad action is 422, as observed)."""
    return checked(body, _ActionBody).action


def parse_creation(body: bytes, *, strict: bool = False) -> Creation:
    """The pod that is asked for. Raises Problem (400, 422). With `strict` CUDA versions exclude a least one."""
    creation = checked(body, Creation, _of_creation)
    if isinstance(creation.gpu, Omitted) == isinstance(creation.cpu, Omitted):
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "exactly one of 'gpu' and 'cpu' must be given")
    gpu = creation.gpu
    if strict and not isinstance(gpu, Omitted) and gpu.allowed_cuda_versions and gpu.min_cuda_version:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "allowedCudaVersions and minCudaVersion exclude each other")
    check_mounts(creation.mounts, on_cpu=not isinstance(creation.cpu, Omitted))
    return creation


def parse_modification(body: bytes) -> Modification:
    """The changes that are asked for. Raises Problem (400, 422)."""
    modification = checked(body, Modification)
    check_mounts(modification.mounts, on_cpu=False)
    return modification


def checked(body: bytes, kind: type[T], more: Callable[[T], Iterable[str]] = lambda _: ()) -> T:
    """What the body says, where it has the form of a `kind`, its container's fields included, and `more` finds nothing
    wrong. Raises Problem.
    """
    try:
        value: object = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise malformed_problem() from None
    if not (errors := list(differences(value, kind))):
        said = msgspec.convert(value, kind)
        errors = [*(_of_container(said) if isinstance(said, Container) else ()), *more(said)]
        if not errors:
            return said
    raise invalid_problem(errors)


def _of_container(container: Container) -> Iterable[str]:
    """What a shape cannot say of the members that all containers share."""
    for index, port in enumerate(container.ports or ()):
        number, _, protocol = port.partition("/")
        if not (number.isdecimal() and 0 < int(number) <= PORT_MAX and protocol.isalpha()):
            yield f"$.ports[{index}]: does not match 'port/protocol'"
    if not isinstance(container.args, Omitted):
        try:
            read_args(container.args)
        except ValueError as error:
            yield f"$.args: {error}"


def _of_creation(creation: Creation) -> Iterable[str]:
    if isinstance(creation.image, Omitted) and isinstance(creation.template_id, Omitted):
        yield "$: missing property 'image'"
    vcpus = 2 if isinstance(creation.cpu, Omitted) else creation.cpu.vcpu_count
    if vcpus.bit_count() != 1:
        yield f"$.cpu.vcpuCount: got {vcpus}, want a power of two"


def read_args(args: str) -> CommandBody:
    """The command in `args`: an object of two arrays, or else a shell string, which is CMD (contract, rule 1).

    Raises ValueError for an object of another form, and for quotes that do not close.
    """
    try:
        value: object = msgspec.json.decode(args)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return CommandBody(cmd=tuple(shlex.split(args)))
    if errors := list(differences(value, CommandBody)):
        raise ValueError(errors[0])
    return msgspec.convert(value, CommandBody)


def command_after(container: Container, stored: str = "") -> tuple[str, CommandBody]:
    """The `args` to store and the command they mean, after `container` changed what was `stored`.

    Raises Problem 400 where `args` and the arrays describe different commands (contract, rule 3): the array that is
    given must be the one that `args` means.
    """
    if isinstance(container.args, Omitted):
        before = read_args(stored)
        command = CommandBody(
            entrypoint=before.entrypoint if isinstance(container.entrypoint, Omitted) else container.entrypoint,
            cmd=before.cmd if isinstance(container.cmd, Omitted) else container.cmd,
        )
        return (stored if command == before else command.stored()), command
    command = read_args(container.args)
    for given, meant in ((container.entrypoint, command.entrypoint), (container.cmd, command.cmd)):
        if not isinstance(given, Omitted) and given != meant:
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "args and entrypoint or cmd describe different commands")
    return container.args, command


def check_mounts(mounts: MountsBody | Omitted, *, on_cpu: bool) -> None:
    """Raises Problem 400 for kinds of storage that exclude each other or the pod (contract, Mounts rules 1 and 2)."""
    if isinstance(mounts, Omitted) or isinstance(mounts.persistent, Omitted):
        return
    if mounts.network or mounts.global_:
        raise ProblemRefusal(
            HTTPStatus.BAD_REQUEST, "mounts.persistent is mutually exclusive with network and global mounts"
        )
    if on_cpu:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "mounts.persistent is not allowed on CPU pods")


def change_mounts(present: MountsBody, wanted: MountsBody | Omitted) -> MountsBody:
    """The mounts of a pod after a modification. Raises Problem 400 for all but a path (contract, Mounts rule 4)."""
    if isinstance(wanted, Omitted):
        return present
    changes: dict[str, object] = {}
    for kind in ("persistent", "network", "global_"):
        new, old = getattr(wanted, kind), getattr(present, kind)
        if isinstance(new, Omitted):
            continue
        if new == ():
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, f"mounts.{kind.rstrip('_')} cannot be emptied")
        if isinstance(old, Omitted) or old == ():
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "the kind of a mount is fixed when the pod is created")
        if _fixed(new) != _fixed(old):
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "only the path of a mount can change")
        changes[kind] = new if kind == "persistent" or new[0].path is not OMITTED else old
    return msgspec.structs.replace(present, **changes)


def _fixed(mount: Persistent | tuple[Volume, ...]) -> int | str:
    """What identifies a mount and stays."""
    return mount.size if isinstance(mount, Persistent) else mount[0].volume_id


def with_paths(mounts: MountsBody | Omitted) -> MountsBody:
    """The mounts of a new pod: the service chooses the path of a global volume that names none."""
    if isinstance(mounts, Omitted):
        return MountsBody()
    if not mounts.global_ or mounts.global_[0].path is not OMITTED:
        return mounts
    volume = msgspec.structs.replace(mounts.global_[0], path="/global")
    return msgspec.structs.replace(mounts, global_=(volume,))
