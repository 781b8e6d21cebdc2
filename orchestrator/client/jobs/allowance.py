"""How the limits are divided between a batch and the requests that people send by hand beside it.

The limits hold for an endpoint, whoever uses it, so each process keeps to its part. Of `/run` and `/runsync` a batch
takes all there is: one job more or less by hand is what its pacing has room for.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.ownership.handover import EndpointLeft
from orchestrator.core.ownership.lease import LATE_US_MAX
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.client.jobs.rate_limiter import RateLimiter

PEOPLE_SHARE: Final = 0.05
"""The part for people."""

BATCH_OPERATIONS: Final = (Operation.RUN, Operation.STATUS, Operation.RETRY, Operation.CANCEL)
"""What a batch sends many of; or of those whose answers are held, and then next to none of these."""

SYNC_OPERATIONS: Final = (Operation.RUNSYNC, Operation.OPENAI, Operation.HTTP)
"""Those whose answers are held until a job has ended."""

CLAIMED: Final = frozenset({Operation.RUN, *SYNC_OPERATIONS})
"""Those of whose requests the ledger knows before they leave."""

_USUAL: Final = sum(CONTRACT_LIMITS[operation].concurrent or 0 for operation in BATCH_OPERATIONS)


def for_people(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """What is for requests by hand: at least one in each window, and one at once."""
    return {operation: _peoples_part(limit) for operation, limit in limits.items()}


def for_a_batch(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """What is for a batch: all of `/run` and `/runsync`, of everything else what is not for people, at least one."""
    return {
        operation: limit if operation in (Operation.RUN, Operation.RUNSYNC) else _rest(limit, _peoples_part(limit))
        for operation, limit in limits.items()
    }


def within_connections(limits: Mapping[Operation, Limit], connections: int) -> dict[Operation, Limit]:
    """`limits` with so few requests at once that a batch keeps to so many connections.

    Each of its operations has a fixed part of them, by what the contract allows at once; `/health` asks one at a time.
    """
    return {operation: _within(operation, limit, connections) for operation, limit in limits.items()}


def for_an_owner(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """`limits` for a process whose place another one may take: half as many at once, so that its last requests, which
    may arrive when its successor sends already, and those of that one keep to the limit together.

    But all of those whose answers are held: of these the ledger knows how many there can be.
    """
    return {
        operation: limit if operation in SYNC_OPERATIONS or limit.concurrent is None else _half_at_once(limit)
        for operation, limit in limits.items()
    }


def follow_predecessor(
    limiter: "RateLimiter",
    *,
    answered: Iterable[int],
    unanswered: Sequence[int],
    now: int,
    is_successor: bool,
    left: EndpointLeft | None = None,
) -> None:
    """Has the requests of an earlier process hold what they hold of the limits.

    Where that one has `left` how it stood, it goes on so. Else the ledger knows of `/run` what was sent: when it was
    `answered`, or, of the `unanswered`, can have been given up at the latest. Of everything else nobody knows anything:
    it goes evenly for a window. `is_successor`: a process before did not let go. What it may still send has its part
    until it cannot arrive any more: as many as it may have had at once.
    """
    if left is not None:
        limiter.go_on(left.limits, max(0, now - left.left_at))
    else:
        for operation in set(Operation) - {Operation.RUN}:
            limiter.ease_in(operation)
        limiter.hold(Operation.RUN, answered, () if is_successor else unanswered)
    for operation in Operation if is_successor else ():
        limit = limiter.limit(operation)
        # One slot is left where a limit is that small: they come at different times, and no endpoint is to stand still.
        number = min(_late_at_most(operation, limit, len(unanswered)), max(0, limit.requests - 1))
        until = now + LATE_US_MAX + round(limit.window_s * SECOND_US)
        limiter.reserve(operation, number, until, places=number if operation in SYNC_OPERATIONS else 0)


def _late_at_most(operation: Operation, limit: Limit, unanswered: int) -> int:
    """How many of the processes before may still arrive: of what is claimed first those that nobody has an answer to,
    but no more than two of them may have had at once; of everything else as many as one may.
    """
    at_once = limit.concurrent
    if operation not in CLAIMED:
        return at_once or 0  # of the others one is asked for now and then
    return unanswered if at_once is None else min(unanswered, 2 * at_once)


def left_to_successor(limiter: "RateLimiter", finished: tuple[int, int], *, now: int) -> EndpointLeft:
    """How an endpoint stands `now`, by the ledger's clock, for whoever works there next. `finished`: how many jobs have
    of late, and in how long a time.
    """
    return EndpointLeft(now, limiter.left(), *finished)


def _half_at_once(limit: Limit) -> Limit:
    return Limit(limit.requests, limit.window_s, max(1, (limit.concurrent or 1) // 2))


def _within(operation: Operation, limit: Limit, connections: int) -> Limit:
    usual = CONTRACT_LIMITS[operation].concurrent
    if operation not in (*BATCH_OPERATIONS, *SYNC_OPERATIONS) or usual is None:
        return limit
    most = max(1, connections * usual // _USUAL)
    at_once = most if limit.concurrent is None else min(most, limit.concurrent)
    return Limit(limit.requests, limit.window_s, at_once)


def _peoples_part(limit: Limit) -> Limit:
    at_once = None if limit.concurrent is None else max(1, int(limit.concurrent * PEOPLE_SHARE))
    return Limit(max(1, int(limit.requests * PEOPLE_SHARE)), limit.window_s, at_once)


def _rest(limit: Limit, part: Limit) -> Limit:
    at_once = None if limit.concurrent is None or part.concurrent is None else limit.concurrent - part.concurrent
    return Limit(
        max(1, limit.requests - part.requests), limit.window_s, at_once if at_once is None else max(1, at_once)
    )
