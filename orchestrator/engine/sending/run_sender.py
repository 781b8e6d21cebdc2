"""One run's part in the sending at an endpoint: whether jobs of it may go, and which."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from orchestrator.core.gates import gates
from orchestrator.core.gates.gates import Closed, GateResult, Hold, Open
from orchestrator.core.jobs.job import Job
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.fair_share import weight_of
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.engine.pools.member_line import MemberLine
from orchestrator.engine.runtime.poll_loop import SELDOM_S
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.sending.run_brakes import RunBrakes
from orchestrator.engine.sending.ttl_filter import TtlFilter
from orchestrator.ledger import Claim, Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.payloads import Payload
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.units import SECOND_US

AHEAD_US: Final = 250_000
"""Jobs are claimed for what can be sent within this time: of what a crash catches, some may be uncertain."""

LEFT_TO_RETRY_US: Final = 2 * SECOND_US
"""As many jobs wait for their `/retry` as may leave within this time. Where more are due, and `/run` has nothing else
to do, the others go by `/run`, which does the same and is sooner."""

IDLE_S: Final = 5.0

TRIED_AT_ONCE: Final = 3
"""So few jobs find out whether executions work, where all others leave in batches."""

SENDING: Final = (Operation.RUN, Operation.RUNSYNC, Operation.OPENAI, Operation.HTTP, Operation.RETRY)
"""The operations by which jobs leave. A run uses those of its `via`, and the last."""


class RunSender:
    """The jobs of one run for one endpoint, until they are claimed.

    `controls` is what people have asked of it; `progress` hears when there is nothing more to claim.
    """

    def __init__(
        self,
        *,
        run: int,
        endpoint: Endpoint,
        ledger: Ledger,
        builder: RequestBuilder,
        controls: Callable[[], RunControls],
        progress: Progress,
        brakes: RunBrakes,
    ) -> None:
        self.run = run
        self.brakes = brakes
        self.builder = builder
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = endpoint.clock
        self._controls = controls
        self._progress = progress
        self.member_line: MemberLine | None = None
        """What the endpoint takes as a member of the run's pool; None where it is in none."""

        self.waits_for: Callable[[], Hold] | None = None
        """What its jobs wait for, where none is ever sent to the endpoint: others take them from its line."""
        self.goes_by_run = False
        """Whether its jobs leave by `/run` for now, where they leave in batches else."""

        self._prospects = TtlFilter(endpoint)
        self._none_before = dict.fromkeys(SENDING, 0)
        """No job is due before, unless the feed tells of one."""

        self._has_queued = dict.fromkeys(SENDING, True)
        """As far as is known."""

        self._news = 0

    @property
    def weight(self) -> float:
        """How much of the endpoint is for this run, compared with 1 for an ordinary one."""
        return weight_of(self._endpoint.settings_of[self.run].priority)

    @property
    def at_service(self) -> int:
        """How many of its jobs the service may hold."""
        return self._progress.at_service

    def on_queued(self) -> None:
        """There may be something to claim."""
        self._news += 1
        if self.member_line is not None:
            self.member_line.on_queued()
        self._none_before = dict.fromkeys(self._none_before, 0)
        self._has_queued = dict.fromkeys(self._has_queued, True)

    def join(self, member_line: MemberLine | None) -> None:
        """The endpoint is a member of a pool from now on, or (None) of none."""
        self.member_line = member_line
        self.on_queued()

    def waits_here(self, job: Job) -> bool:
        """Whether this endpoint may take `job`, which is queued: it is bound to it, or in the line of its pool."""
        member_line = self.member_line
        return job.endpoint == self._endpoint.id or (member_line is not None and job.endpoint == member_line.home)

    @property
    def is_empty(self) -> bool:
        """Whether none of its jobs is queued for this endpoint, not even for later."""
        submits = all(self._has_queued[each] for each in self.builder.via.operations if each in self._has_queued)
        return not (submits or self._has_queued[Operation.RETRY])

    def is_lane_open(self, operation: Operation) -> bool:
        """Whether its jobs may leave by `operation` at all, as things are."""
        via = self.builder.via
        if operation is Operation.RUNSYNC and via is Via.BOTH:
            return self._endpoint.sync_places.are_worth
        if operation is Operation.RUN and via is Via.BATCH:
            return self.goes_by_run or self.brakes.find_out  # which is to take minutes, and not a night
        return operation is Operation.RETRY or operation in via.operations

    @property
    def trial_room(self) -> int | None:
        """How many more jobs may go by `/run` to find out whether executions work, while the others wait for that to
        leave in batches; None where that is no matter.
        """
        if self.builder.via is not Via.BATCH or self.goes_by_run or self.brakes.only() is not None:
            return None
        return max(0, TRIED_AT_ONCE - self.at_service)

    def gate(self, *, in_flight: int, by_retry: bool) -> GateResult:
        """Whether jobs may be claimed, and how many, where so many of all runs are claimed or on their way."""
        self._endpoint.runs.look_for_variables(self.run, self.builder.is_set)
        found = self._gate_results(self._controls(), in_flight=in_flight, by_retry=by_retry)
        at_endpoint = self._endpoint.outstanding.number + in_flight
        return gates.narrowest(
            found + self.brakes.gate_results(self._endpoint, at_endpoint=at_endpoint, by_retry=by_retry)
        )

    def _gate_results(self, controls: RunControls, *, in_flight: int = 0, by_retry: bool = False) -> list[GateResult]:
        """What the gates of the run and of its endpoint say, where people ask for `controls`."""
        endpoint = self._endpoint
        run_facts = endpoint.runs.facts(self.run, cancelled=controls.cancel, paused=controls.pause)
        endpoint_facts = endpoint.health.facts(in_flight=in_flight, by_retry=by_retry)
        results = gates.run_results(run_facts, endpoint_facts, self._clock.now())
        if self.waits_for is not None:
            results.append(Closed(self.waits_for()))
        if self.member_line is not None and (gate := self.member_line.gate) is not None:
            results.append(gate)
        return results

    @property
    def blocked_by(self) -> Hold | None:
        """Why nothing is sent, or single ones only, but for what people ask; None where nothing is wrong."""
        brakes = self.brakes.gate_results(self._endpoint, at_endpoint=self._endpoint.outstanding.number)
        return gates.first_hold([*self._gate_results(RunControls()), *brakes])

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of it is sent here before somebody does something."""
        return self._endpoint.why_stopped(self.run) or self.brakes.why_stopped

    @property
    def hold(self) -> Hold | None:
        """Which brake holds the run; see `RunBrakes.hold`."""
        return self.brakes.hold(self._endpoint, at_endpoint=self._endpoint.outstanding.number)

    @property
    def crawl_s(self) -> float | None:
        """How long a job takes while single ones find out whether all may go; see `RunReport.crawl_s`."""
        us = self.brakes.crawl_us
        return None if us is None else us / SECOND_US

    @property
    def is_recalled(self) -> bool:
        """Whether not even what is claimed may be sent."""
        return gates.recalls(self._gate_results(self._controls()))

    async def claim(self, operation: Operation, most: int) -> list[Claim]:
        """Claims jobs that are due for `operation`, as far as they are worth sending."""
        if operation is Operation.RUNSYNC:
            self._endpoint.sync_places.announce()
        settings, only = self._endpoint.settings_of[self.run], self.brakes.only()
        chunk = settings.chunk if operation is Operation.RUN else None
        if chunk is not None:  # where only so many rows may go, fewer requests may
            result = self.gate(in_flight=len(self._endpoint.claimed), by_retry=False)
            chunk, most = chunk.for_most(
                result.most if isinstance(result, Open) else None, most, alone=only is not None
            )
        line = ClaimLine(
            self.run,
            self._endpoint.id,
            operation is Operation.RETRY,
            self._ttl_us,
            only=only,
            is_sync=operation is Operation.RUNSYNC,
            chunk=chunk,
        )
        member_line = self.member_line
        if line.by_retry or member_line is None:
            return await self._claim_along(line, most)
        if member_line.is_home:
            return await self._claim_along(member_line.along_home(line), most)
        bound: list[Claim] = []
        if member_line.may_be_bound:
            with self.brakes.claiming(line.rows_at_once(most)):
                bound = await member_line.claim_bound(line, most)
        left = min(most - len(bound), member_line.share)
        if left <= 0 or self._endpoint.claimed.room_bytes <= 0:
            return bound
        return bound + await self._claim_along(member_line.along_home(line), left)

    async def _claim_along(self, line: ClaimLine, most: int) -> list[Claim]:
        claimed_jobs, take = self._endpoint.claimed, self._ledger.jobs.claims.take
        if line.by_retry:
            with self.brakes.claiming(most):
                claims = (await take(line, most=most, bytes_max=claimed_jobs.room_bytes)).claims
            claimed_jobs.add(claims)
            return claims
        outlook = self._prospects.outlook()
        line = replace(line, is_late=outlook.is_late)
        behind = self._prospects.behind(outlook)
        settings = self._endpoint.settings_of[self.run]
        with self.brakes.claiming(line.rows_at_once(most)):
            claimed = await take(
                replace(line, behind=behind), most=most, bytes_max=claimed_jobs.room_bytes, settings=settings
            )
        claimed_jobs.add(claimed.claims)
        self._prospects.looked(behind, claimed)
        claims = claimed.claims
        if (room := most - len(claims)) and self._retries_are_due:
            left = self._endpoint.api.limiter.available(Operation.RETRY, LEFT_TO_RETRY_US)
            with self.brakes.claiming(room):
                instead = (await take(line, most=room, bytes_max=claimed_jobs.room_bytes, left_to_retry=left)).claims
            claimed_jobs.add(instead)
            claims = claims + instead
        return await self._prospects.without_hopeless(claims, outlook, self._ledger)

    @property
    def _retries_are_due(self) -> bool:
        """Whether jobs may wait for their `/retry` that could leave by `/run` now, as far as is known."""
        is_due = self._has_queued[Operation.RETRY] and self._none_before[Operation.RETRY] <= self._clock.now()
        return is_due and self.builder.via.has_queue and self.brakes.only() is None

    def _ttl_us(self, payload: Payload) -> int:
        """How long a job lasts there, in time of here."""
        return self._endpoint.estimates.here_us(self.builder.ttl_us(payload))

    async def look_ahead(self, operation: Operation) -> None:
        """Finds out when to look again for jobs that are due for `operation`; those that come are told of."""
        news, was_empty = self._news, self.is_empty
        due_at, has_queued = await self._next_due_at(operation)
        if news == self._news:  # else what was told of may not have been seen
            self._none_before[operation] = due_at
            self._has_queued[operation] = has_queued
            if self.is_empty and not was_empty:
                self._progress.nudge()

    async def _next_due_at(self, operation: Operation) -> tuple[int, bool]:
        """When another job of the run is due for `operation`, or to look again: the feed tells of those to come; and
        whether any is queued for it.

        It does not tell when a job that waits for its `/retry` may leave by `/run` instead.
        """
        now = self._clock.now()
        submits = operation is not Operation.RETRY
        after = self._prospects.passed_until if submits else -1
        if after is None:
            return now, True
        due_at = await self._next_queued_at(operation is Operation.RETRY, now, after)
        if due_at is not None:
            return due_at, True
        retry_at = await self._next_queued_at(True, now) if submits else None
        may_turn, idle_at = retry_at is not None, now + int(IDLE_S * SECOND_US)
        if retry_at is not None and retry_at > now:  # once it is due, more may be than `/retry` has room for
            idle_at = min(idle_at, max(retry_at, now + AHEAD_US))
        are_passed_over = submits and self._prospects.are_passed_over
        return idle_at if may_turn else now + int(SELDOM_S * SECOND_US), may_turn or are_passed_over

    async def _next_queued_at(self, by_retry: bool, now: int, after: int = -1) -> int | None:
        if by_retry or self.member_line is None:
            return await self._ledger.jobs.next_queued_at(
                self.run, endpoint=self._endpoint.id, by_retry=by_retry, now=now, after=after
            )
        return await self.member_line.next_queued_at(now, after)

    def none_s(self, operation: Operation) -> float:
        """Seconds after which to look again, where no job is due before; 0 for at once.

        Until then jobs that were passed over may become worth sending, which nobody tells.
        """
        if not self.is_lane_open(operation):
            return IDLE_S
        none_s = max(0.0, (self._none_before[operation] - self._clock.now()) / SECOND_US)
        if operation is Operation.RETRY or not self._prospects.are_passed_over:
            return none_s
        return 0.0 if self._prospects.have_changed() else min(none_s, AHEAD_US / SECOND_US)
