"""The pods of one account, as this process asks for them: what was certainly not done, and what nobody knows."""

from typing import Final

from orchestrator.client.jobs.refusals import RefusedError
from orchestrator.clock import Clock
from orchestrator.core.pods.pod_lease import (
    Became,
    LeaseEnd,
    ListedPod,
    PodLease,
    lease_ended,
    lease_step,
    pod_of,
    shown,
)
from orchestrator.core.pods.pod_template import PodTemplate, WhenDone
from orchestrator.engine.ports.account_pods import AccountPods
from orchestrator.errors import NotSent, OrchestratorError, UsageError

GONE: Final = 404


class PodAccount:
    """Those of one account. What becomes of a lease is returned; the ledger is the caller's."""

    def __init__(self, pods: AccountPods, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._template_ids: dict[PodTemplate, str] = {}

    async def check(self, template: PodTemplate) -> None:
        """Raises `UsageError` where no pod of `template` could work, and `OrchestratorError` where nobody can say."""
        self._template_ids[template] = await self._pods.template_id(template)

    async def all(self) -> tuple[int, list[ListedPod]]:
        """All pods, and when they were asked for. Raises `OrchestratorError`."""
        asked_at = self._clock.now()
        return asked_at, await self._pods.all()

    async def ask_for(self, lease: PodLease) -> PodLease:
        """`lease`, once its pod was asked for: refused, known, or neither, where the answer did not come."""
        try:
            pod = await (self._create(lease) if lease.is_new else self._start(lease))
        except OrchestratorError as error:
            return lease_ended(lease, LeaseEnd.REFUSED, self._clock.now(), str(error)) if was_not_done(error) else lease
        return lease if pod is None else self._with(lease, pod)

    async def _create(self, lease: PodLease) -> ListedPod:
        template = lease.template
        if template not in self._template_ids:
            await self.check(template)
        return await self._pods.create(lease.name, template, self._template_ids[template])

    async def _start(self, lease: PodLease) -> ListedPod | None:
        assert lease.pod is not None
        try:
            await self._pods.start(lease.pod)
        except UsageError:
            if (left := await self._pods.show(lease.pod)) is None or not left.is_computing:
                raise
            return left  # it runs already: an earlier request had its effect
        return None

    async def show(self, lease: PodLease) -> PodLease:
        """`lease`, once it was asked whether its pod is there. Raises `OrchestratorError`."""
        assert lease.pod is not None
        return shown(lease, await self._pods.show(lease.pod), self._clock.now())

    async def release(self, pod: ListedPod, how: WhenDone) -> None:
        """Stops or terminates a pod; the list tells whether that was done. Raises `OrchestratorError`."""
        try:
            await (self._pods.stop if how is WhenDone.STOP else self._pods.terminate)(pod.id)
        except RefusedError as error:
            if error.status != GONE:
                raise

    def _with(self, lease: PodLease, pod: ListedPod) -> PodLease:
        """With what `pod` tells. One of another name is not its own, whatever the service says."""
        own, now = pod_of(lease, [pod]), self._clock.now()
        if own is None:
            return lease
        step = lease_step(lease, own, listed_at=now, now=now)
        return step.lease if isinstance(step, Became) else lease


def was_not_done(error: OrchestratorError) -> bool:
    """Whether what was asked for has certainly had no effect."""
    return isinstance(error, NotSent | UsageError) or (isinstance(error, RefusedError) and error.had_no_effect)
