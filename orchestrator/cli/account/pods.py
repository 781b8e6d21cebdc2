"""`orchestrator pods`: list, show, start, stop, restart, terminate; `pod_specs` has those that say what a pod is,
`logs` what it has printed.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from orchestrator.cli.account.logs import add_logs
from orchestrator.cli.account.pod_options import PodId, Verbose, at_pod, say_status, with_limits
from orchestrator.cli.account.pod_specs import add_create_and_modify
from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.service_access import Command, Connect, Interface, Noun
from orchestrator.cli.output import streams
from orchestrator.cli.output.tables import plain
from orchestrator.settings import command_settings, connection_settings

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it

ClusterPods = Annotated[
    bool, typer.Option("--include-cluster-pods", metavar="", help="The members of clusters as well.")
]
Wait = Annotated[bool, typer.Option("--wait", metavar="", help="Follow the pod until it is where the action leads.")]

_ACTIONS: Final = {
    "start": "Boot a stopped pod again. --wait: until it is RUNNING.",
    "stop": "Stop a pod: its compute is released, its disk is kept. --wait: until it has EXITED.",
    "restart": "Restart a running pod's container, which wipes its disk. --wait: until it is RUNNING.",
}


def add_pods(commands: typer.Typer, connect: Connect) -> None:
    """Registers `pods` and its commands."""
    group = typer.Typer(no_args_is_help=True, help="Create, change, start, stop and watch pods, and read their logs.")
    commands.add_typer(group, name="pods")
    shared = options.flags_of(connection_settings.BASE_URL, connection_settings.TEAM, command_settings.CONFIG)
    pods = Noun(group, Interface.PODS, connect, **shared, json=service_access.Json, verbose=Verbose)

    @pods.command("list")
    def list_(
        include_cluster_pods: ClusterPods = False, limit: service_access.AtMost = None, *, flags: Flags
    ) -> Command:
        """List the account's pods with their status, hardware and cost.

        Example: orchestrator pods list
        """
        return partial(with_limits, flags, partial(_list, include_cluster_pods, limit))

    @pods.command()
    def show(pod_id: PodId, *, flags: Flags) -> Command:
        """Show one pod. The values of its environment variables are in --json only.

        Example: orchestrator pods show trainer
        """
        return partial(with_limits, flags, partial(_show, pod_id))

    add_logs(pods)
    add_create_and_modify(pods)
    for action, description in _ACTIONS.items():
        _add_action(pods, action, description)

    @pods.command()
    def terminate(
        pod_id: PodId,
        yes: service_access.Yes = False,
        wait: Wait = False,
        timeout: service_access.Timeout = None,
        *,
        flags: Flags,
    ) -> Command:
        """Delete a pod and its disk for good. Asks first. --wait: until the service no longer knows it.

        Example: orchestrator pods terminate trainer
        """
        return partial(with_limits, flags, partial(_terminate, pod_id, yes, service_access.wait_s(wait, timeout)))


def _add_action(pods: Noun, action: str, description: str) -> None:
    @pods.command(action, help_=f"{description}\n\nExample: orchestrator pods {action} trainer --wait")
    def act(pod_id: PodId, wait: Wait = False, timeout: service_access.Timeout = None, *, flags: Flags) -> Command:
        return partial(with_limits, flags, partial(_act, action, pod_id, service_access.wait_s(wait, timeout)))


async def _list(include_cluster_pods: bool, limit: int | None, account: "Account", as_json: bool) -> None:
    from orchestrator.cli.account.pod_tables import put_pods

    pods = await account.pods.list(include_cluster_pods=include_cluster_pods, limit=limit)
    if as_json:
        streams.put_json([msgspec.Raw(pod.raw) for pod in pods])
    elif pods:
        put_pods(pods)
    else:
        streams.say("the account has no pods")


async def _show(pod_id: str, account: "Account", as_json: bool) -> None:
    from orchestrator.cli.account.pod_tables import put_pod

    pod = await at_pod(account, pod_id, account.pods.show)
    if as_json:
        streams.put_json(msgspec.Raw(pod.raw))
    else:
        put_pod(pod)


async def _act(action: str, pod_id: str, wait_s: float | None, account: "Account", as_json: bool) -> None:
    acts = {"start": account.pods.start, "stop": account.pods.stop, "restart": account.pods.restart}
    pod = await at_pod(account, pod_id, partial(acts[action], wait=wait_s, watch=say_status))
    if as_json:
        streams.put_json(msgspec.Raw(pod.raw))
    streams.say(f"pod {pod.id}: {action} applied; it is {plain(pod.status)} now")


async def _terminate(pod: str, yes: bool, wait_s: float | None, account: "Account", as_json: bool) -> None:
    async def terminate(pod_id: str) -> str:
        if not yes:
            seen = await account.pods.show(pod_id)
            said = f"terminate pod {pod_id} ({seen.name!r}, {seen.status}) and delete its disk for good?"
            service_access.confirm(said, yes=False)
        await account.pods.terminate(pod_id, wait=wait_s, watch=say_status)
        return pod_id

    pod_id = await at_pod(account, pod, terminate)
    if as_json:
        streams.put_json({"id": pod_id, "status": "TERMINATED"})
    streams.say(f"pod {pod_id}: terminated")
