"""Workers for runs (autoscaling): raises the bounds of their endpoints while they want more, and puts them back
afterwards.

What the bounds were is in the ledger before they are raised. So whoever works on it next puts them back, if this
process does not. They are raised before the run's first job is sent, and stay as long as a run that wants it has
something to send or outstanding; the last one ends it. Where runs want as many as they need, they are raised and
lowered in steps meanwhile. What a person changes meanwhile is left alone.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import msgspec

from orchestrator.core.gates.scaling_override import Bounds, WantedWorkers, is_changed_by_hand, raised
from orchestrator.core.planning.worker_steps import STEP_US, WorkersNow, WorkersWhy, first_bound, next_bound
from orchestrator.core.service.profiles import address_of, is_by_url
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.lent_bounds import LentBounds, PutBack
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.hosting.worker_needs import WorkerNeeds, has_work
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.task_pool import Request
from orchestrator.errors import OrchestratorError, StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.endpoints import LentEndpoint
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.words_and_defaults import LOCAL, REST_URL_DEFAULT, SERVERLESS_URL_DEFAULT
from orchestrator.units import MINUTE_US

LOOK_EVERY_S: Final = 5.0
"""How often it is looked whether anybody still wants what was raised."""

STEP_LOOK_US: Final = MINUTE_US
"""How often it is looked whether an endpoint needs more workers, or fewer."""

STEP_S_MAX: Final = 30.0
"""How long the account may take for that."""

END_S_MAX: Final = 20.0
"""How long a process that ends may take to put back what it raised; the rest is left to the next."""


def knows_account(rest_url: str, service_url: str) -> bool:
    """Whether endpoints of that service are those of the account there: another service has another REST interface."""
    if is_by_url(service_url):
        return False
    return rest_url != REST_URL_DEFAULT or address_of(service_url) == SERVERLESS_URL_DEFAULT


class WorkerScaling:
    """The bounds of endpoints' workers, as the runs of one engine want them."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        runs: RunRegistry,
        endpoints: EndpointRegistry,
        launch: Callable[[Request], None],
        dependencies: Dependencies,
        console: Console,
    ) -> None:
        """`launch` lets a step be made beside everything else: an account may take long to answer."""
        self._ledger = ledger
        self._runs = runs
        self._needs = WorkerNeeds(ledger=ledger, runs=runs, endpoints=endpoints)
        self._services = endpoints.services
        self._homes = endpoints.homes
        self._launch = launch
        self._dependencies = dependencies
        self._console = console
        self._lent = LentBounds(
            ledger=ledger,
            scope=endpoints.scope,
            services=endpoints.services,
            dependencies=dependencies,
            console=console,
        )
        self._settled: set[int] = set()
        """The endpoints where the runs at work have what they want, or a person has the last word."""

        self._steps_due: dict[int, int] = {}
        """When it is next looked whether an endpoint needs more workers or fewer, by its number."""

        self._left_at: dict[int, Bounds] = {}
        """As what an endpoint was left whose workers do already, by its number."""

        self._turn = anyio.Lock()

    async def raise_for(self, run: Run) -> None:
        """Sees that `run`, which is about to be sent, has the workers that it wants. Raises `UsageError` where that
        cannot be.
        """
        if not self._wants(run):
            return
        if run.service_url == LOCAL:
            raise UsageError(f"{run.endpoint} is a function of yours: it has no workers that {self._named(run)} raises")
        if not knows_account(self._services.rest_url, run.service_url):
            raise UsageError(
                f"{self._named(run)} needs <setting rest-url>: where is the REST interface that goes with"
                f" {run.service_url}?"
            )
        if self._asks_need(run):
            await self._needs.recall(run)
        async with self._turn:
            try:
                await self._raise(run, is_first=True)
            except OrchestratorError as error:
                raise UsageError(
                    f"{self._named(run)}: {run.endpoint} cannot be given the workers: {error}; no job was sent for it"
                ) from error

    async def look(self) -> None:
        """Puts back what nobody wants any more, and raises what somebody wants again. Raises `OrchestratorError` where
        something could not be put back: it is tried again.
        """
        lent = await self._lent.known()
        wanted = {session.run.endpoint_id for session in self._wanting()}
        self._settled &= wanted
        for session in list(self._wanting()):
            if session.run.endpoint_id not in self._settled:
                try:
                    await self.raise_for(session.run)
                except UsageError as error:
                    self._console.warn(error.message)
                self._settled.add(session.run.endpoint_id)
        self._begin_steps()
        failed = None
        for number in [number for number in lent if number not in wanted and not self._is_awaited(number)]:
            async with self._turn:
                if (failure := await self._tried(lent[number])) is not None:
                    failed = failure
        if failed is not None:
            raise failed

    async def end(self) -> None:
        """Puts everything back that was raised, for a while: this process wants nothing any more."""
        with anyio.move_on_after(END_S_MAX, shield=True), suppress(StorageError):
            for each in await self.tidy():
                if not each.is_put_back:
                    step = self._dependencies.word(Suggestion(NextStep.RESTORE_WORKERS))
                    self._console.warn(f"{each.endpoint}: {each.outcome}; put it back later with: {step}")

    async def tidy(self) -> list[PutBack]:
        """Puts everything back that was raised for runs in the scope, by whichever process."""
        lent = await self._lent.known()
        async with self._turn:
            return [await self._lent.put_back(each) for each in list(lent.values())]

    # --- how it is done

    def _wanting(self) -> Iterator[RunSession]:
        """The runs at work that want anything, and have something to send or outstanding."""
        for session in self._runs.sessions.values():
            if self._wants(session.run) and session.run.service_url != LOCAL and has_work(session):
                yield session

    def _is_awaited(self, endpoint: int) -> bool:
        """Whether a run at `endpoint`, which may want what was raised there, is about to be served: to put it back and
        to raise it again would restart workers in execution.
        """
        at, served = self._homes.endpoints, self._runs.sessions.keys() | self._runs.unservable.keys()
        return any(
            run not in served and endpoint in at.get(run, ()) and self._runs.may_come(run)
            for run in self._runs.unfinished
        )

    def _begin_steps(self) -> None:
        """Has those endpoints looked at whose workers follow what their runs need, and that are due."""
        now = self._ledger.now()
        due = {each.run.endpoint_id: each.run for each in self._wanting() if self._asks_need(each.run)}
        self._steps_due = {number: at for number, at in self._steps_due.items() if number in due}
        for number, run in due.items():
            if now >= self._steps_due.setdefault(number, now + STEP_LOOK_US):
                self._steps_due[number] = now + STEP_LOOK_US
                self._launch(partial(self._step, run))

    async def _step(self, run: Run) -> None:
        """More workers for the endpoint of `run`, or fewer, as far as the account does that."""
        why = f"it has not answered within {STEP_S_MAX:.0f} s"
        with anyio.move_on_after(STEP_S_MAX):
            async with self._turn:
                session = self._runs.sessions.get(run.id)
                if session is None or run.endpoint_id not in self._steps_due:
                    return  # nobody wants it any more
                try:
                    await session.own.endpoint.api.ask_health()
                    await self._raise(run, is_first=False)
                except OrchestratorError as error:
                    why = str(error)
                else:
                    return
        self._steps_due[run.endpoint_id] = self._ledger.now() + STEP_US
        found = self._runs.workers.get(run.endpoint_id)
        if found is not None:
            self._runs.workers[run.endpoint_id] = msgspec.structs.replace(found, why=WorkersWhy.REFUSED, refusal=why)
        self._console.warn(f"{run.endpoint}: its workers stay as they are: {why}")

    async def _raise(self, run: Run, *, is_first: bool) -> None:
        lent = await self._lent.known()
        endpoints = self._lent.endpoints(run.service_url, self._services.rest_url)
        now = await endpoints.bounds(run.endpoint)
        known = lent.get(run.endpoint_id)
        self._settled.add(run.endpoint_id)
        need = self._need(run, now, known, is_first=is_first)
        left_at = self._left_at.get(run.endpoint_id, now) if known is None and not is_first else now
        if left_at != now or (known is not None and is_changed_by_hand(known.loan, now)):
            self._leave(run, now, need)
            return
        self._left_at[run.endpoint_id] = now
        if need is not None:
            self._runs.workers[run.endpoint_id] = need
        before = now if known is None else known.loan.before
        others = [self._wish_of(each.run) for each in self._wanting() if each.run.endpoint_id == run.endpoint_id]
        may_be_fewer = all(self._asks_need(each.run) for each in self._needs.at_work(run.endpoint_id))
        wanted = raised(
            before, [self._wish_of(run), *others], None if need is None else need.bound, may_be_fewer=may_be_fewer
        )
        if wanted == now:
            if known is not None and now == known.loan.raised:
                await self._lent.confirm(known)
            return
        await self._lent.change(run, endpoints, known, before=before, now=now, wanted=wanted)
        why = "" if need is None else f" ({need.reason})"
        self._console.info(f"{run.endpoint}: {wanted} instead of {before}, as long as {run.name} is at work{why}")
        if need is not None:
            at = lent[run.endpoint_id].lent_at
            self._runs.workers[run.endpoint_id] = msgspec.structs.replace(need, bound=wanted.most, changed_at=at)

    def _need(self, run: Run, now: Bounds, known: LentEndpoint | None, *, is_first: bool) -> WorkersNow | None:
        """How many workers the runs at the endpoint of `run` need; None where none of them asks for that."""
        demands = self._needs.demands(run.endpoint_id)
        if all(each.range is None for each in demands):
            return None
        changed_at = None if known is None else known.lent_at
        if is_first and known is None:
            return first_bound(demands, self._ledger.now(), start_us=self._needs.start_us(run.endpoint_id))
        at = self._needs.workers(run.endpoint_id, bound=now.most, changed_at=changed_at)
        return next_bound(demands, at, self._ledger.now())

    def _leave(self, run: Run, now: Bounds, need: WorkersNow | None) -> None:
        """Somebody has changed the bounds meanwhile, and has the last word."""
        before = self._runs.workers.get(run.endpoint_id)
        if before is None or before.why is not WorkersWhy.BY_HAND or before.bound != now.most:
            self._console.warn(f"{run.endpoint}: somebody has made it {now} meanwhile; it is left so")
        if need is not None:
            found = msgspec.structs.replace(need, bound=now.most, why=WorkersWhy.BY_HAND)
            self._runs.workers[run.endpoint_id] = found

    def _wants(self, run: Run) -> bool:
        """Whether `run` wants anything of its endpoint's workers."""
        return self._wish_of(run).is_any or self._asks_need(run)

    def _asks_need(self, run: Run) -> bool:
        """Whether it wants as many as it needs."""
        return self._runs.settings_of[run.id].worker_range is not None

    def _wish_of(self, run: Run) -> WantedWorkers:
        settings = self._runs.settings_of[run.id]
        return WantedWorkers(least=settings.workers_min, most=settings.workers_max)

    def _named(self, run: Run) -> str:
        if self._asks_need(run):
            return "<setting workers>"
        return "<setting workers-max>" if self._wish_of(run).most is not None else "<setting workers-min>"

    async def _tried(self, lent: LentEndpoint) -> OrchestratorError | None:
        done = await self._lent.put_back(lent)
        if done.is_put_back:
            self._runs.workers.pop(lent.endpoint_id, None)
        return None if done.is_put_back else OrchestratorError(f"{done.endpoint}: {done.outcome}")
