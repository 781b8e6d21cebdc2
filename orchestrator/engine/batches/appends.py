"""Rows go into a draft. An append is never repeated in the same draft: where its answer is lost, it is counted what is
there, and a draft in which requests cannot be told apart is dropped; its rows go into another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from orchestrator.core.batches.appends import SHOWN_BY, Mixed, round_of, what_is_in
from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.batches.terms import APPEND_ROWS, BatchTerms, fewer_rows, more_rows
from orchestrator.core.batches.why import Why
from orchestrator.core.gates.gates import Closed
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.lanes.batch_outcomes import BatchChange, BatchRefused
from orchestrator.core.service.batches import BatchChanged, BatchPage, append_body
from orchestrator.core.service.outcomes import Gone, Uncertain
from orchestrator.engine.batches.batch_requests import BatchRequests, asked_s
from orchestrator.engine.batches.drafts import Drafts
from orchestrator.engine.batches.open_batch import OpenBatch
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.lanes.request_builder import UnusableInputError
from orchestrator.engine.lanes.response_steps import rejected
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Claim, Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.units import DAY_US, MINUTE_US

BATCH_LIFE_US: Final = 14 * DAY_US
"""For so long a job may be in a batch, as far as the ledger keeps its submission. The service names no bound."""

REQUEST_BYTES: Final = 16
"""What a request in a body has besides its input, at most."""


@dataclass(kw_only=True, eq=False)
class Appends:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    requests: BatchRequests
    drafts: Drafts

    async def add(self, found: OpenBatch, run: RunSender, most: int, terms: BatchTerms) -> None:
        """Claims rows for a draft, durably, and adds them."""
        now, claimed_jobs = self.endpoint.clock.now(), self.endpoint.claimed
        rows = round_of(found.counts.named) if found.batch.is_by_place else found.rows_next
        rows = min(most, rows, max(1, terms.call_bytes // (4 * REQUEST_BYTES)), _let_through(run, len(claimed_jobs)))
        bytes_max = min(terms.call_bytes - REQUEST_BYTES * (rows + 1), claimed_jobs.room_bytes)
        if bytes_max <= 0 or rows <= 0:
            found.put_off(now)
            return
        claims = await self._claim(found, run, rows, bytes_max)
        if not claims:
            found.none_before = now + MINUTE_US
            return
        claimed_jobs.add(claims)
        try:
            made = await self._with_bodies(claims, run)
            if found.batch.is_by_place:
                await self._add_singly(found, made)
            elif made:
                await self._add_together(found, made)
        finally:
            for claim in claims:
                claimed_jobs.release(claim.job.id)
        found.added_at = self.endpoint.clock.now()

    async def _claim(self, found: OpenBatch, run: RunSender, most: int, bytes_max: int) -> Sequence[Claim]:
        line = ClaimLine(
            run.run, self.endpoint.id, by_retry=False, ttl_of=lambda _: BATCH_LIFE_US, batch=found.batch.id
        )
        settings = self.endpoint.settings_of[run.run]
        with run.brakes.claiming(most):
            taken = await self.ledger.jobs.claims.take(line, most=most, bytes_max=bytes_max, settings=settings)
        return taken.claims

    async def _with_bodies(self, claims: Sequence[Claim], run: RunSender) -> list[tuple[Job, bytes]]:
        """The jobs whose inputs can be made, with their requests; the others are given up."""
        made, unusable = list[tuple[Job, bytes]](), []
        for claim in claims:
            try:
                made.append((claim.job, run.builder.row(claim)))
            except UnusableInputError as error:
                unusable.append(rejected(claim.job, f"not sent: {error}", now=self.endpoint.clock.now()))
        if unusable:
            await self.ledger.writer.apply(unusable)
        return made

    async def _add_together(self, found: OpenBatch, made: Sequence[tuple[Job, bytes]]) -> None:
        jobs, sent_at = [job for job, _ in made], self.endpoint.clock.now()
        outcome = await self._append(found, made)
        match outcome:
            case BatchChanged(request_ids=ids) if ids is not None:
                found.rows_next = more_rows(len(jobs))
                await self._named(found, jobs, ids, sent_at)
            case BatchChanged() if len(jobs) == 1:
                found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.DRAFT, is_by_place=True)
                await self._name_by_place(found, jobs, sent_at)
            case BatchChanged():
                await self.drafts.drop(found, Why.UNTOLD)
            case BatchRefused() if len(jobs) > 1:
                found.rows_next = fewer_rows(len(jobs))
                await self.drafts.give_back(jobs)
            case _:
                await self._not_added(found, jobs[0], outcome, jobs)

    async def _add_singly(self, found: OpenBatch, made: Sequence[tuple[Job, bytes]]) -> None:
        """Adds rows one by one, and finds their ids by their places."""
        added, sent_at = list[Job](), self.endpoint.clock.now()
        for n, (job, body) in enumerate(made):
            outcome = await self._append(found, [(job, body)])
            if isinstance(outcome, BatchChanged):
                added.append(job)
                continue
            await self._not_added(found, job, outcome, [job])
            if not isinstance(outcome, BatchRefused):
                await self.drafts.give_back([job for job, _ in made[n + 1 :]])
                break
        if added and found.batch.stage is BatchStage.DRAFT and not found.settle_at:
            await self._name_by_place(found, added, sent_at)

    async def _append(self, found: OpenBatch, made: Sequence[tuple[Job, bytes]]) -> BatchChange:
        def mark() -> None:
            for job, _ in made:
                self.ledger.marks.mark(job.submission or 0)

        body = append_body(request for _, request in made)
        return await self.requests.change(
            lambda calls, permit: calls.append(permit, found.remote_id, body, leaving=mark),
            found.remote_id,
            rows=len(made),
        )

    async def _not_added(self, found: OpenBatch, first: Job, outcome: BatchChange, jobs: Sequence[Job]) -> None:
        """`jobs` are not in the draft, as `outcome` says, or nobody knows."""
        now = self.endpoint.clock.now()
        match outcome:
            case Uncertain():
                found.doubt(now)
            case Gone():
                await self.drafts.gone(found)
            case BatchRefused(reason=reason):
                await self.ledger.writer.apply([rejected(first, reason, now=now)])
            case _:
                found.put_off(now, asked_s(outcome))
                await self.drafts.give_back(jobs)

    # --- which is which

    async def _name_by_place(self, found: OpenBatch, jobs: Sequence[Job], sent_at: int) -> None:
        """The ids of rows that were added one by one, by their places behind those that are known: of the first rows
        of a batch all places are looked at.
        """
        known = await self.ledger.runs.batches.ids(found.batch.id)
        behind = 0 if len(known) <= SHOWN_BY else len(known)
        listed = await self._listed(found, behind)
        if listed is None:
            if not found.settle_at:
                found.doubt(self.endpoint.clock.now())
            return
        matched = what_is_in(known[: len(known) - behind], listed, pending=len(jobs), is_by_place=True)
        if isinstance(matched, Mixed):
            await self.drafts.drop(found, matched.why)
        elif len(matched.ids) < len(jobs):
            await self.drafts.drop(found, Why.FEWER)
        else:
            await self._named(found, jobs, matched.ids, sent_at)

    async def _listed(self, found: OpenBatch, behind: int = 0) -> list[str] | None:
        """The ids of all requests of a draft `behind` that place, in their order; None where that is not known now, or
        it is to be dropped.
        """
        ids = list[str]()
        while True:
            page = await self.requests.page(found.remote_id, behind + len(ids))
            if not isinstance(page, BatchPage | BatchRefused | Gone):
                found.put_off(self.endpoint.clock.now(), asked_s(page))
                return None
            if isinstance(page, Gone):
                await self.drafts.gone(found)
                return None
            rows = page.rows if isinstance(page, BatchPage) else ()
            named = [row.record.remote_id for row in rows if row.record.remote_id is not None]
            if not isinstance(page, BatchPage) or len(named) < len(rows):
                await self.drafts.drop(found, Why.UNNAMED)
                return None
            ids += named
            if not page.has_more or not named:
                return ids

    async def _named(self, found: OpenBatch, jobs: Sequence[Job], ids: Sequence[str], sent_at: int) -> None:
        """These rows are in the batch under these ids, which no other job has."""
        given = [self.endpoint.remote_ids.give(each, job.id) for job, each in zip(jobs, ids, strict=True)]
        if not all(given):
            await self.drafts.drop(found, Why.FOREIGN)
            return
        now, found.troubles = self.endpoint.clock.now(), 0
        accepted = partial(transitions.accepted, sent_at=sent_at, at=now, reason=ReasonCode.BATCH)
        await self.ledger.writer.apply([accepted(job, remote_id=each) for job, each in zip(jobs, ids, strict=True)])

    async def settle(self, found: OpenBatch) -> None:
        """Finds out which of the rows that were claimed for a draft are in it, whoever has claimed them."""
        batches = self.ledger.runs.batches
        pending = [job for job in await batches.rows(found.batch.id) if job.remote_id is None]
        never_left = await self.ledger.never_left(pending)
        await self.drafts.give_back([job for job in pending if job.submission in never_left])
        left = [job for job in pending if job.submission not in never_left]
        if left:
            listed = await self._listed(found)
            if listed is None:
                return
            known = await batches.ids(found.batch.id)
            if len(listed) < len(known) + len(left) and self.endpoint.clock.now() < found.late_until:
                found.settle_at = found.late_until
                return
            matched = what_is_in(known, listed, pending=len(left), is_by_place=found.batch.is_by_place)
            if isinstance(matched, Mixed):
                await self.drafts.drop(found, matched.why)
                return
            there = left[: len(matched.ids)]
            if there:
                await self._named(found, there, matched.ids, there[0].sent_at or 0)
            await self.drafts.give_back(left[len(there) :])
        found.settle_at = 0


def _let_through(run: RunSender, claimed: int) -> int:
    """How many more rows the brakes of `run` let through, where so many are claimed."""
    gate = run.gate(in_flight=claimed, by_retry=False)
    if isinstance(gate, Closed):
        return 0
    return APPEND_ROWS if gate.most is None else gate.most
