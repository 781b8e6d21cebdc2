"""Pods for the runs of one engine: which runs want how many, and their pods as members of pools once they are ready.

Pods are asked for once a run is to be sent, and end as soon as it has nothing to send or outstanding: since it is over,
a brake holds it, or people paused, cancelled or released it. Its jobs wait in the line of a place where nothing is ever
sent; each ready pod is an endpoint at a URL that takes them from there.
"""

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

import anyio
import msgspec

from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.pods.pod_lease import OPEN, LeaseState, PodLease, how_to_end
from orchestrator.core.pods.pod_template import POD_URL_DEFAULT, PodTemplate, WhenDone
from orchestrator.core.text.figures import minute
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.core.text.wording import counted
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.hosting.worker_scaling import END_S_MAX
from orchestrator.engine.pods.pod_account import PodAccount
from orchestrator.engine.pods.pod_keeper import PodKeeper, PodPlace, PodsWanted
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.service_registry import ServiceRegistry, placed_at
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import OrchestratorError, StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import REST_URL_DEFAULT

ANSWER_S_MAX: Final = 5.0
"""A pod whose server takes longer to say how it is, is not ready."""

END_LOOK_S: Final = 1.0
END_LOOK_S_MAX: Final = 4.0
"""Between the first two looks at what is to end, once the process ends, and between later ones at most: a pod that was
asked for as a process died may come late, and is to be seen to be gone, too.
"""

HTTP_OK: Final = 200

MAY_BE_PAID: Final = "it may still be paid; it is not known yet whether it was made"


def check_reachable(template: PodTemplate, rest_url: str) -> None:
    """Raises `UsageError` where its pods would be asked for at one place, and looked for at another."""
    if template.url == POD_URL_DEFAULT and rest_url != REST_URL_DEFAULT:
        raise refused_template(
            template,
            f"its pods would be asked for at {rest_url}, and be reached at {POD_URL_DEFAULT}, where those of the public"
            " service are; give it a url, as in http://HOST:PORT/proxy/{pod}-{port} of an emulator",
        )


def refused_template(template: PodTemplate, why: object) -> UsageError:
    """The refusal of a run that could have no pods of `template`."""
    return UsageError(f"the pod template {template.name}: {why}; no pod was asked for, and no job was sent")


