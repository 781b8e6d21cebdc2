"""Pods and rate limits as people read them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.text import Text

from orchestrator.account.pods.pod_record import Pod, PodStatus
from orchestrator.cli.output import tables, theme
from orchestrator.cli.output.tables import plain
from orchestrator.core.limits.ratelimit_headers import Window
from orchestrator.core.text.figures import lasting
from orchestrator.core.text.wording import counted
from orchestrator.settings import command_flags
from orchestrator.units import SECOND_US

_STYLES: Final[Mapping[str, str]] = {
    PodStatus.RUNNING: theme.GOOD,
    PodStatus.ERROR: theme.BAD,
    PodStatus.EXITED: "dim",
}


def put_pods(pods: Sequence[Pod]) -> None:
    """The pods as a table, and what they cost together."""
    table = tables.columns(("id", "name", "status", "hardware", "image"), ())
    table.add_column("$/h", justify="right", no_wrap=True)
    for pod in pods:
        table.add_row(
            Text(plain(pod.id), style="bold"),
            Text(plain(pod.name)),
            Text(plain(pod.status), style=_STYLES.get(pod.status, "")),
            Text(plain(_hardware(pod))),
            Text(plain(pod.image)),
            f"{pod.cost:.3f}",
        )
    total = sum(pod.cost for pod in pods)
    tables.put_parts(table, Text(f"\n{counted(len(pods), 'pod')}, ${total:.3f} an hour"))


def put_pod(pod: Pod) -> None:
    """One pod, a line for each thing that there is to say."""
    tables.put_parts(tables.lines((name, plain(value)) for name, value in pod_lines(pod)))


def window_line(window: Window, now: int) -> str:
    """One window of the rate limit as last told, at `now`."""
    parts = []
    if window.remaining is not None:
        quota = "" if window.quota is None else f" of {window.quota:,}"
        noun = "request" if window.remaining == 1 and not quota else "requests"
        parts.append(f"{window.remaining:,}{quota} {noun} left")
    elif window.quota is not None:
        parts.append(counted(window.quota, "request"))
    if window.window_s is not None:
        parts.append(f"per {lasting(window.window_s)}")
    if window.reset_at is not None:
        parts.append(f"full again in {lasting(max(0, window.reset_at - now) / SECOND_US)}")
    return f"rate limit, {plain(window.name)}: {', '.join(parts) or 'nothing told'}"


def pod_lines(pod: Pod) -> Iterable[tuple[str, str]]:
    """What there is to say about a pod: names and values. The values of its variables are not among them."""
    yield "id", pod.id
    yield "name", pod.name
    yield "status", pod.status + (" (locked)" if pod.locked else "")
    if pod.allowed is not None:
        yield "actions", ", ".join(pod.allowed) or "none"
    yield "cost", f"${pod.cost:.3f} an hour"
    yield "image", pod.image
    yield from _command(pod)
    yield "hardware", _hardware(pod)
    yield from _storage(pod)
    yield from _place(pod)
    if pod.ports:
        yield "ports", ", ".join(pod.ports)
    if pod.env:
        yield "env", f"{', '.join(sorted(pod.env))} (values in {command_flags.JSON})"
    yield from _ssh(pod)
    yield from _runtime(pod)
    yield "created", pod.created_at or "unknown"
    yield "started", pod.started_at or "never"


def _command(pod: Pod) -> Iterable[tuple[str, str]]:
    if pod.entrypoint:
        yield "entrypoint", " ".join(pod.entrypoint)
    if pod.cmd:
        yield "cmd", " ".join(pod.cmd)
    elif pod.args:
        yield "args", pod.args


def _hardware(pod: Pod) -> str:
    if pod.gpu is not None:
        return f"{pod.gpu.count} x {pod.gpu.id}"
    if pod.cpu is not None:
        return f"{pod.cpu.vcpu_count} vCPU {pod.cpu.id}"
    return "unknown"


def _storage(pod: Pod) -> Iterable[tuple[str, str]]:
    if pod.disk is not None:
        yield "disk", f"{pod.disk} GB, wiped on restart"
    if mount := pod.mounts.persistent:
        yield "mount", f"{mount.size} GB of the host at {mount.path}"
    for network in pod.mounts.network or ():
        yield "mount", f"network volume {network.volume_id} at {network.path}"
    for volume in pod.mounts.global_ or ():
        yield "mount", f"global volume {volume.volume_id} at {volume.path or 'a path of its own'}"


def _place(pod: Pod) -> Iterable[tuple[str, str]]:
    yield "cloud", ", ".join(filter(None, (pod.cloud, pod.data_center_id))) or "unknown"
    if pod.cluster is not None:
        rank = "" if pod.cluster.rank is None else f", rank {pod.cluster.rank}"
        yield "cluster", f"{pod.cluster.id}{rank}"
    if pod.global_networking.enabled:
        yield "network", " ".join(filter(None, (pod.global_networking.ip, pod.global_networking.internal_dns)))
    if pod.template:
        yield "template", pod.template


def _ssh(pod: Pod) -> Iterable[tuple[str, str]]:
    """Only pods that were created with SSH let anybody in, whatever stands here (contract, PodSsh)."""
    if pod.ssh.proxy:
        yield "ssh", f"{pod.ssh.proxy.command} (shell only)"
    if pod.ssh.direct:
        yield "ssh", pod.ssh.direct.command
    if pod.ssh.proxy or pod.ssh.direct:
        yield "", "works only if the pod was created with --ssh, and with the account's registered keys"


def _runtime(pod: Pod) -> Iterable[tuple[str, str]]:
    if pod.runtime is None:
        return
    use = [f"CPU {pod.runtime.cpu.util} %", f"memory {pod.runtime.memory.util} %"]
    use += [f"GPU {gpu.util} % (memory {gpu.memory_util} %)" for gpu in pod.runtime.gpus]
    yield "running", f"for {lasting(pod.runtime.uptime)}: {', '.join(use)}"
    for port in pod.runtime.ports:
        if port.public is not None:
            yield "reached at", f"{port.private}/{port.type} on {port.ip or 'the service'}:{port.public}"
