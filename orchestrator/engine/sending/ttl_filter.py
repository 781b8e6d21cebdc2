"""Which jobs of a run have a TTL that leaves room for them: the others are passed over, and go as soon as it does."""

from typing import Final

import anyio
from msgspec.structs import replace

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.polling.admission import TtlOutlook, TtlVerdict
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.lanes.response_steps import rejected
from orchestrator.ledger import Claim, Ledger
from orchestrator.ledger.jobs.claim_queue import HEAD, Passed
from orchestrator.ledger.jobs.claims import Claimed
from orchestrator.units import MINUTE_US

AGAIN_US: Final = MINUTE_US
"""So often those are looked at again that had waited for a time: a job whose `/retry` came to nothing may be there."""


class TtlFilter:
    """How far one run's claims have passed jobs over."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clock = endpoint.clock
        self._passed = HEAD
        self._again_at = 0
        self._latest = Claimed([], HEAD, is_at_end=True)
        self._told: set[TtlVerdict] = set()

    def outlook(self) -> TtlOutlook:
        """Which TTLs can be met now."""
        return TtlOutlook(self._endpoint.estimates.durations, is_idle=self._endpoint.is_idle)

    def behind(self, outlook: TtlOutlook) -> Passed:
        """Behind whom the next look begins: those who were passed over, while they all are late.

        When some are not it begins at the head, and yet they are remembered: a moment without jobs at the endpoint lets
        a few of a million go, and the others need not be met again.
        """
        if outlook.of(self._passed.ttl_us) is not TtlVerdict.LATE:
            return HEAD
        return replace(self._passed, due_at=0, due_job=0) if self._is_due_again() else self._passed

    def looked(self, behind: Passed, claimed: Claimed) -> None:
        """The look that began `behind` those came so far."""
        self._latest = replace(claimed, claims=[])
        if not self.are_passed_over:
            return
        self._passed = claimed.passed
        if not behind.due_at or not (claimed.claims or claimed.is_at_end):
            self._again_at = self._clock.now() + AGAIN_US
        self.tell(TtlVerdict.LATE, claimed.passed.ttl_us)

    @property
    def are_passed_over(self) -> bool:
        """Whether the latest look has met jobs that are late, or began behind such."""
        return self._latest.passed.ttl_us > 0

    @property
    def passed_until(self) -> int | None:
        """All that were due until then are claimed or passed over; None where the latest look did not get so far."""
        if not self.are_passed_over:
            return -1
        return self._latest.passed.due_at if self._latest.is_at_end else None

    def have_changed(self) -> bool:
        """Whether somebody may be worth sending whom the latest look has passed over."""
        return self.are_passed_over and self.behind(self.outlook()) != self._latest.passed

    def _is_due_again(self) -> bool:
        return self._passed.due_at > 0 and self._clock.now() >= self._again_at

    async def without_hopeless(self, claims: list[Claim], outlook: TtlOutlook, ledger: Ledger) -> list[Claim]:
        """Those of `claims` that are not given up, as no execution is as short as their TTL."""
        good: list[Claim] = []
        hopeless: list[Transition] = []
        for claim in claims:
            ttl_us = (claim.job.ttl_at or 0) - (claim.job.sent_at or 0)
            if outlook.of(ttl_us) is TtlVerdict.HOPELESS:
                self._endpoint.claimed.release(claim.job.id)
                hopeless.append(self.hopeless(claim.job, ttl_us))
            else:
                good.append(claim)
        if hopeless:
            with anyio.CancelScope(shield=True):
                await ledger.writer.apply(hopeless)
        return good

    def hopeless(self, job: Job, ttl_us: int) -> Transition:
        """The step of `job`, which is not sent, as no execution is as short as its TTL."""
        self.tell(TtlVerdict.HOPELESS, ttl_us)
        message = (
            f"not sent: its TTL of {format_duration(ttl_us)} is over before even the fastest executions here have "
            "finished"
        )
        return rejected(job, message, now=self._clock.now())

    def tell(self, prospect: TtlVerdict, ttl_us: int) -> None:
        """Says once what becomes of jobs whose TTL is too short, and what helps."""
        if prospect in self._told:
            return
        self._told.add(prospect)
        ttl = format_duration(ttl_us)
        if prospect is TtlVerdict.LATE:
            self._endpoint.warn(
                f"jobs with a TTL of {ttl} wait here until the endpoint's queue is shorter: they would probably die in "
                f"it; a longer <setting ttl> lets them go now"
            )
        else:
            self._endpoint.warn(
                f"jobs with a TTL of {ttl} are not sent: even the fastest executions at this endpoint take longer; "
                "give them a longer <setting ttl> and <setting retry-failed>"
            )
