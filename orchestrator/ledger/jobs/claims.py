"""Claims: jobs that are ours to send, marked so, durably, before anything leaves (as a lease). The intent is durable
before a request leaves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.chunks.chunk_steps import claimed_together
from orchestrator.core.chunks.chunk_terms import ChunkTerms, packed
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.reasons import Detail, ReasonCode
from orchestrator.core.jobs.result_reuse import with_saved_members
from orchestrator.core.jobs.segments import Resume
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.database import ClashError
from orchestrator.ledger.jobs.claim_queue import HEAD, ClaimableJob, ClaimLine, Passed, Walk, queue_walk
from orchestrator.ledger.jobs.payloads import Payload, custom_ids_of, references_of, secret_names_add, secret_names_all
from orchestrator.ledger.jobs.result_reuse import results_carry_over, results_reuse
from orchestrator.ledger.transactions.repository import Access, asked_again
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.segment_writes import resumes_of
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MIB

CLAIM_BYTES_MAX: Final = 64 * MIB
"""The inputs of one claim come to no more, unless it is a single one."""

CHUNK_BYTES_MAX: Final = 9 * MIB
"""The inputs of a chunk come to no more, unless it is a single one: a request may have 10 MB."""

BRIEF_MAX: Final = 100
BRIEF_BYTES: Final = 4 * MIB
"""A claim of so few jobs, with inputs of so few bytes (or of a chunk's), none of which goes on from a checkpoint or has
the result of another, takes some milliseconds, and shares its transaction.
"""

_ALL_ARE_SENT: Final = RunSettings()

SLOTS: Final = 64
"""So many processes can claim at one ledger."""


def next_submission(latest: int, *, slot: int, now: int) -> int:
    """A number for the next submission of the process in `slot` that no other process can give, and none before it.

    It is the microsecond of the claim, rounded up to the next 64, and the slot. So it is not before the claim, and
    ahead of it by 64 us for each claim of the same moment: by 16 ms where 250 are claimed at once. Numbers would run
    away from the clock at over 15,000 claims a second, for as long as that lasted.
    """
    floor = max(now, latest - latest % SLOTS + 1)
    return -(-floor // SLOTS) * SLOTS + slot


def slot_of(submission: int) -> int:
    """The slot of the process that gave this number."""
    return submission % SLOTS


class Claim(msgspec.Struct, frozen=True):
    """A job that is ours to send, and what to send."""

    job: Job
    payload: Payload
    resume: Resume | None = None
    """From where it goes on, if it is resumable."""

    custom_id: str = ""
    """What the input calls it, where it travels in a chunk."""

    riders: tuple["Claim", ...] = ()
    """The others in its chunk."""

    @property
    def rows(self) -> tuple["Claim", ...]:
        """All that leaves with it."""
        return (msgspec.structs.replace(self, riders=()), *self.riders)

    @property
    def bytes(self) -> int:
        """What the inputs of all these come to."""
        return len(self.payload.input) + sum(len(each.payload.input) for each in self.riders)


class Claimed(msgspec.Struct, frozen=True):
    """What was claimed along the line, and how far that has come."""

    claims: list[Claim]
    passed: Passed
    is_at_end: bool
    """Whether nobody stands behind those who were met."""


class Claims:
    """Makes the claims of the process in `slot` of a ledger."""

    def __init__(self, access: Access, *, slot: int) -> None:
        self._access = access
        self.slot = slot
        self._latest = 0
        self.secret_names: frozenset[str] = frozenset()
        """The environment variables whose values have left with a submission, or are about to."""

    @asked_again
    async def prepare(self, latest: int) -> None:
        """Learns what the first claim needs; `latest` is the latest submission until now."""
        self._latest = latest
        async with self._access.reading() as connection:
            self.secret_names = await secret_names_all(connection)

    @asked_again
    async def secret_names_known(self) -> frozenset[str]:
        """The environment variables whose values have left with a submission, by whichever process."""
        async with self._access.reading() as connection:
            return await secret_names_all(connection)

    async def take(
        self,
        line: ClaimLine,
        *,
        most: int,
        bytes_max: int = CLAIM_BYTES_MAX,
        settings: RunSettings = _ALL_ARE_SENT,
        left_to_retry: int | None = None,
    ) -> Claimed:
        """Claims up to `most` due jobs of `line`, by `/retry` or by `/run`, or so many chunks of them; the intent is
        durable on return.

        They are the next ones along it, and their inputs come to no more than `bytes_max`, unless it is only one. Jobs
        whose TTL is late are passed over, and nothing is written. By the run's `settings`, where they are to count,
        each of a resumable one begins a segment, with its newest checkpoint. One that has succeeded in the run that it
        takes over, or may reuse a result that is there, has that at once, and is not among the claims; with `once` a
        result of the run's own, for which it waits while another job with the same input is on its way.

        `left_to_retry`: jobs that are due by `/retry` go by `/run`, but for the first so many, and those of which a
        request came to nothing: whatever that was, it may be made up for by the same request only.
        """
        by_retry, is_resumable = line.by_retry, settings.resumable
        takes_results = settings.reuse is not None or settings.once
        rows = line.rows_at_once(most)
        is_brief = rows <= BRIEF_MAX and not is_resumable and not takes_results and settings.takes_over is None
        bytes_most = min(bytes_max, CHUNK_BYTES_MAX if line.chunk else BRIEF_BYTES) if is_brief else bytes_max
        walked = line if left_to_retry is None else replace(line, by_retry=True)

        async def block(transaction: Transaction) -> tuple[Claimed, frozenset[str]]:
            now = self._access.now()
            seen = await queue_walk(
                transaction.connection, walked, now=now, most=rows + (left_to_retry or 0), bytes_max=bytes_most
            )
            if left_to_retry is not None:
                instead = [found for found in seen.found[left_to_retry:] if not found.job.deferrals]
                seen = Walk(instead, HEAD, is_at_end=True)
            if not seen.found:
                return Claimed([], seen.passed, seen.is_at_end), frozenset()
            seen, why = await _left_to_send(transaction, seen, line, settings, now=now)
            chunks, seen = _chunks_in(seen, line, most)
            payloads = {found.job.id: found.payload for found in seen.found}
            if fresh := references_of(payloads.values()) - self.secret_names:
                await secret_names_add(transaction.connection, fresh)
            if by_retry:
                taken = [transitions.claimed_for_retry(found.job, at=now) for found in seen.found]
            else:
                taken = [
                    self._claimed_for_run(found, line, now, is_resumable, why.get(found.job.id)) for found in seen.found
                ]
            done = await transaction.apply(_together(taken, chunks) if chunks else taken)
            if chunks:
                if len(done) < len(taken):
                    raise ClashError("rows of a chunk are others by now")
                claims = await _chunk_claims(transaction.connection, done, payloads)
            else:
                resumes = await resumes_of(transaction.connection, done) if is_resumable else {}
                claims = [Claim(step.after, payloads[step.after.id], resumes.get(step.after.id)) for step in done]
            return Claimed(claims, seen.passed, seen.is_at_end), fresh

        shared = self._access.shared
        claimed, fresh = await (shared.write_briefly(block) if is_brief else shared.write(block))
        self.secret_names |= fresh
        return claimed

    def _claimed_for_run(
        self, found: ClaimableJob, line: ClaimLine, now: int, is_resumable: bool, not_reused: str | None
    ) -> Transition:
        self._latest = next_submission(self._latest, slot=self.slot, now=now)
        step = transitions.claimed(
            found.job,
            submission=self._latest,
            ttl_us=found.ttl_us,
            at=now,
            is_resumable=is_resumable,
            endpoint=line.taker,
            is_sync=line.is_sync,
            batch=line.batch,
        )
        return step if not_reused is None else _not_reused(step, not_reused)


async def _left_to_send(
    transaction: Transaction, seen: Walk, line: ClaimLine, settings: RunSettings, *, now: int
) -> tuple[Walk, Mapping[int, str]]:
    """Those of `seen` that have no result of another job, and why some could have none."""
    why: Mapping[int, str] = {}
    if settings.takes_over is not None and not line.by_retry:
        left, is_cut = await results_carry_over(transaction, seen.found, settings.takes_over, now=now)
        seen = Walk(left, line.behind if is_cut else seen.passed, seen.is_at_end and not is_cut)
    if (settings.reuse is not None or settings.once) and not line.by_retry:
        reuse = with_saved_members(settings.reuse, settings.saved_members)
        looked = await results_reuse(
            transaction, seen.found, reuse, once=settings.once, endpoint=line.endpoint, now=now
        )
        why = looked.why
        passed = line.behind if looked.is_cut else seen.passed
        seen = Walk(looked.left, passed, seen.is_at_end and not looked.is_cut)
    return seen, why


def _chunks_in(seen: Walk, line: ClaimLine, most: int) -> tuple[list[list[ClaimableJob]], Walk]:
    """Up to `most` chunks of what was `seen`, and what is in them; none where each travels by itself."""
    if line.chunk is None or line.by_retry:
        return [], seen
    chunks = _packed(seen.found, line.chunk, has_more=not seen.is_at_end)
    del chunks[most:]
    found = [each for chunk in chunks for each in chunk]
    is_cut = len(found) < len(seen.found)
    return chunks, Walk(found, line.behind if is_cut else seen.passed, seen.is_at_end and not is_cut)


def _packed(found: Iterable[ClaimableJob], terms: ChunkTerms, *, has_more: bool) -> list[list[ClaimableJob]]:
    """Those that travel together, where others may follow, if it `has_more`. They have the same settings and the same
    troubles behind them, so that what happens to one of them happens to all.
    """
    return packed(
        found,
        terms,
        key_of=lambda each: (
            *(each.payload.policy, each.payload.s3_config, each.ttl_us),
            *(each.job.escalated, each.job.lost, each.job.uncertain, each.job.expired, each.job.endpoint),
        ),
        size_of=lambda each: len(each.payload.input),
        most_of=lambda each: each.job.chunk_most,
        bytes_max=CHUNK_BYTES_MAX,
        has_more=has_more,
    )


def _together(taken: Sequence[Transition], chunks: Sequence[Sequence[ClaimableJob]]) -> list[Transition]:
    """The claims `taken` of rows that travel in these `chunks`, in the same order."""
    made: list[Transition] = []
    for each in chunks:
        steps = taken[len(made) : len(made) + len(each)]
        lead = steps[0].after.submission or 0
        made += [claimed_together(step, lead=lead, rows=len(each)) for step in steps]
    return made


async def _chunk_claims(
    connection: AsyncConnection, done: Iterable[Transition], payloads: Mapping[int, Payload]
) -> list[Claim]:
    """The claims `done`, each of a lead with its riders."""
    jobs = [step.after for step in done]
    names = await custom_ids_of(connection, [job.id for job in jobs])
    found: dict[int | None, list[Claim]] = {}
    for job in jobs:
        found.setdefault(job.chunk, []).append(Claim(job, payloads[job.id], custom_id=names[job.id]))
    return [replace(lead, riders=tuple(riders)) for lead, *riders in found.values()]


def _not_reused(step: Transition, because: str) -> Transition:
    return replace(step, reason=ReasonCode.NOT_REUSED, detail=Detail(because=because))
