"""Keeps the pods of runs: asks for those that are wanted, watches them, and ends those that nobody wants any more.

What is to be asked for is in the ledger before it is. A look asks each account for its list once, decides about each
lease by it (`core.pods.pod_lease`), and is the same whether the process that began the lease is this one or has died:
so the next engine, and `runs tidy`, put right what a crash has left at whichever point.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

import anyio
import msgspec

from orchestrator.clock import Clock
from orchestrator.core.pods.paid_pod import paid_for_nothing, paid_pod
from orchestrator.core.pods.pod_lease import (
    OPEN,
    Became,
    End,
    LeaseEnd,
    LeaseState,
    LeaseStep,
    ListedPod,
    LookItUp,
    PodLease,
    Probe,
    Start,
    Wait,
    ending,
    how_to_end,
    lease_step,
    pod_of,
    ready,
    shown,
    strays,
)
from orchestrator.core.pods.pod_template import PodTemplate, WhenDone
from orchestrator.core.pods.replacements import demand
from orchestrator.core.text.wording import counted
from orchestrator.engine.pods.pod_account import PodAccount
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.pod_leases import LeaseRequest
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import MINUTE_US, SECOND_US

AGAIN_US: Final = 2 * SECOND_US
AGAIN_US_MAX: Final = MINUTE_US
"""How long a lease is left alone with which something has failed, at first and at most: the account has its limits."""

STEPS_MAX: Final = 4
"""Of so many steps of one lease none is waited for between: it is found, answers, and so on."""


class PodPlace(msgspec.Struct, frozen=True):
    """Where an account is."""

    service_url: str
    rest_url: str


class PodsWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What one run wants."""

    run: Run
    place: PodPlace
    template: PodTemplate
    count: int
    """So many are asked for."""

    most: int
    """No more are kept."""

    busy: frozenset[str] = frozenset()
    """Where something of it is under way: the URLs of its pods."""


