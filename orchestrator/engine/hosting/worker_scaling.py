"""Workers for runs (autoscaling): raises the bounds of their endpoints while they want more, and puts them back
afterwards.

What the bounds were is in the ledger before they are raised. So whoever works on it next puts them back, if this
process does not. They are raised before the run's first job is sent, and stay as long as a run that wants it has
something to send or outstanding; the last one ends it. What a person changes meanwhile is left alone.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import anyio
import msgspec

from orchestrator.client.jobs.refusals import RefusedError
from orchestrator.core.gates.scaling_override import (
    Bounds,
    ScalingOverride,
    WantedWorkers,
    is_changed_by_hand,
    raised,
    restored,
)
from orchestrator.core.service.profiles import address_of, is_by_url
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.ports.account_endpoints import AccountEndpoints
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.service_registry import ServiceRegistry
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import OrchestratorError, StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.endpoints import LentEndpoint
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.words_and_defaults import LOCAL, REST_URL_DEFAULT, SERVERLESS_URL_DEFAULT

LOOK_EVERY_S: Final = 5.0
"""How often it is looked whether anybody still wants what was raised."""

END_S_MAX: Final = 20.0
"""How long a process that ends may take to put back what it raised; the rest is left to the next."""

GONE: Final = 404
SERVER_ERROR_MIN: Final = 500


class PutBack(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an endpoint's bounds that were raised."""

    endpoint: str
    service_url: str
    before: Bounds
    raised: Bounds
    now: Bounds | None
    """As they are; None where that could not be found out."""

    is_put_back: bool
    """Whether nothing is left to be done about it."""

    outcome: str = msgspec.field(name="told")
    """What was done, or why not, for people."""


def knows_account(rest_url: str, service_url: str) -> bool:
    """Whether endpoints of that service are those of the account there: another service has another REST interface."""
    if is_by_url(service_url):
        return False
    return rest_url != REST_URL_DEFAULT or address_of(service_url) == SERVERLESS_URL_DEFAULT


