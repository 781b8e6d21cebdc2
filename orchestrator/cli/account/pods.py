"""`orchestrator pods`: list, show, start, stop, restart, terminate; `pod_specs` has those that say what a pod is,
`logs` what it has printed.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from orchestrator.cli.account.logs import pod_logs
from orchestrator.cli.account.pod_options import PodId, at_pod, at_pods, say_status
from orchestrator.cli.account.pod_specs import create_pod, modify_pod
from orchestrator.cli.framework import service_access
from orchestrator.cli.output import streams
from orchestrator.cli.output.tables import plain

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


commands = typer.Typer(no_args_is_help=True, help="Create, change, start, stop and watch pods, and read their logs.")


@commands.command("list")
@at_pods()
async def list_pods(
    include_cluster_pods: ClusterPods = False,
    limit: service_access.AtMost = None,
    *,
    account: "Account",
    as_json: bool,
) -> None:
    """List the account's pods with their status, hardware and cost.

    Example: orchestrator pods list
    """
    from orchestrator.cli.account.pod_tables import put_pods

    pods = await account.pods.list(include_cluster_pods=include_cluster_pods, limit=limit)
    if as_json:
        streams.put_json([msgspec.Raw(pod.raw) for pod in pods])
    elif pods:
        put_pods(pods)
    else:
        streams.say("the account has no pods")


@commands.command("show")
@at_pods()
async def show_pod(pod_id: PodId, *, account: "Account", as_json: bool) -> None:
    """Show one pod. The values of its environment variables are in --json only.

    Example: orchestrator pods show trainer
    """
    from orchestrator.cli.account.pod_tables import put_pod

    pod = await at_pod(account, pod_id, account.pods.show)
    if as_json:
        streams.put_json(msgspec.Raw(pod.raw))
    else:
        put_pod(pod)


commands.command("logs")(pod_logs)
commands.command("create")(create_pod)
commands.command("modify")(modify_pod)


def _action(action: str) -> Callable[..., None]:
    @at_pods()
    async def act(
        pod_id: PodId, wait: Wait = False, timeout: service_access.Timeout = None, *, account: "Account", as_json: bool
    ) -> None:
        wait_s = service_access.wait_s(wait, timeout)
        acts = {"start": account.pods.start, "stop": account.pods.stop, "restart": account.pods.restart}
        pod = await at_pod(account, pod_id, partial(acts[action], wait=wait_s, watch=say_status))
        if as_json:
            streams.put_json(msgspec.Raw(pod.raw))
        streams.say(f"pod {pod.id}: {action} applied; it is {plain(pod.status)} now")

    return act


for _verb, _description in _ACTIONS.items():
    commands.command(_verb, help=f"{_description}\n\nExample: orchestrator pods {_verb} trainer --wait")(_action(_verb))


@commands.command("terminate")
@at_pods()
async def terminate_pod(
    pod_id: PodId,
    yes: service_access.Yes = False,
    wait: Wait = False,
    timeout: service_access.Timeout = None,
    *,
    account: "Account",
    as_json: bool,
) -> None:
    """Delete a pod and its disk for good. Asks first. --wait: until the service no longer knows it.

    Example: orchestrator pods terminate trainer
    """
    wait_s = service_access.wait_s(wait, timeout)

    async def terminate(its_id: str) -> str:
        if not yes:
            found = await account.pods.show(its_id)
            said = f"terminate pod {its_id} ({found.name!r}, {found.status}) and delete its disk for good?"
            service_access.confirm(said, yes=False)
        await account.pods.terminate(its_id, wait=wait_s, watch=say_status)
        return its_id

    gone = await at_pod(account, pod_id, terminate)
    if as_json:
        streams.put_json({"id": gone, "status": "TERMINATED"})
    streams.say(f"pod {gone}: terminated")
