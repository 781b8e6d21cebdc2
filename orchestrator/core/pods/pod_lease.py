"""A lease: one pod that works for one run, from the intent to have it until nothing of it is paid any more.

The intent is in the ledger before the service is asked. What became of a request whose answer was lost is told by the
list of the account's pods, where a new pod is found by its name, which no other has. So `lease_step` decides by a lease
and by what the latest list says of it, and by nothing else; whoever comes after a crash decides the same.

    WANTED ──▶ STARTING ──▶ READY ──▶ ENDING ──▶ ENDED
"""

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.pods.pod_template import PodTemplate, WhenDone
from orchestrator.units import HOUR_US, MINUTE_US

DOUBT_US: Final = 2 * MINUTE_US
"""A new pod that the list does not have for so long after it was asked for was never made."""


READABLE_MAX: Final = 40
"""So many characters of a run's name are in those of its pods."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_COMPUTING: Final = frozenset({"PROVISIONING", "STARTING", "RUNNING"})
"""The states in which a pod is paid (contract of pods, Pod: `cost`)."""


class LeaseState(StrEnum):
    """Where a lease stands."""

    WANTED = "wanted"
    """The service may have been asked, or not."""

    STARTING = "starting"
    READY = "ready"
    """Its server answers."""

    ENDING = "ending"
    """It is to be stopped or terminated."""

    ENDED = "ended"


OPEN: Final = frozenset({LeaseState.WANTED, LeaseState.STARTING, LeaseState.READY, LeaseState.ENDING})
"""Those of which something may still be paid."""

IN_USE: Final = OPEN - {LeaseState.ENDING}


class LeaseEnd(StrEnum):
    """Why a lease ends."""

    DONE = "done"
    """Nobody needs it any more."""

    LOST = "lost"
    """The pod was stopped, failed or is gone, and not by us."""

    LATE = "late"
    """Its server did not answer in time."""

    REFUSED = "refused"
    """The service did not make or start it."""

    NEVER = "never"
    """The request had no answer, and there is no such pod."""


FAILED: Final = frozenset({LeaseEnd.LOST, LeaseEnd.LATE, LeaseEnd.REFUSED, LeaseEnd.NEVER})
"""The ends after which another pod may take the place."""


class ListedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, as the account lists it."""

    id: str
    name: str
    status: str
    per_hour: float = 0.0
    """What it costs now."""

    @property
    def is_computing(self) -> bool:
        """Whether it is paid by the hour."""
        return self.status in _COMPUTING

    @property
    def is_running(self) -> bool:
        """Whether its container runs."""
        return self.status == "RUNNING"

    @property
    def is_resting(self) -> bool:
        """Whether it can be started."""
        return self.status == "EXITED"


class PodLease(msgspec.Struct, frozen=True, kw_only=True):
    """Times are microseconds UTC."""

    id: int
    run: int
    name: str
    """What the pod is called, by which it is found."""

    service_url: str
    """Whose account it is in."""

    rest_url: str
    template: PodTemplate
    is_new: bool
    """Whether the pod is made for this lease; else one is started that rests."""

    state: LeaseState
    wanted_at: int
    pod: str | None = None
    """Its id, once that is known."""

    began_at: int | None = None
    """Since when it is paid, as far as is known."""

    ready_at: int | None = None
    ending_at: int | None = None
    """Since when it is to end."""

    ended_at: int | None = None
    per_hour: float = 0.0
    """What it costs, as far as that was told; the dearest."""

    end: LeaseEnd | None = None
    detail: str = ""
    """More of why it ends, for people."""

    @property
    def is_in_use(self) -> bool:
        """Whether it is there for its run, or to be."""
        return self.state in IN_USE

    @property
    def has_failed(self) -> bool:
        """Whether it ends, or has, and not since nobody needs it."""
        return self.end in FAILED

    @property
    def url(self) -> str | None:
        """Where its server is reached."""
        return None if self.pod is None else self.template.url_of(self.pod)

    def cost(self, now: int) -> float:
        """What was paid for it so far."""
        if self.began_at is None:
            return 0.0
        until = now if self.ended_at is None else self.ended_at
        return self.per_hour * max(0, until - self.began_at) / HOUR_US


class Wait(msgspec.Struct, frozen=True):
    """Nothing is to be done for now."""


class Became(msgspec.Struct, frozen=True):
    """The lease is this one from now on."""

    lease: PodLease


class Start(msgspec.Struct, frozen=True):
    """The pod is to be started: that was not done, or had no effect."""


class LookItUp(msgspec.Struct, frozen=True):
    """The service is to be asked for the pod itself: the list has it no more, and may be an old one."""


class Probe(msgspec.Struct, frozen=True):
    """It is to be found out whether its server answers."""


class End(msgspec.Struct, frozen=True):
    """The pod is to be stopped or terminated."""

    how: WhenDone


LeaseStep = Wait | Became | Start | LookItUp | Probe | End