class PodKeeper:
    """Of one engine, for those runs of which `is_ours` holds. `account_at` gives the account at a place, or raises
    `OrchestratorError`; `answers` says whether the server of a lease's pod does.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        console: Console,
        *,
        is_ours: Callable[[int], bool],
        account_at: Callable[[PodPlace], PodAccount],
        answers: Callable[[PodLease], Awaitable[bool]],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._console = console
        self._is_ours = is_ours
        self._account_at = account_at
        self._answers = answers
        self._leases: dict[int, PodLease] | None = None
        """By their numbers; None: nobody has looked yet."""

        self._accounts: dict[PodPlace, PodAccount] = {}
        self._said: dict[int | PodPlace, str] = {}
        """What people were told last of which lease or account: each trouble once."""

        self._listed: dict[int, ListedPod] = {}
        self._released: set[int] = set()
        """The leases of which it was answered that the pod is stopped, or gone."""

        self._surplus: set[int] = set()
        """The leases of pods that are one too many, and are to end what they have."""

        self._waits: dict[int, tuple[int, int]] = {}
        """Until when the lease is left alone with which something has failed, and for how long it was."""

        self._turn = anyio.Lock()

    # --- what there is

    async def leases(self) -> Sequence[PodLease]:
        """Those of our runs, oldest first."""
        if self._leases is None:
            found = {lease.id: lease for lease in await self._ledger.runs.pod_leases.all()}
            if self._leases is None:  # another one may have looked meanwhile, and wanted some since
                self._leases = found
        return tuple(lease for lease in self._leases.values() if self._is_ours(lease.run))

    @property
    def open_leases(self) -> Sequence[PodLease]:
        """Those of which something may be paid, as far as anybody has looked."""
        leases = (self._leases or {}).values()
        return [lease for lease in leases if lease.state is not LeaseState.ENDED and self._is_ours(lease.run)]

    def of(self, run: int) -> Sequence[PodLease]:
        """Those of a run, as far as anybody has looked."""
        return [lease for lease in (self._leases or {}).values() if lease.run == run]

    def taking(self, run: int) -> Sequence[PodLease]:
        """Those of its pods that take jobs: they are ready, and not one too many."""
        return [each for each in self.of(run) if each.state is LeaseState.READY and each.id not in self._surplus]

    def spent(self, run: int, url: str | None = None) -> float:
        """What a run has paid for pods until now, or for the one at that URL."""
        now = self._clock.now()
        return sum(lease.cost(now) for lease in self.of(run) if url in (None, lease.url))

    def paid_for_nothing(self, run: Run, *, at_service: int) -> str | None:
        """That a pod of `run`, of which so many jobs are at pods, has nothing to do or could not be ended."""
        pods = (paid_pod(each, run.name, at_service=at_service) for each in self.of(run.id) if each.state in OPEN)
        return paid_for_nothing(pods, self._clock.now())

    def listed(self, lease: PodLease) -> ListedPod | None:
        """The pod of a lease as the account listed it last; None where it did not."""
        return self._listed.get(lease.id)

    def trouble(self, lease: PodLease) -> str | None:
        """What people were told last of a lease."""
        return self._said.get(lease.id)

    def try_at_once(self) -> None:
        """With what has failed before nobody waits any longer."""
        self._waits.clear()

    async def check(self, wanted: PodsWanted) -> None:
        """Raises `UsageError` where a run could never have a pod, and `OrchestratorError` where nobody can say."""
        await self._account(wanted.place).check(wanted.template)

    # --- a look

    async def look(self, wanted: Mapping[int, PodsWanted], kept: Collection[int] = ()) -> None:
        """Does what is to be done now for the runs that want pods, by their numbers; of the runs `kept` that is not
        known yet, and all others want none.
        """
        async with self._turn:
            await self.leases()
            places = {PodPlace(each.service_url, each.rest_url) for each in self.open_leases}
            for place in places | {each.place for each in wanted.values()}:
                await self._look_at(place, wanted, kept)

    async def _look_at(self, place: PodPlace, wanted: Mapping[int, PodsWanted], kept: Collection[int]) -> None:
        try:
            account = self._account(place)
            listed_at, pods = await account.all()
        except OrchestratorError as error:
            self._say(place, f"the pods of the account cannot be looked at: {error}")
            return
        self._said.pop(place, None)
        here = [lease for lease in await self.leases() if PodPlace(lease.service_url, lease.rest_url) == place]
        await self._release_unwanted([lease for lease in here if lease.run not in kept], wanted)
        async with anyio.create_task_group() as group:
            for lease in map(self._now, here):
                if lease.state is not LeaseState.ENDED and self._waits.get(lease.id, (0, 0))[0] <= self._clock.now():
                    group.start_soon(self._step, account, lease, pods, listed_at)
        for lease, pod in strays([self._now(each) for each in here], pods):
            await self._end_stray(account, lease, pod)
        for each in wanted.values():
            if each.place == place:
                await self._ask_for_more(account, each, pods)

    async def _release_unwanted(self, here: Collection[PodLease], wanted: Mapping[int, PodsWanted]) -> None:
        """Those that are one too many end, those first that are not ready, then the latest; what a run is to keep some
        of ends what it has before, and takes nothing more.
        """
        used: dict[int, int] = {}
        for lease in sorted(here, key=lambda each: (each.state is not LeaseState.READY, each.id)):
            if not lease.is_in_use:
                continue
            used[lease.run] = used.get(lease.run, 0) + 1
            of_run = wanted.get(lease.run)
            if used[lease.run] <= (0 if of_run is None else of_run.most):
                self._surplus.discard(lease.id)
            elif (
                of_run is not None
                and lease.state is LeaseState.READY
                and (lease.id not in self._surplus or lease.url in of_run.busy)  # until then it takes jobs
            ):
                self._surplus.add(lease.id)
            else:
                await self._write(ending(lease, LeaseEnd.DONE, self._clock.now()))

    async def _step(self, account: PodAccount, lease: PodLease, pods: Sequence[ListedPod], listed_at: int) -> None:
        """Goes on with one lease, as far as that needs no time."""
        try:
            for _ in range(STEPS_MAX):
                pod = pod_of(lease, pods)
                if pod is not None:
                    self._listed[lease.id] = pod
                step = lease_step(lease, pod, listed_at=listed_at, now=self._clock.now())
                after = await self._carried_out(account, lease, pod, step)
                if after == lease:
                    break
                await self._write(after)
                lease = after
                if not isinstance(step, Became):  # the list is older than what was done
                    break
            self._waits.pop(lease.id, None)
        except OrchestratorError as error:
            pause_us = min(2 * self._waits.get(lease.id, (0, AGAIN_US // 2))[1], AGAIN_US_MAX)
            self._waits[lease.id] = self._clock.now() + pause_us, pause_us
            self._say(lease.id, f"pod {lease.pod or lease.name}: {error}")

    async def _carried_out(
        self, account: PodAccount, lease: PodLease, pod: ListedPod | None, step: LeaseStep
    ) -> PodLease:
        """What `lease` is after `step`. Raises `OrchestratorError`."""
        match step:
            case Became():
                return step.lease
            case LookItUp() if lease.id in self._released:  # the list says the same as the answer
                return shown(lease, None, self._clock.now())
            case LookItUp():
                return await account.show(lease)
            case Start():
                return await account.ask_for(lease)
            case Probe() if await self._answers(lease):
                return ready(lease, self._clock.now())
            case End():
                assert pod is not None, "what is to be ended was seen"
                await account.release(pod, step.how)
                self._released.add(lease.id)
            case Probe() | Wait():
                pass
        return lease

    async def _end_stray(self, account: PodAccount, lease: PodLease, pod: ListedPod) -> None:
        self._say(lease.id, f"the pod {pod.id} ({pod.name}) came after all, and is terminated")
        try:
            await account.release(pod, WhenDone.TERMINATE)
        except OrchestratorError as error:
            self._say(lease.id, f"pod {pod.id}: {error}")

    async def _ask_for_more(self, account: PodAccount, wanted: PodsWanted, pods: Sequence[ListedPod]) -> None:
        more = demand(wanted.count, self.of(wanted.run.id), self._clock.now())
        if not more:
            return
        leased = {lease.pod for lease in await self._ledger.runs.pod_leases.all(open_only=True)}
        resting = [each for each in self._resting(wanted, pods) if each.pod not in leased]
        rests: list[PodLease | None] = [*resting[:more]]
        rests += [None] * (more - len(rests))
        wishes = [
            LeaseRequest(
                run=wanted.run.id,
                run_name=wanted.run.name,
                run_created_at=wanted.run.created_at,
                service_url=wanted.place.service_url,
                rest_url=wanted.place.rest_url,
                template=wanted.template,
                rests=each,
            )
            for each in rests
        ]
        leases = await self._ledger.runs.pod_leases.want(wishes)
        if not leases:  # another engine has just asked for those that rest
            return
        assert self._leases is not None
        self._leases |= {lease.id: lease for lease in leases}
        self._console.info(f"{wanted.run.name}: asks for {counted(len(leases), 'pod')} of {wanted.template.name}")
        async with anyio.create_task_group() as group:
            for lease in leases:
                group.start_soon(self._ask_for, account, lease)

    def _resting(self, wanted: PodsWanted, pods: Sequence[ListedPod]) -> list[PodLease]:
        """The latest leases of those pods of ours that rest, are such as are wanted, and did not fail."""
        latest = {lease.pod: lease for lease in (self._leases or {}).values() if lease.pod is not None}
        found = []
        for pod in pods:
            lease = latest.get(pod.id)
            if lease is None or not pod.is_resting or pod.name != lease.name or lease.has_failed:
                continue
            if lease.state is LeaseState.ENDED and wanted.template.makes_the_same(lease.template):
                found.append(lease)
        return found

    async def _ask_for(self, account: PodAccount, lease: PodLease) -> None:
        after = await account.ask_for(lease)
        if after != lease:
            await self._write(after)

    async def _write(self, lease: PodLease) -> None:
        """The lease stands so from now on."""
        before = self._now(lease)
        await self._ledger.runs.pod_leases.write(lease)
        assert self._leases is not None
        self._leases[lease.id] = lease
        if before.state is not lease.state:
            self._tell(lease)

    def _tell(self, lease: PodLease) -> None:
        named = f"pod {lease.pod or lease.name}"
        if lease.state is LeaseState.READY:
            self._console.info(f"{named} is ready")
        elif lease.state is LeaseState.ENDED and not lease.has_failed:
            self._console.info(f"{named} is {'stopped' if how_to_end(lease) is WhenDone.STOP else 'gone'}")
        if lease.has_failed and lease.state in (LeaseState.ENDING, LeaseState.ENDED):
            self._say(lease.id, f"{named}: {lease.detail or lease.end}")

    def _now(self, lease: PodLease) -> PodLease:
        return (self._leases or {}).get(lease.id, lease)

    def _account(self, place: PodPlace) -> PodAccount:
        if place not in self._accounts:
            self._accounts[place] = self._account_at(place)
        return self._accounts[place]

    def _say(self, of: int | PodPlace, what: str) -> None:
        if self._said.get(of) != what:
            self._said[of] = what
            self._console.warn(what)