class WorkerScaling:
    """The bounds of endpoints' workers, as the runs of one ledger want them."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        runs: RunRegistry,
        services: ServiceRegistry,
        dependencies: Dependencies,
        console: Console,
    ) -> None:
        self._ledger = ledger
        self._runs = runs
        self._services = services
        self._dependencies = dependencies
        self._console = console
        self._lent: dict[int, LentEndpoint] | None = None
        """By the numbers of their endpoints; None: nobody has looked yet."""

        self._settled: set[int] = set()
        """The endpoints where the runs at work have what they want, or a person has the last word."""

        self._turn = anyio.Lock()

    async def raise_for(self, run: Run) -> None:
        """Sees that `run`, which is about to be sent, has the workers that it wants. Raises `UsageError` where that
        cannot be.
        """
        wish = self._wish_of(run)
        if not wish.is_any:
            return
        if run.service_url == LOCAL:
            raise UsageError(f"{run.endpoint} is a function of yours: it has no workers that {_named(wish)} raises")
        if not knows_account(self._services.rest_url, run.service_url):
            raise UsageError(
                f"{_named(wish)} needs <setting rest-url>: where is the REST interface that goes with"
                f" {run.service_url}?"
            )
        async with self._turn:
            try:
                await self._raise(run, wish)
            except OrchestratorError as error:
                raise UsageError(
                    f"{_named(wish)}: {run.endpoint} cannot be given the workers: {error}; no job was sent for it"
                ) from error

    async def look(self) -> None:
        """Puts back what nobody wants any more, and raises what somebody wants again. Raises `OrchestratorError` where
        something could not be put back: it is tried again.
        """
        lent = await self._known()
        wanted = {session.run.endpoint_id for session in self._wanting()}
        self._settled &= wanted
        for session in list(self._wanting()):
            if session.run.endpoint_id not in self._settled:
                try:
                    await self.raise_for(session.run)
                except UsageError as error:
                    self._console.warn(error.message)
                self._settled.add(session.run.endpoint_id)
        failed = None
        for number in [number for number in lent if number not in wanted]:
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
        """Puts everything back that was raised for runs of this ledger, by whichever process."""
        lent = await self._known()
        async with self._turn:
            return [await self._put_back(each) for each in list(lent.values())]

    # --- how it is done

    async def _known(self) -> dict[int, LentEndpoint]:
        if self._lent is None:
            self._lent = {each.endpoint_id: each for each in await self._ledger.runs.scaling_overrides.all()}
        return self._lent

    def _wanting(self) -> Iterator[RunSession]:
        """The runs at work that want anything, and have something to send or outstanding."""
        for session in self._runs.sessions.values():
            if not self._wish_of(session.run).is_any or session.run.service_url == LOCAL or session.is_over:
                continue
            if not session.controls.pause or session.progress.at_service:
                yield session

    async def _raise(self, run: Run, wish: WantedWorkers) -> None:
        lent = await self._known()
        endpoints = self._endpoints(run.service_url, self._services.rest_url)
        now = await endpoints.bounds(run.endpoint)
        known = lent.get(run.endpoint_id)
        self._settled.add(run.endpoint_id)
        if known is not None and is_changed_by_hand(known.loan, now):
            self._console.warn(f"{run.endpoint}: somebody has made it {now} meanwhile; it is left so")
            return
        before = now if known is None else known.loan.before
        others = [self._wish_of(each.run) for each in self._wanting() if each.run.endpoint_id == run.endpoint_id]
        wanted = raised(before, [wish, *others])
        if wanted == now:
            return
        loan = ScalingOverride(before=before, raised=wanted)
        lent[run.endpoint_id] = LentEndpoint(
            endpoint_id=run.endpoint_id,
            service_url=run.service_url,
            endpoint=run.endpoint,
            rest_url=self._services.rest_url,
            loan=loan,
            lent_at=self._ledger.now(),
        )
        await self._ledger.runs.scaling_overrides.write(run.endpoint_id, self._services.rest_url, loan)
        try:
            await endpoints.set_bounds(run.endpoint, wanted)
        except RefusedError as error:
            if error.status < SERVER_ERROR_MIN:  # nothing has changed
                await self._forget(lent[run.endpoint_id])
                if known is not None:
                    lent[run.endpoint_id] = known
                    await self._ledger.runs.scaling_overrides.write(run.endpoint_id, known.rest_url, known.loan)
            raise
        self._console.info(f"{run.endpoint}: {wanted} instead of {before}, as long as {run.name} is at work")

    def _wish_of(self, run: Run) -> WantedWorkers:
        settings = self._runs.settings_of[run.id]
        return WantedWorkers(least=settings.workers_min, most=settings.workers_max)

    def _endpoints(self, service_url: str, rest_url: str) -> AccountEndpoints:
        service = self._services.at(service_url)
        if service is None:
            raise UsageError(f"there is no API key for {service_url}")
        return self._dependencies.account(service, rest_url)

    async def _tried(self, lent: LentEndpoint) -> OrchestratorError | None:
        done = await self._put_back(lent)
        return None if done.is_put_back else OrchestratorError(f"{done.endpoint}: {done.outcome}")

    async def _put_back(self, lent: LentEndpoint) -> PutBack:
        loan, now = lent.loan, None
        try:
            endpoints = self._endpoints(lent.service_url, lent.rest_url)
            now = await endpoints.bounds(lent.endpoint)
            then = restored(loan, now)
            if then != now:
                await endpoints.set_bounds(lent.endpoint, then)
        except OrchestratorError as error:
            if getattr(error, "status", None) != GONE:
                return self._came(lent, now, f"its workers could not be put back: {error}", is_put_back=False)
            told = "the endpoint is gone"
        else:
            told = f"{then} again"
            if is_changed_by_hand(loan, now):
                told = f"somebody has made it {now} meanwhile; it is left so"
            now = then
        await self._forget(lent)
        self._console.info(f"{lent.endpoint}: {told}")
        return self._came(lent, now, told, is_put_back=True)

    def _came(self, lent: LentEndpoint, now: Bounds | None, told: str, *, is_put_back: bool) -> PutBack:
        return PutBack(
            endpoint=lent.endpoint,
            service_url=lent.service_url,
            before=lent.loan.before,
            raised=lent.loan.raised,
            now=now,
            is_put_back=is_put_back,
            outcome=told,
        )

    async def _forget(self, lent: LentEndpoint) -> None:
        await self._ledger.runs.scaling_overrides.forget(lent.endpoint_id)
        if self._lent is not None:
            self._lent.pop(lent.endpoint_id, None)


def _named(wish: WantedWorkers) -> str:
    return "<setting workers-max>" if wish.most is not None else "<setting workers-min>"
