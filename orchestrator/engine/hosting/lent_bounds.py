"""Bounds of workers that were changed for runs: in the ledger before the account is asked, and put back by whoever
works on the ledger then.
"""

from typing import Final

import msgspec

from orchestrator.client.jobs.refusals import RefusedError
from orchestrator.core.gates.scaling_override import Bounds, ScalingOverride, is_changed_by_hand, restored
from orchestrator.engine.ports.account_endpoints import AccountEndpoints
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.service_registry import ServiceRegistry
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.endpoints import LentEndpoint
from orchestrator.ledger.runs.runs import Run

GONE: Final = 404


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

    @property
    def named(self) -> str:
        """What it is, for people."""
        return self.endpoint


class LentBounds:
    """Those of the endpoints in a scope, whichever process has changed them."""

    def __init__(
        self, *, ledger: Ledger, scope: Scope, services: ServiceRegistry, dependencies: Dependencies, console: Console
    ) -> None:
        self._scope = scope
        self._ledger = ledger
        self._services = services
        self._dependencies = dependencies
        self._console = console
        self._lent: dict[int, LentEndpoint] = {}
        """By the numbers of their endpoints."""

        self._looked_at: frozenset[int] | None = None
        """The endpoints that were in the scope at the last look; None: nobody has looked yet."""

    async def known(self) -> dict[int, LentEndpoint]:
        """The loans that nobody has put back yet, by the numbers of their endpoints."""
        ours = frozenset(self._scope.endpoints or ())
        if ours != self._looked_at:
            lent = await self._ledger.runs.scaling_overrides.all()
            before = self._looked_at
            if ours != before:  # another one may have looked meanwhile, and have lent something since
                fresh = [each for each in lent if before is None or each.endpoint_id not in before]
                self._lent |= {each.endpoint_id: each for each in fresh if self._scope.has(each.endpoint_id)}
                self._looked_at = ours
        return self._lent

    def endpoints(self, service_url: str, rest_url: str) -> AccountEndpoints:
        """Those of the account there. Raises `UsageError` where there is no key for it."""
        return self._dependencies.account(self._services.needed(service_url), rest_url)

    async def change(
        self,
        run: Run,
        endpoints: AccountEndpoints,
        known: LentEndpoint | None,
        *,
        before: Bounds,
        now: Bounds,
        wanted: Bounds,
    ) -> None:
        """Makes the endpoint of `run` `wanted`, which it is `now`, and was `before` all this; `known` is the loan until
        now. Raises what the account's calls do: after a refusal all is as it was, else nobody knows.
        """
        lent = await self.known()
        loan = ScalingOverride(before=before, raised=wanted, former=None if known is None else now)
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
            if error.had_no_effect:
                await self._forget(lent[run.endpoint_id])
                if known is not None:
                    await self._note(known)
            raise
        await self.confirm(lent[run.endpoint_id])

    async def confirm(self, lent: LentEndpoint) -> None:
        """The account has carried out what it was asked for last."""
        if lent.loan.former is not None:
            done = msgspec.structs.replace(lent.loan, former=None)
            await self._note(msgspec.structs.replace(lent, loan=done))

    async def _note(self, lent: LentEndpoint) -> None:
        """It is as `lent` says, and has been since then."""
        (await self.known())[lent.endpoint_id] = lent
        write = self._ledger.runs.scaling_overrides.write
        await write(lent.endpoint_id, lent.rest_url, lent.loan, at=lent.lent_at)

    async def put_back(self, lent: LentEndpoint) -> PutBack:
        """Puts it back, but for what somebody has changed. Raises `StorageError` alone."""
        loan, now = lent.loan, None
        try:
            endpoints = self.endpoints(lent.service_url, lent.rest_url)
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
        self._lent.pop(lent.endpoint_id, None)