def lease_name(run: str, created_at: int, number: int) -> str:
    """What the pod of a new lease is called: the `number`-th of the run of that name, which no other ledger has."""
    readable = _NOT_IN_NAMES.sub("-", run.lower()).strip("-")[:READABLE_MAX] or "run"
    return f"{readable}-{created_at:x}-{number}"


def pod_of(lease: PodLease, pods: Iterable[ListedPod]) -> ListedPod | None:
    """The pod of `lease` among those of the account: none of another name is, whatever its id."""
    return next((pod for pod in pods if pod.name == lease.name and lease.pod in (None, pod.id)), None)


def lease_step(lease: PodLease, pod: ListedPod | None, *, listed_at: int, now: int) -> LeaseStep:
    """What is to be done about `lease`, of which the list that was asked for at `listed_at` has `pod`, or nothing."""
    if lease.state is LeaseState.ENDED:
        return Wait()
    if pod is None:
        return _of_missing(lease, listed_at)
    known = _known(lease, pod, now)
    if known != lease:
        return Became(known)
    match lease.state:
        case LeaseState.ENDING:
            return _of_ending(lease, pod, now)
        case LeaseState.WANTED if now < lease.wanted_at + lease.template.ready_within_us:
            return Start()  # one that rests still does: it was not asked, or in vain
        case _:
            return _of_used(lease, pod, now)


def _known(lease: PodLease, pod: ListedPod, now: int) -> PodLease:
    """With what `pod` tells that is to be kept."""
    dearest = max(lease.per_hour, pod.per_hour)
    found = msgspec.structs.replace(lease, pod=pod.id, per_hour=dearest)
    if lease.state is LeaseState.WANTED and (lease.is_new or pod.is_computing):
        found = msgspec.structs.replace(found, state=LeaseState.STARTING)
    if pod.is_computing and lease.began_at is None:
        found = msgspec.structs.replace(found, began_at=min(lease.wanted_at, now))
    return found


def _of_missing(lease: PodLease, listed_at: int) -> LeaseStep:
    if lease.pod is not None:
        return LookItUp()
    if listed_at < lease.wanted_at + DOUBT_US:
        return Wait()
    return Became(lease_ended(lease, LeaseEnd.NEVER, listed_at))


def shown(lease: PodLease, pod: ListedPod | None, now: int) -> PodLease:
    """`lease`, whose pod was asked for itself: that is this one, or gone. One of another name is somebody else's."""
    if pod is None:
        return lease_ended(lease, LeaseEnd.LOST, now, "the pod is gone")
    if pod.name != lease.name:
        return lease_ended(lease, LeaseEnd.LOST, now, f"the pod is called {pod.name:.80} now, and is left alone")
    return lease


def _of_ending(lease: PodLease, pod: ListedPod, now: int) -> LeaseStep:
    how = how_to_end(lease)
    if how is WhenDone.STOP and not pod.is_computing:
        return Became(lease_ended(lease, LeaseEnd.DONE, now))
    return End(how)


def _of_used(lease: PodLease, pod: ListedPod, now: int) -> LeaseStep:
    if not pod.is_computing:
        return Became(ending(lease, LeaseEnd.LOST, now, f"the pod is {pod.status}"))
    if lease.state is LeaseState.READY:
        return Wait()
    if now >= lease.wanted_at + lease.template.ready_within_us:
        return Became(ending(lease, LeaseEnd.LATE, now, f"the pod is {pod.status}, and its server does not answer"))
    return Probe() if pod.is_running else Wait()


def how_to_end(lease: PodLease) -> WhenDone:
    """What is to be done with its pod: one that failed is not kept."""
    return WhenDone.TERMINATE if lease.has_failed else lease.template.when_done


def ready(lease: PodLease, now: int) -> PodLease:
    """Its server answers."""
    return msgspec.structs.replace(lease, state=LeaseState.READY, ready_at=now)


def ending(lease: PodLease, why: LeaseEnd, now: int, detail: str = "") -> PodLease:
    """It is to end."""
    return msgspec.structs.replace(lease, state=LeaseState.ENDING, end=why, ending_at=now, detail=detail)


def lease_ended(lease: PodLease, why: LeaseEnd, now: int, detail: str = "") -> PodLease:
    """Nothing of it is paid any more; `why`, where it is not known yet."""
    return msgspec.structs.replace(
        lease,
        state=LeaseState.ENDED,
        end=lease.end or why,
        detail=lease.detail or detail,
        ended_at=now,
    )


def strays(leases: Collection[PodLease], pods: Iterable[ListedPod]) -> list[tuple[PodLease, ListedPod]]:
    """The pods that came after all, long after they were thought to be never made, each with its lease. One that was
    known once may be a person's by now.
    """
    never = {lease.name: lease for lease in leases if lease.state is LeaseState.ENDED and lease.pod is None}
    return [(never[pod.name], pod) for pod in pods if pod.name in never]