class EndedPod(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a pod that nobody wants any more."""

    name: str
    pod: str | None
    """Its id; None where it is not known to be there."""

    run: int
    service_url: str
    is_put_back: bool
    """Whether nothing of it is paid by the hour any more."""

    outcome: str = msgspec.field(name="told")
    """In words."""

    @property
    def named(self) -> str:
        """What it is, for people."""
        return f"pod {self.pod or self.name}"


class PodHost:
    """Of one engine. `join` has the pods that `RunRegistry.pod_urls` names take part in the pool of a run, and no
    others.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        runs: RunRegistry,
        services: ServiceRegistry,
        dependencies: Dependencies,
        console: Console,
        join: Callable[[RunSession], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._runs = runs
        self._services = services
        self._dependencies = dependencies
        self._console = console
        self._join = join
        self._provided: set[int] = set()
        """The runs that can have the pods that they want, as far as was looked."""

        self.keeper = PodKeeper(
            ledger,
            dependencies.clock,
            console,
            is_ours=runs.is_ours,
            account_at=self._account_at,
            answers=self._answers,
        )
        runs.brakes.spent.of_pods = self.keeper.spent
        runs.why_no_pods = self.hold
        runs.paid_for_pod = self.keeper.spent

    async def ask_for(self, run: Run) -> None:
        """Sees that `run`, which is about to be sent, can have the pods that it wants. Raises `UsageError` where that
        cannot be.
        """
        settings = self._runs.settings_of[run.id]
        template = settings.pod_template
        if template is None:
            return
        await self.keeper.leases()
        check_reachable(template, self._services.rest_url)
        try:
            await self.keeper.check(self._wanted(run, settings, unfinished=1))
        except OrchestratorError as error:
            raise refused_template(template, error) from error
        self._provided.add(run.id)

    async def look(self) -> None:
        """Does what is to be done now. Pods that have become ready take part, and those that are gone no more. Raises
        `OrchestratorError` where one could not take part: it is tried again.
        """
        if not self._is_needed(await self.keeper.leases()):
            return
        wanted = {
            session.run.id: self._wanted(
                session.run, self._runs.settings_of[session.run.id], session.progress.unfinished, self._busy(session)
            )
            for session in self._wanting()
        }
        await self.keeper.look(wanted, self._undecided())
        failed = None
        for run, session in list(self._runs.sessions.items()):
            if self._runs.settings_of[run].pod_template is None:
                continue
            urls = tuple(lease.url or "" for lease in self.keeper.taking(run))
            before = self._runs.pod_urls.get(run, ())
            if urls != before:
                self._runs.pod_urls[run] = urls
                try:
                    await self._join(session)
                except OrchestratorError as error:  # who has the endpoint of one may be unknown for now
                    self._runs.pod_urls[run], failed = before, error
                session.wake()
        if failed is not None:
            raise failed

    def _is_needed(self, leases: Collection[PodLease]) -> bool:
        return any(lease.state in OPEN for lease in leases) or any(
            self._runs.settings_of[run].pod_template is not None for run in self._runs.sessions
        )

    async def end(self) -> None:
        """Ends all pods, for a while: this process wants none any more."""
        with suppress(StorageError):
            left = [each for each in await self.tidy() if not each.is_put_back]
            if left:
                step = self._dependencies.word(Suggestion(NextStep.RESTORE_WORKERS))
                names = ", ".join(each.pod or each.name for each in left)
                self._console.warn(f"{counted(len(left), 'pod')} may still be paid: {names}; end with: {step}")

    async def tidy(self) -> list[EndedPod]:
        """Ends the pods of the runs in the scope, whoever asked for them, for a while; returns what became of each."""
        before = [lease.id for lease in await self.keeper.leases() if lease.state in OPEN]
        self.keeper.try_at_once()
        pause_s = END_LOOK_S
        with anyio.move_on_after(END_S_MAX, shield=True):
            while any(lease.state in OPEN for lease in await self.keeper.leases()):
                await self.keeper.look({})
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, END_LOOK_S_MAX)
        return [self._came(lease) for lease in await self.keeper.leases() if lease.id in before]

    def _came(self, lease: PodLease) -> EndedPod:
        is_over = lease.state not in OPEN
        stays = how_to_end(lease) is WhenDone.STOP
        told = ("it is stopped" if stays else "it is gone") if is_over else self.keeper.trouble(lease) or MAY_BE_PAID
        return EndedPod(
            name=lease.name,
            pod=lease.pod,
            run=lease.run,
            service_url=lease.service_url,
            is_put_back=is_over,
            outcome=told,
        )

    def paid_for_nothing(self, run: int) -> str | None:
        """That a pod of `run` has nothing to do, or could not be ended, in a sentence; None where all goes well."""
        session = self._runs.sessions[run]
        return self.keeper.paid_for_nothing(session.run, at_service=session.progress.at_service)

    def hold(self, run: int) -> Hold:
        """Why no job of `run` leaves from the line in which they wait for pods."""
        leases = self.keeper.of(run)
        used = [lease for lease in leases if lease.is_in_use]
        starting = sum(lease.state is not LeaseState.READY for lease in used)
        if used and not starting:
            return Hold(Gate.PODS, "none of its pods takes anything for now", stops=False)
        if used:
            first = next(lease for lease in used if lease.state is not LeaseState.READY)
            return Hold(
                Gate.PODS, f"waits for {counted(starting, 'pod')} to be ready: {self._waits_for(first)}", stops=False
            )
        failed = next((lease for lease in reversed(leases) if lease.has_failed), None)
        why = "it has no pod yet" if failed is None else f"it has no pod; the last one: {failed.detail or failed.end}"
        return Hold(Gate.PODS, why, stops=False)

    def _waits_for(self, lease: PodLease) -> str:
        """What is missing of a pod that is not ready, and for how long that is waited for."""
        pod = self.keeper.listed(lease)
        if pod is None or lease.url is None:
            how = f"{lease.name} is asked for"
        elif pod.is_running:
            how = f"{pod.id} is RUNNING, and its server does not answer at {lease.url}"
        else:
            how = f"{pod.id} is {pod.status}"
        return f"{how}; until {minute(lease.wanted_at + lease.template.ready_within_us)} UTC, then another is asked for"

    # --- how it is done

    def _undecided(self) -> set[int]:
        """The runs that may want the pods that they have: nobody has begun to send them yet, or may come to."""
        leases = {lease.run for lease in self.keeper.open_leases} - self._provided
        return {run for run in leases if run in self._runs.sessions or self._runs.may_come(run)}

    def _wanting(self) -> list[RunSession]:
        """The runs at work that want pods, and have something to send or outstanding."""
        found = []
        for session in self._runs.sessions.values():
            if session.run.id not in self._provided or session.is_over:
                continue
            asked = session.controls
            rests = asked.pause or asked.cancel or session.own.sending.hold is not None
            if not rests or session.progress.at_service:
                found.append(session)
        return found

    def _busy(self, session: RunSession) -> frozenset[str]:
        """Where something of it is under way."""
        busy = [part.endpoint for part in session.parts if not part.endpoint.is_idle]
        return frozenset(each.retries.name_of(session.run.id, each.id) for each in busy)

    def _wanted(
        self, run: Run, settings: RunSettings, unfinished: int, busy: frozenset[str] = frozenset()
    ) -> PodsWanted:
        assert settings.pod_template is not None
        most = settings.pods or 1
        return PodsWanted(
            run=run,
            place=PodPlace(self._services.account_url(run.service_url), self._services.rest_url),
            template=settings.pod_template,
            count=min(most, unfinished),
            most=most,
            busy=busy,
        )

    def _account_at(self, place: PodPlace) -> PodAccount:
        pods = self._dependencies.pods(self._services.needed(place.service_url), place.rest_url)
        return PodAccount(pods, self._dependencies.clock)

    async def _answers(self, lease: PodLease) -> bool:
        """Whether the server of a lease's pod says that it is well, or answers and says nothing of that."""
        assert lease.url is not None
        found = await self._ledger.runs.all([lease.run])
        if not found:  # an earlier version has deleted it: its pods end with the next look
            return False
        [run] = found
        settings = self._runs.settings_of.get(run.id, run.settings)
        # No endpoint of the ledger's: one that comes to be one has to become part of the shard of its run.
        api = await self._services.endpoint_of(placed_at(run, lease.url), settings)
        answer = None
        with anyio.move_on_after(ANSWER_S_MAX):
            answer = await api.health_answer()
        return answer is not None and answer.status == HTTP_OK
