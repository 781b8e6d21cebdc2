"""The pods of an account (contract of pods): `service.pods`.

Whatever the contract says a service will refuse is refused here, before anything is sent: `UsageError` for a record
that breaks a rule, `ActionRefusedError` for an action that the pod's record does not allow.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, TypeVar

import anyio
import msgspec

from orchestrator.account.pods.pod_record import Pod, PodAction, PodStatus, decode_pod
from orchestrator.account.pods.specs import PodCreate, PodModify, create_problems, modify_problems
from orchestrator.account.transport.logs import TAIL_DEFAULT, LogQuery, LogReading, Tell
from orchestrator.account.transport.rest_client import ProblemError, Rest
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.limits.ratelimit_headers import Window
from orchestrator.errors import NotSent, OrchestratorError, Unanswered, UsageError

LOOK_S_MIN: Final = 2.0
LOOK_S_MAX: Final = 10.0
"""Between two looks at a pod that is followed; growing, since the minute window must last for others too."""

_GOALS: Final = {
    PodAction.START: PodStatus.RUNNING,
    PodAction.STOP: PodStatus.EXITED,
    PodAction.RESTART: PodStatus.RUNNING,
    PodAction.TERMINATE: PodStatus.TERMINATED,
}
"""Where each action leads (contract, States and transitions)."""

_RESTING: Final = (PodStatus.EXITED, PodStatus.ERROR, PodStatus.TERMINATED)
"""What a pod does not leave by itself."""

PAGE_MAX: Final = 1000
"""The most that a page of a list may be asked to hold (as published)."""

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404


T = TypeVar("T")

Watch = Callable[[Pod], None]


def _ignore(_: Pod) -> None:
    pass


class ActionRefusedError(UsageError):
    """The action is not valid for the pod as it is; nothing was sent. `allowed` lists the actions that are."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        super().__init__(message)


class WaitError(OrchestratorError):
    """The action was applied, and the pod did not reach its state. `pod` is its last record; None: it is gone."""

    exit_code = 3

    def __init__(self, message: str, pod: Pod | None) -> None:
        self.pod = pod
        super().__init__(message)


