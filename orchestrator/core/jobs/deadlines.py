"""When a result must have been collected (retention, TTL), when and how often to ask for it, and what a 404 means.

The service keeps a result for the retention after completion and deletes a job at its TTL, whatever its state
(contract, "States and transitions"). We know when a job was last certainly not finished; the result cannot expire
before that time plus the retention.
"""

from enum import Enum, auto
from typing import NamedTuple, Protocol

from orchestrator.core.jobs.job import Job
from orchestrator.ticks import TICK_US
from orchestrator.units import SECOND_US

ASK_GAP_US_MIN = 1 * SECOND_US
"""No job is asked for more often than once a second, whatever its deadline."""

WEBHOOK_SLACK_US = 30 * SECOND_US
"""How long after its predicted finish a job is left to its webhook: three tries take 20 s (contract, "Events")."""

LOST_GAP_US = 30 * SECOND_US
"""Two 404s this far apart, at a retention of 30 min, make a job lost; scaled with the retention."""

TTL_GRACE_US = 60 * SECOND_US
"""A job whose TTL has passed is asked for this much longer: clocks differ."""

RETENTION_US_DEFAULT = 30 * 60 * SECOND_US

EXPIRING_US = 10 * 60 * SECOND_US
"""So long before the first result may be gone, somebody should hear that nobody collects."""


WAKING_US = 2 * TICK_US
"""No margin is smaller: where an emulator's time runs very fast, less would be left than it takes us to wake up."""


