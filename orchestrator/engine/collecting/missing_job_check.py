"""Whether an endpoint is well, where jobs are missing there: then they are to blame, and not the endpoint."""

from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.core.service.health import health_of
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Ledger
from orchestrator.units import SECOND_US


@dataclass(kw_only=True, eq=False)
class MissingJobCheck:
    """Of one endpoint. `outstanding` is how many jobs are collected there."""

    endpoint: Endpoint
    ledger: Ledger
    outstanding: Callable[[], int]
    _well_at: int = field(init=False, default=0)
    _judged_at: int = field(init=False, default=0)
    _many_missing: bool = field(init=False, default=False)

    async def are_many_missing(self, now: int) -> bool:
        """Whether the endpoint is to blame; found out once a second, since it may take a look at the ledger."""
        if now >= self._judged_at + SECOND_US:
            self._many_missing = await self.endpoint.health.missing_jobs.are_many(
                now,
                outstanding=self.outstanding(),
                sent_since=lambda first: self.ledger.submissions.accepted_since(
                    endpoint_id=self.endpoint.id, first=first
                ),
            )
            self._judged_at = now  # not before: who asks meanwhile is not to go by what was true a second ago
        return self._many_missing

    async def is_well(self, since: int) -> bool:
        """Whether the endpoint has answered `/health` since then; whoever waits in line shares the answer."""
        permit = await self.endpoint.api.health_permit()
        if permit is None:
            return self._well_at >= since
        if self._well_at >= since:
            permit.give_back()
            return True
        try:
            answer = await self.endpoint.api.health(permit)
        except (NotSent, Unanswered):
            return False
        if health_of(answer.status, answer.body) is None:
            return False
        self._well_at = answer.sent_at
        return True