class Pods:
    """Lists, shows, starts, stops, restarts and terminates pods; creates, modifies and deletes them.

    Calls raise `ProblemError` for what the service refuses, `AnswerError` for an answer that cannot be read, `NotSent`
    and `Unanswered`; and `UsageError` for an id that is none.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def __repr__(self) -> str:
        return f"Pods({self._rest!r})"

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of the user's rate limit as last told; empty for exempt callers."""
        return self._rest.windows

    async def list(self, *, include_cluster_pods: bool = False, limit: int | None = None) -> tuple[Pod, ...]:
        """All pods of the account, at most `limit`. Members of clusters only if asked for (contract, Pod).

        A service that answers in pages is asked for each of them.
        """
        query = {"includeClusterPods": "true"} if include_cluster_pods else {}
        return tuple(await self._rest.all("pods list", "/v2/pods", "pods", decode_pod, limit=limit, query=query))

    async def show(self, pod_id: str) -> Pod:
        """One pod."""
        return await self._rest.get(f"pods show {pod_id:.80}", _path(pod_id), decode_pod)

    async def create(self, spec: PodCreate, *, wait: float | None = None, watch: Watch = _ignore) -> Pod:
        """Creates a pod, which is PROVISIONING then; with `wait`, returns once it is RUNNING (see `start`).

        Raises `UsageError` with every rule that `spec` breaks.
        """
        _refuse("the pod cannot be created", create_problems(spec))
        pod = await self._rest.post(f"pods create {spec.name:.80}", "/v2/pods", spec, decode_pod)
        return await self._awaited(pod, pod, PodAction.START, wait, watch)

    async def modify(
        self, pod_id: str, spec: PodModify, *, keeping_env: bool = False, without_env: Collection[str] = ()
    ) -> Pod:
        """Changes what `spec` names. Raises `UsageError` with every rule that it breaks for the pod as it is.

        The service knows no single variable: `spec.env` takes the place of all. With `keeping_env` those that it does
        not name stay as they are, but for `without_env`.
        """
        pod = await self.show(pod_id)
        problems = modify_problems(spec, pod)
        if keeping_env:
            missing = sorted(set(without_env) - pod.env.keys())
            problems += tuple(f"it has no variable {name}" for name in missing)
            kept = {name: value for name, value in pod.env.items() if name not in without_env}
            spec = msgspec.structs.replace(spec, env={**kept, **(spec.env or {})})
        _refuse(f"pod {pod_id} cannot be modified", problems)
        return await self._rest.patch(f"pods modify {pod_id}", _path(pod_id), spec, decode_pod)

    async def delete(self, pod_id: str) -> None:
        """Deletes a pod for good; the same as `terminate`."""
        await self._rest.delete(f"pods delete {pod_id:.80}", _path(pod_id))

    async def logs(
        self,
        pod_id: str,
        tell: Tell,
        *,
        tail: int = TAIL_DEFAULT,
        since: datetime | None = None,
        source: str | None = None,
        follow: bool = False,
    ) -> None:
        """Has `tell` get the pod's last `tail` lines (as published; not in the contract), each once.

        With `follow` also those that it prints from now on, until the pod rests or is gone; else it returns with the
        last of `tail` lines, or once none has come for `QUIET_S`, for the service does not say which is the last.
        `since` (with a zone) leaves out older lines, `source` those of another one (`container`, `system`).
        """
        query = LogQuery(tail=tail, since=since, source=source, follow=follow)

        async def is_over() -> bool:
            return (await self.show(pod_id)).status in _RESTING

        reading = LogReading(self._rest, f"pods logs {pod_id:.80}", f"{_path(pod_id)}/logs", query, tell)
        await reading.read(is_over)

    async def start(self, pod_id: str, *, wait: float | None = None, watch: Watch = _ignore) -> Pod:
        """Boots a stopped pod again. Returns its record; with `wait`, once it is RUNNING.

        `wait` is how many seconds that may take (None: return at once); then `WaitError`. On the way there `watch` is
        told the pod, and again whenever its status has changed. So for all actions.
        Raises `ActionRefusedError` where the pod's record does not allow the action.
        """
        return await self._act(pod_id, PodAction.START, wait, watch)

    async def stop(self, pod_id: str, *, wait: float | None = None, watch: Watch = _ignore) -> Pod:
        """Stops a pod and releases its compute; its disk is kept. With `wait`, returns once it is EXITED."""
        return await self._act(pod_id, PodAction.STOP, wait, watch)

    async def restart(self, pod_id: str, *, wait: float | None = None, watch: Watch = _ignore) -> Pod:
        """Restarts a running pod's container, which wipes its disk. With `wait`, returns once it is RUNNING."""
        return await self._act(pod_id, PodAction.RESTART, wait, watch)

    async def terminate(self, pod_id: str, *, wait: float | None = None, watch: Watch = _ignore) -> None:
        """Deletes a pod for good. With `wait`, returns once the service no longer knows it."""
        before = await self._allowed(pod_id, PodAction.TERMINATE)
        await self._send(before, PodAction.TERMINATE, bytes)
        if wait is not None:
            await self._follow(before, None, PodAction.TERMINATE, wait, watch)

    async def _act(self, pod_id: str, action: PodAction, wait: float | None, watch: Watch) -> Pod:
        before = await self._allowed(pod_id, action)
        return await self._awaited(before, await self._send(before, action, decode_pod), action, wait, watch)

    async def _awaited(self, before: Pod, pod: Pod, action: PodAction, wait: float | None, watch: Watch) -> Pod:
        """`pod`, once it is where `action` leads, if that is waited for. Raises `WaitError`."""
        if wait is None or _reached(pod, action):
            return pod
        followed = await self._follow(before, pod, action, wait, watch)
        assert followed is not None, "only a terminated pod is gone and where it should be"
        return followed

    async def _allowed(self, pod_id: str, action: PodAction) -> Pod:
        """The pod before the action. Raises `ActionRefusedError`."""
        pod = await self.show(pod_id)
        allowed = pod.allowed
        if allowed is not None and action not in allowed:
            choice = ", ".join(allowed) or "none"
            raise ActionRefusedError(
                f"pod {pod_id} is {pod.status}, which does not allow {action}; it allows: {choice}; nothing was sent",
                allowed,
            )
        if pod.locked and action is PodAction.STOP:
            raise ActionRefusedError(f"pod {pod_id} is locked against {action}; unlock it first", allowed or ())
        if pod.cluster is not None and action is PodAction.TERMINATE:
            raise ActionRefusedError(
                f"pod {pod_id} belongs to cluster {pod.cluster.id} and cannot be deleted on its own; nothing was sent",
                allowed or (),
            )
        return pod

    async def _send(self, pod: Pod, action: PodAction, read: Callable[[bytes], T]) -> T:
        try:
            return await self._rest.post(f"pods {action} {pod.id}", f"{_path(pod.id)}/action", {"action": action}, read)
        except ProblemError as error:
            if error.status != _CONFLICT:
                raise
            conflict = _explained(error, pod)
        raise conflict

    async def _follow(
        self, before: Pod, after: Pod | None, action: PodAction, wait_s: float, watch: Watch
    ) -> Pod | None:
        """The pod once it is where `action` leads; None: it is gone, as it should be. Raises `WaitError`."""
        last = after or before
        moved = last.status != before.status
        look_s = LOOK_S_MIN
        watch(last)
        with anyio.move_on_after(wait_s):
            while True:
                pod = await self._look(last)
                if pod is None and action is not PodAction.TERMINATE:
                    raise WaitError(f"pod {last.id} is gone; somebody terminated it", None)
                if pod is None or _reached(pod, action):
                    return pod
                if pod.status != last.status:
                    watch(pod)
                moved = moved or pod.status != before.status
                if moved and pod.status in _RESTING and action is not PodAction.TERMINATE:
                    raise WaitError(f"pod {pod.id} is {pod.status} now; after {action} it should be elsewhere", pod)
                last = pod
                await anyio.sleep(look_s)
                look_s = min(2 * look_s, LOOK_S_MAX)
        raise WaitError(f"pod {last.id} is still {last.status} {wait_s:g} s after {action}; it may get there yet", last)

    async def _look(self, last: Pod) -> Pod | None:
        """The pod now, None if it is gone, and `last` if nothing was learned: the next look may learn it."""
        try:
            return await self.show(last.id)
        except ProblemError as error:
            if error.status == _NOT_FOUND:
                return None
            if error.passing:
                return last
            raise
        except (NotSent, Unanswered, AnswerError):
            return last


def _path(pod_id: str) -> str:
    return f"/v2/pods/{checked_id(pod_id, 'pod')}"


def _refuse(what: str, problems: tuple[str, ...]) -> None:
    if problems:
        raise UsageError(f"{what}: {'; '.join(problems)}; nothing was sent")


def _reached(pod: Pod, action: PodAction) -> bool:
    return pod.status == _GOALS[action]


def _explained(error: ProblemError, pod: Pod) -> ProblemError:
    """A 409 with what we know: the pod has changed since, or something that no record tells stands in the way."""
    why = f"it was {pod.status} a moment ago, which allows it"
    advice = "look at the pod and try again"
    if pod.cluster is not None:
        why = f"it belongs to cluster {pod.cluster.id}"
        advice = "its members are managed through the cluster"
    elif pod.locked:
        why = "it is locked"
        advice = "unlock it first"
    return ProblemError(error.doing, error.refusal, (f"the pod's state does not allow it now; {why}", advice))