def margin_us(retention_us: int) -> int:
    """How long before the last moment a result is asked for at the latest: a sixth of the retention."""
    return max(retention_us // 6, WAKING_US)


def hard_deadline(job: Job, retention_us: int) -> int:
    """When an outstanding job must have been asked for, in microseconds UTC.

    The earlier of last "not finished" + retention - margin, and shortly before its TTL (the result dies with the job).
    """
    unfinished_at, ttl_at = job.unfinished_at or 0, job.ttl_at
    deadline = unfinished_at + retention_us - margin_us(retention_us)
    if ttl_at is None:
        return deadline
    lifetime_us = ttl_at - (job.sent_at or unfinished_at)
    return min(deadline, ttl_at - min(margin_us(retention_us), max(lifetime_us // 10, WAKING_US)))


def safe_until(job: Job, retention_us: int) -> int:
    """Until when the result of an outstanding job is there for certain: its retention, or its TTL, which ends all."""
    retained_until = (job.unfinished_at or 0) + retention_us
    return retained_until if job.ttl_at is None else min(retained_until, job.ttl_at)


def margin_left(unfinished_at: int, retention_us: int, collected_at: int) -> int:
    """The time that was certainly left to a result collected at `collected_at`: a lower bound, may be negative."""
    return unfinished_at + retention_us - collected_at


LADDER = (0.7, 0.95, 0.995)
"""A job is asked for when this share of its like has finished, and again at the next rung when it had not: about 1.4
questions for each job, whatever the times are like.
"""

FEW = 50
"""The first jobs to finish are the quickest: while fewer than this have, twice their time is taken for the others'."""

WEBHOOK_RUNG = 0.999
"""With webhooks that arrive, only a job that is later than this share of its like is asked for."""


class Times(Protocol):
    """What is known of the times from submission to finish: of all jobs, or of one by its place in the queue."""

    @property
    def weight(self) -> float:
        """How many observations that stands on."""

    def quantile_us(self, share: float) -> int | None:
        """The time within which `share` (0-1) of them lay; None where nothing is known."""


class Ask(NamedTuple):
    """When to ask for a job next, in microseconds UTC, and whether it has then probably finished."""

    at: int
    is_likely: bool


def next_ask(
    job: Job,
    *,
    asked_at: int | None,
    learned: Times,
    webhooks: bool,
    retention_us: int,
    since: int | None = None,
) -> Ask:
    """When an outstanding job is to be asked for next, its hard deadline at the latest.

    `asked_at`: when it was last asked for, None if never. `since`: when the execution was asked for that is waited for,
    None for as its submission was sent. First at its predicted finish (or a second after it was
    sent, where nothing was learned yet), with webhooks that much later that all their tries have had their time; then
    at the later rungs of the ladder; beyond them at gaps of half its age (a quarter, if nothing is known);
    past the hard deadline at a pace that grows towards the last moment.
    """
    deadline = hard_deadline(job, retention_us)
    if asked_at is None:
        started_at = job.unfinished_at or 0
        wait = learned.quantile_us(WEBHOOK_RUNG if webhooks else LADDER[0])
        if wait is not None and not webhooks and learned.weight < FEW:
            wait *= 2
        slack = min(WEBHOOK_SLACK_US, retention_us // 4) if webhooks else 0
        wanted = started_at + max(wait or 0, ASK_GAP_US_MIN) + slack
        return Ask(max(min(wanted, deadline), started_at), is_likely=wait is not None and wanted <= deadline)
    if asked_at >= deadline:
        return Ask(asked_at + _late_gap(job, asked_at, retention_us), is_likely=False)
    age = asked_at - ((job.sent_at or 0) if since is None else since)
    rung = _next_rung(age, learned)
    gap = (
        max(ASK_GAP_US_MIN, min(age // (2 if learned.weight else 4), margin_us(retention_us)))
        if rung is None
        else rung - age
    )
    wanted = min(asked_at + gap, deadline)
    return Ask(max(wanted, asked_at + ASK_GAP_US_MIN), is_likely=rung is not None and wanted < deadline)


def _next_rung(age: int, learned: Times) -> int | None:
    """The age at the next rung of the ladder, unless that is so near that nothing will have changed."""
    for share in LADDER[1:]:
        rung = learned.quantile_us(share)
        if rung is not None and rung >= age + max(age // 8, ASK_GAP_US_MIN):
            return rung
    return None


def _late_gap(job: Job, asked_at: int, retention_us: int) -> int:
    """The gap after a question past the hard deadline: an eighth of what is left to the last moment, so that the pace
    grows towards it; a quarter of what has passed since, so that a job in a state nobody knows is not asked for ever.
    """
    last_at = safe_until(job, retention_us)
    gap = (last_at - asked_at) // 8 if asked_at < last_at else (asked_at - last_at) // 4
    return max(ASK_GAP_US_MIN, min(gap, margin_us(retention_us)))


class Absence(Enum):
    """What a 404 for an outstanding job means."""

    TTL = auto()
    """The service deleted it at its TTL."""

    EXPIRED = auto()
    """Its retention could have run out: we came too late."""

    MISSING = auto()
    """Neither explains it: the service forgot it early, or the endpoint is out of its mind for a moment."""


def absence(job: Job, *, now: int, retention_us: int) -> Absence:
    """What a 404 answered at `now` means."""
    if job.ttl_at is not None and now >= job.ttl_at - SECOND_US:
        return Absence.TTL
    if now >= (job.unfinished_at or 0) + retention_us:
        return Absence.EXPIRED
    return Absence.MISSING


def lost_gap_us(retention_us: int) -> int:
    """How far apart two 404s must be for a job to be lost."""
    return max(SECOND_US, LOST_GAP_US * retention_us // RETENTION_US_DEFAULT)


def uncertain_grace_us(job: Job, *, webhooks: bool, p95_us: int | None, wanted_us: int | None) -> int:
    """How long an uncertain submission may wait to be adopted.

    With webhooks the larger of two minutes and twice the learned p95, at most until the TTL; without them nothing can
    adopt it, so 10 s, doubling with each uncertainty of the job. `wanted_us`, the user's own, goes before.
    """
    if wanted_us is not None:
        return wanted_us
    if not webhooks:
        return 10 * SECOND_US << min(job.uncertain, 8)
    grace = max(120 * SECOND_US, 2 * (p95_us or 0))
    if job.ttl_at is not None and job.sent_at is not None:
        grace = min(grace, job.ttl_at - job.sent_at)
    return grace
